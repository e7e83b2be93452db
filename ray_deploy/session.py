"""This process's connection to a Ray cluster: there is one at a time, for all its fabrics.

The first fabric that needs one makes it, the last that uses it ends it; a connection that was there
before is the user's. Ray starts a cluster by itself when it is called without a connection, so that
whoever calls it checks before that `current` is still the one it knows.
"""

from __future__ import annotations

import logging
import os
import socket
import threading
import traceback
from urllib.parse import urlsplit

import ray
from ray._private.authentication.authentication_token_setup import ensure_token_if_auth_enabled
from ray._private.services import canonicalize_bootstrap_address
from ray._raylet import GcsClient  # type: ignore[attr-defined]
from ray.exceptions import RayError

from activebroker.core.errors import AccessDenied, MissingExtra, Unreachable

VARIABLE = "RAY_ADDRESS"
KNOCK = 5.0  # seconds for a head to accept a connection

_lock = threading.Lock()
_users: dict[str, int] = {}  # of the connections that fabrics made, by id


def current() -> str | None:
    """The id of this process's connection; None without one."""
    return ray.get_runtime_context().get_worker_id() if ray.is_initialized() else None


def use(address: str | None) -> str:
    """Connect, unless this process is connected already; return the connection's id.

    Raises Unreachable, AccessDenied, MissingExtra.
    """
    with _lock:
        if (session := current()) is None:
            _connect(address)
            session = current()
            assert session is not None
            _users[session] = 0
        else:
            _check_same(address)
        if session in _users:
            _users[session] += 1
        return session


def release(session: str) -> None:
    """End a connection that a fabric made, once nobody uses it any more."""
    with _lock:
        if session not in _users:
            return
        _users[session] -= 1
        if not _users[session]:
            del _users[session]
            if current() == session:
                ray.shutdown()


def _connect(given: str | None) -> None:
    where = given if given not in (None, "auto") else os.environ.get(VARIABLE) or given
    try:
        _knock(where)
        ray.init(
            address=given,
            include_dashboard=None if where else False,
            logging_level=logging.WARNING,
            log_to_driver=False,
        )
    except ImportError as error:
        raise MissingExtra(f"Ray's client for {where} is missing: {error}") from error
    except (OSError, RuntimeError, ValueError, RayError) as error:
        if "AuthenticationError" in "".join(traceback.format_exception(error)):
            raise AccessDenied(
                f"The Ray cluster {_said(given)} refuses this process's token, or its lack of one. "
                "Set RAY_AUTH_MODE=token, and the cluster's token as RAY_AUTH_TOKEN, or its file's "
                "path as RAY_AUTH_TOKEN_PATH."
            ) from error
        raise Unreachable(
            f"No Ray cluster could be reached or started {_said(given)}: {error}. Is its head "
            f"alive (`ray status --address=...`)? Without an address, as argument or in "
            f"{VARIABLE}, a local one is started."
        ) from error


def _knock(where: str | None) -> None:
    """Raise where no head answers at an address, or refuses us: Ray itself would try for minutes.

    Without a port it is for Ray to find out.
    """
    client = where is not None and "://" in where
    address = where if client else canonicalize_bootstrap_address(where)
    if address is None:
        return  # a local cluster is to be started
    parts = urlsplit(address if client else f"//{address}")
    if parts.hostname and parts.port:
        socket.create_connection((parts.hostname, parts.port), KNOCK).close()
    # Ray turns its tokens on by itself for a cluster that it finds: then it cannot be asked yet.
    if not client and (where not in (None, "auto") or "RAY_AUTH_MODE" in os.environ):
        ensure_token_if_auth_enabled(create_token_if_missing=False)
        GcsClient(address=address)


def _check_same(wanted: str | None) -> None:
    """Raise where another cluster is wanted than the one this process is connected to."""
    if wanted in (None, "auto", "local") or "://" in str(wanted):
        return
    there = ray.get_runtime_context().gcs_address
    if _resolved(canonicalize_bootstrap_address(wanted)) != _resolved(there):
        raise Unreachable(
            f"This process is connected to the Ray cluster at {there}, and cannot use that at "
            f"{wanted} beside it. Leave the address out, or end the connection first: close the "
            "fabrics that use it, or call ray.shutdown()."
        )


def _resolved(address: str) -> tuple[str, int | None]:
    """The IP address and port that `host:port` means; as it is where nothing resolves it."""
    parts = urlsplit(f"//{address}")
    try:
        return socket.gethostbyname(str(parts.hostname)), parts.port
    except OSError:
        return address, None


def _said(given: str | None) -> str:
    if given not in (None, "auto"):
        return f"at {given}"
    if where := os.environ.get(VARIABLE):
        return f"at {where}, which {VARIABLE} names"
    return "on this machine"
