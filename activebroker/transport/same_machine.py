"""A short cut between processes of one user on one machine: a Unix socket beside each TCP one.

Encryption costs more than all else that a batch meets on its way, and protects nothing here: the
socket lies in a directory that only its user can enter, and whoever can act as that user can read
the key as well. Where there is no such directory, peers keep to TCP.

Who is in another network namespace (a container, say) is on another machine, even where both see
the same directory: an address means something else there, and its network may have limits.
"""

from __future__ import annotations

import hashlib
import os
import socket
import stat
import tempfile
import time
from pathlib import Path

NETWORK = Path("/proc/self/ns/net")
LONGEST = 100  # bytes of a Unix socket's path that every system takes
STALE_AFTER = 60.0  # seconds: a younger socket may still be about to listen


def own_socket(key: str, address: str) -> Path | None:
    """Where the node that listens at `address` also listens; None if there is no safe place."""
    if (directory := _directory()) is None:
        return None
    _sweep(directory)
    path = _path(directory, key, address)
    return path if len(os.fsencode(path)) <= LONGEST else None


def peer_socket(key: str, address: str) -> Path | None:
    """Where the node at `address` might be reached without TCP; None if it is not on this machine
    or in its network namespace, or belongs to another user."""
    if (directory := _directory()) is None:
        return None
    path = _path(directory, key, address)
    return path if path.exists() else None


def _directory() -> Path | None:
    if not hasattr(socket, "AF_UNIX") or not hasattr(os, "getuid"):
        return None
    path = Path(tempfile.gettempdir()) / f"activebroker-{os.getuid()}"
    try:
        path.mkdir(mode=0o700, exist_ok=True)
        found = path.lstat()
    except OSError:
        return None
    # Someone else may have made it, to listen in.
    private = stat.S_ISDIR(found.st_mode) and stat.S_IMODE(found.st_mode) == 0o700
    return path if private and found.st_uid == os.getuid() else None


def _path(directory: Path, key: str, address: str) -> Path:
    # The key is part of the name: who dials with another key gets no further than TCP.
    place = f"{address} {_network()}"
    name = hashlib.blake2b(place.encode(), key=key.encode(), digest_size=12).hexdigest()
    return directory / name


def _network() -> str:
    """The network namespace of this process; empty on systems without."""
    try:
        return str(NETWORK.readlink())
    except OSError:
        return ""


def _listening(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as trial:
        try:
            trial.connect(str(path))
        except OSError:
            return False
    return True


def _sweep(directory: Path) -> None:
    """Remove what killed processes left."""
    for path in directory.iterdir():
        try:
            old = time.time() - path.stat().st_mtime > STALE_AFTER
            if old and not _listening(path):
                path.unlink()
        except FileNotFoundError:
            pass  # another process was faster
