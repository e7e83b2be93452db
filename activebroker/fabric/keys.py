"""Where a fabric's key comes from.

It is the key that the caller gives, or that of the environment variable ACTIVEBROKER_KEY, or that
in the user's key file. The file is made on first use, and refused if other users can read it. So a
fabric on one machine is closed to other users without any configuration.
"""

from __future__ import annotations

import contextlib
import hashlib
import ipaddress
import os
import secrets
import shlex
import stat
from pathlib import Path

from activebroker.core.errors import AccessDenied
from activebroker.transport import generate_key, host_of

VARIABLE = "ACTIVEBROKER_KEY"
_ELSE = (
    f"Pass key=..., or set {VARIABLE} (`activebroker key` prints a new one), or let "
    "XDG_CONFIG_HOME name a directory that you can write to."
)


def find_key(key: str | None = None, *, address: str) -> str:
    """The key to use with a fabric at `address`.

    Raises AccessDenied if the address is not on this machine and no key was given, or if the key
    file cannot be used; Unreachable if the address makes no sense.
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
    """The key in the user's key file, which is made if it is missing.

    Raises AccessDenied if the file cannot be made or read, or if other users may know the key.
    """
    path = _key_file()
    try:
        try:
            return _read(path)
        except FileNotFoundError:
            _make(path)
            return _read(path)
    except AccessDenied:
        raise
    except (OSError, UnicodeDecodeError) as error:
        raise AccessDenied(
            f"The user's key file {path} cannot be read or made: {error}. {_ELSE}"
        ) from error


def _key_file() -> Path:
    try:
        home = os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config"
    except RuntimeError as error:
        raise AccessDenied(f"There is no place for the user's key file: {error} {_ELSE}") from error
    return Path(home).absolute() / "activebroker" / "key"


def _read(path: Path) -> str:
    with path.open() as file:
        found = os.fstat(file.fileno())
        if found.st_uid != os.geteuid():
            raise AccessDenied(
                f"The key file {path} belongs to another user (id {found.st_uid}), who knows the "
                "key: remove it, and a new one is made."
            )
        if found.st_mode & 0o077:
            raise AccessDenied(
                f"Others than its owner may use the key file {path} (mode "
                f"{stat.S_IMODE(found.st_mode):04o}): run `chmod 600 {shlex.quote(str(path))}`. If "
                "they may have read it, remove it instead, and a new one is made."
            )
        if not (key := file.read().strip()):
            raise AccessDenied(f"The key file {path} is empty: remove it, and a new one is made.")
        return key


def _make(path: Path) -> None:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    fresh = path.with_name(f"key.{secrets.token_hex(4)}")
    descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(descriptor, "w") as file:
            file.write(generate_key() + "\n")
        with contextlib.suppress(FileExistsError):
            os.link(fresh, path)  # the first process decides
    finally:
        fresh.unlink()


def signing_key(key: str) -> bytes:
    """The key that signs filter payloads in a fabric with this key."""
    return hashlib.sha256(b"activebroker filter payload\0" + key.encode()).digest()


def is_loopback(address: str) -> bool:
    """Whether `tcp://host:port` is reachable from this machine only.

    Raises Unreachable for an address of another form.
    """
    host = host_of(address)
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
