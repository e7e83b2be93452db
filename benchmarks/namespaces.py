"""Hosts on one machine: network namespaces that a switch connects by links of a given rate.

Every host has an interface of its own (one end of a veth pair), whose other end is a port of a
bridge. A token bucket at the host's end limits what it sends, one at the port's end what it gets.
The bridge has a namespace too, so nothing of the machine's own network is touched. Needs Linux,
root (CAP_NET_ADMIN and CAP_SYS_ADMIN), iproute2 and sysctl.
"""

from __future__ import annotations

import ctypes
import os
import secrets
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from types import FrameType
from typing import Any

NAMES = Path("/run/netns")  # where `ip netns` keeps namespaces alive
CLONE_NEWNET = 0x40000000  # the kind that `setns` expects
SUBNET = "10.213.0"  # of the hosts; nobody outside sees it
MTU = 1500  # bytes of an IP packet
FRAME = MTU + 14  # bytes of it on the link, as the token bucket counts
SEGMENT = MTU - 52  # bytes of it that are payload of TCP, with timestamps
BURST = 0.01  # seconds of the rate that may leave at once
LATENCY = 0.2  # seconds that a packet may wait in a token bucket; others are dropped
TCP = "reno"  # every kernel has it, and it shares a link more evenly than BBR


class NamespacesUnavailable(Exception):
    """This system does not let us make network namespaces; the message says what is missing."""


@dataclass(frozen=True)
class Host:
    """A place for processes, with an address that the other hosts reach."""

    name: str
    namespace: str
    address: str


def goodput(mbit: float) -> float:
    """The payload bytes a second that TCP can carry over a link of `mbit` Mbit/s."""
    return mbit * 1e6 / 8 * SEGMENT / FRAME


@contextmanager
def network(links: Mapping[str, float]) -> Iterator[dict[str, Host]]:
    """Hosts by name; `links` has the rate of each one's link, in Mbit/s each way.

    All of it is gone when the block ends, however it ends (SIGTERM included), and so is every
    process in a host that outlived the block. Raises NamespacesUnavailable.
    """
    check_system()
    prefix = f"ab-{secrets.token_hex(4)}"
    switch = f"{prefix}-switch"
    hosts = {
        name: Host(name, f"{prefix}-{name}", f"{SUBNET}.{number}")
        for number, name in enumerate(links, 1)
    }
    former = signal.signal(signal.SIGTERM, _exit)
    try:
        _make_switch(switch)
        for number, host in enumerate(hosts.values(), 1):
            _connect(host, switch, f"port{number}", links[host.name])
        yield hosts
    finally:
        # A second Ctrl-C must not stop the clean-up half-way.
        interrupt = signal.signal(signal.SIGINT, signal.SIG_IGN)
        try:
            _remove(prefix)
        finally:
            signal.signal(signal.SIGINT, interrupt)
            signal.signal(signal.SIGTERM, former)


def check_system() -> None:
    """Raise NamespacesUnavailable, saying why, where `network` cannot work."""
    if not sys.platform.startswith("linux"):
        raise NamespacesUnavailable("network namespaces need Linux")
    for tool, package in (("ip", "iproute2"), ("tc", "iproute2"), ("sysctl", "procps")):
        if shutil.which(tool) is None:
            raise NamespacesUnavailable(f"`{tool}` is not installed (package {package})")
    if os.geteuid() != 0:
        raise NamespacesUnavailable("network namespaces need root (CAP_NET_ADMIN)")


def inside(pipe: Connection, host: Host, role: Callable[..., None], *arguments: Any) -> None:
    """The role of a worker that runs another role in a host: `start(name, inside, host, role)`."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # it is the starter that ends us
    enter(host.namespace)
    role(pipe, *arguments)


def enter(namespace: str) -> None:
    """Go to a namespace with this thread, and those that it starts from now on."""
    libc = ctypes.CDLL(None, use_errno=True)  # `os.setns` needs Python 3.12
    with (NAMES / namespace).open() as opened:
        if libc.setns(opened.fileno(), CLONE_NEWNET) != 0:
            number = ctypes.get_errno()
            raise OSError(number, f"cannot enter {namespace}: {os.strerror(number)}")


# --- building and removing ----------------------------------------------------------------------


def _make_switch(namespace: str) -> None:
    try:
        _ip("netns", "add", namespace)
        _ip("-n", namespace, "link", "add", "name", "bridge0", "type", "bridge")
    except subprocess.CalledProcessError as error:
        raise NamespacesUnavailable(_reason(error)) from error
    _ip("-n", namespace, "link", "set", "bridge0", "up")


def _connect(host: Host, switch: str, port: str, mbit: float) -> None:
    """Make a host and its link to the switch."""
    here, there = ("-n", host.namespace), ("-n", switch)
    _ip("netns", "add", host.namespace)
    pair = ("type", "veth", "peer", "name", "eth0", "netns", host.namespace)
    try:
        _ip(*there, "link", "add", "name", port, *pair)
        _limit(host.namespace, "eth0", mbit)
        setting = f"net.ipv4.tcp_congestion_control={TCP}"
        _ip("netns", "exec", host.namespace, "sysctl", "-qw", setting)
    except subprocess.CalledProcessError as error:
        raise NamespacesUnavailable(_reason(error)) from error
    _limit(switch, port, mbit)
    _ip(*there, "link", "set", port, "master", "bridge0", "up")
    _ip(*here, "addr", "add", f"{host.address}/24", "dev", "eth0")
    _ip(*here, "link", "set", "lo", "up")
    _ip(*here, "link", "set", "eth0", "up")


def _limit(namespace: str, device: str, mbit: float) -> None:
    """Limit what leaves by a device. A bucket that is too small wastes the link; too large, and
    short transfers are faster than it."""
    rate = f"{mbit * 1e6:.0f}bit"
    burst = max(4 * FRAME, round(mbit * 1e6 / 8 * BURST))
    bucket = ("tbf", "rate", rate, "burst", str(burst), "latency", f"{LATENCY * 1e3:.0f}ms")
    _run("tc", "-n", namespace, "qdisc", "add", "dev", device, "root", *bucket)


def _remove(prefix: str) -> None:
    """Remove all namespaces of a network, with the processes in them."""
    for path in NAMES.glob(f"{prefix}-*"):
        with suppress(subprocess.CalledProcessError):  # the others go all the same
            for pid in _ip("netns", "pids", path.name).split():
                with suppress(ProcessLookupError):
                    os.kill(int(pid), signal.SIGKILL)
            _ip("netns", "del", path.name)
    if left := [path.name for path in NAMES.glob(f"{prefix}-*")]:
        raise RuntimeError(f"network namespaces are left: {', '.join(left)}")


def _ip(*arguments: str) -> str:
    return _run("ip", *arguments)


def _run(*command: str) -> str:
    # In a session of its own: Ctrl-C is for us, and must not end a command of the clean-up.
    return subprocess.run(
        command, check=True, capture_output=True, text=True, start_new_session=True
    ).stdout


def _reason(error: subprocess.CalledProcessError) -> str:
    return f"`{' '.join(error.cmd)}` failed: {error.stderr.strip()}"


def _exit(number: int, frame: FrameType | None) -> None:
    raise SystemExit(128 + number)
