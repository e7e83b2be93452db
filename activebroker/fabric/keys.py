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

from activebroker.core.errors import AccessDenied
from activebroker.transport import generate_key, host_of

VARIABLE = "ACTIVEBROKER_KEY"


def find_key(key: str | None = None, *, address: str) -> str:
    """The key to use with a fabric at `address`.

    Raises AccessDenied where the address is beyond this machine and no key was given, Unreachable
    where it cannot be told.
    """
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


def is_loopback(address: str) -> bool:
    """Whether `tcp://host:port` is reachable from this machine only.

    Raises Unreachable for anything else.
    """
    host = host_of(address)
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
