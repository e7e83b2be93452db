"""The hosts of the experiments: limited links, and nothing left behind."""

from __future__ import annotations

import socket
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from multiprocessing import Pipe

import namespaces
import pytest
from namespaces import NAMES, Host, NamespacesUnavailable, check_system, enter, inside, network

MBIT = 10.0
SENT = 500_000  # bytes
PORT = 9000


@pytest.fixture(scope="module", autouse=True)
def permitted():
    try:
        with network({}):
            pass
    except NamespacesUnavailable as missing:
        pytest.skip(str(missing))


def left() -> list[str]:
    return [path.name for path in NAMES.glob("ab-*")]


def receive(host: Host, listening: threading.Event) -> float:
    """Seconds from the connection until all is here; for a thread, which stays in the host."""
    enter(host.namespace)
    with socket.create_server((host.address, PORT)) as server:
        listening.set()
        connected, _ = server.accept()
        with connected:
            start, received = time.monotonic(), 0
            while received < SENT:
                received += len(connected.recv(65536))
            return time.monotonic() - start


def send(host: Host, to: Host) -> None:
    enter(host.namespace)
    with socket.create_connection((to.address, PORT), timeout=10) as connected:
        connected.sendall(bytes(SENT))


def test_a_link_carries_no_more_than_its_rate():
    listening = threading.Event()
    with network({"source": MBIT, "sink": 100.0}) as hosts, ThreadPoolExecutor(2) as pool:
        taken = pool.submit(receive, hosts["sink"], listening)
        assert listening.wait(10)
        pool.submit(send, hosts["source"], hosts["sink"]).result()
        rate = MBIT * 1e6 / 8
        assert taken.result() >= SENT / rate - 2 * namespaces.BURST


def test_hosts_are_gone_after_an_error_with_what_runs_in_them():
    sleeping = [sys.executable, "-c", "import time; time.sleep(60)"]
    with pytest.raises(KeyboardInterrupt), network({"a": MBIT, "b": MBIT}) as hosts:
        names = [host.namespace for host in hosts.values()]
        assert set(names) < set(left())
        process = subprocess.Popen(["ip", "netns", "exec", names[0], *sleeping])
        while str(process.pid) not in subprocess.check_output(
            ["ip", "netns", "pids", names[0]], text=True
        ):
            time.sleep(0.01)
        raise KeyboardInterrupt
    assert process.wait(10) != 0
    assert not set(names) & set(left())


def test_a_network_that_cannot_be_built_leaves_nothing(monkeypatch):
    made = []

    def fail(namespace, device, mbit):
        made.append(namespace)
        raise subprocess.CalledProcessError(2, ["tc"], stderr="no tbf")

    monkeypatch.setattr(namespaces, "_limit", fail)
    with pytest.raises(NamespacesUnavailable, match="no tbf"), network({"a": MBIT}):
        pass
    assert made
    assert not set(made) & set(left())


def test_what_is_missing_is_said(monkeypatch):
    monkeypatch.setattr(namespaces.shutil, "which", lambda tool: None)
    with pytest.raises(NamespacesUnavailable, match="iproute2"):
        check_system()


def test_a_process_enters_before_its_role(monkeypatch):
    entered = []
    monkeypatch.setattr(namespaces, "enter", entered.append)
    monkeypatch.setattr(namespaces.signal, "signal", lambda *arguments: None)
    host = Host("a", "ab-a", "10.0.0.1")
    ours, theirs = Pipe()
    with ours, theirs:
        inside(theirs, host, lambda pipe, word: pipe.send((word, list(entered))), "hello")
        assert ours.recv() == ("hello", ["ab-a"])
