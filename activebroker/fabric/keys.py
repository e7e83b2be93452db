"""Where a fabric's key comes from.

A key given is used as it is. Else the environment variable ACTIVEBROKER_KEY, else the user's own
key file, which is made on first use and readable by that user only: so a fabric on one machine is
closed to other users without any configuration.
"""

from __future__ import annotations

import hashlib
import ipaddress
import os
from pathlib import Path
from urllib.parse import urlsplit

from activebroker.core.errors import AccessDenied, Unreachable
from activebroker.transport import generate_key

VARIABLE = "ACTIVEBROKER_KEY"


def find_key(key: str | None = None, *, address: str) -> str:
    """The key to use with a fabric at `address`.

    Raises Unreachable where it is not of the form tcp://host:port, AccessDenied where it is beyond
    this machine and no key was given.
    """
    if not _is_address(address):
        raise Unreachable(f"{address!r} is not an address. Expected tcp://host:port.")
    if key := key or os.environ.get(VARIABLE):
        return key
    if not is_loopback(address):
        raise AccessDenied(
            f"A fabric at {address} can be reached from other machines and needs a key: pass "
            f"key=..., or set {VARIABLE}. `activebroker key` prints a new one."
        )
    return user_key()


def user_key() -> str:
    """The key in the user's key file; the file is made if it is missing."""
    home = os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config"
    path = Path(home) / "activebroker" / "key"
    try:
        return path.read_text().strip()
    except FileNotFoundError:
        path.parent.mkdir(parents=True, exist_ok=True)
        fresh = path.with_name(f"key.{os.getpid()}")
        descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "w") as file:
            file.write(generate_key() + "\n")
        try:
            os.link(fresh, path)  # whoever was first decides
        except FileExistsError:
            pass
        finally:
            fresh.unlink()
        return path.read_text().strip()


def signing_key(key: str) -> bytes:
    """The key that signs filter payloads in a fabric with this key."""
    return hashlib.sha256(b"activebroker filter payload\0" + key.encode()).digest()


def _is_address(text: str) -> bool:
    try:
        parts = urlsplit(text.replace(":*", ":0"))
        return parts.scheme == "tcp" and bool(parts.hostname) and parts.port is not None
    except ValueError:  # a port that is no number
        return False


def is_loopback(address: str) -> bool:
    """Whether `tcp://host:port` is reachable from this machine only."""
    host = urlsplit(address.replace(":*", ":0")).hostname or ""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
