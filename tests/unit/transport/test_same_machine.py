"""Where Unix sockets lie, who finds them, and when there are none."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from activebroker.transport import same_machine
from activebroker.transport.same_machine import LONGEST, STALE_AFTER, own_socket, peer_socket

ADDRESS = "tcp://127.0.0.1:7400"
KEY = "k" * 40
IN_A_NETWORK_OF_ITS_OWN = ("unshare", "--net")


@pytest.fixture(autouse=True)
def temporary(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A short directory of our own in place of the system's temporary one."""
    path = Path(tempfile.mkdtemp(dir="/tmp"))
    monkeypatch.setattr(tempfile, "tempdir", str(path))
    yield path
    shutil.rmtree(path)


def listen(path: Path) -> socket.socket:
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listener.bind(str(path))
    listener.listen()
    return listener


def own(key: str = KEY, address: str = ADDRESS) -> Path:
    path = own_socket(key, address)
    assert path is not None
    return path


def seen_by_another_process(temporary: Path, *before: str) -> list[str]:
    """What a process finds there at ADDRESS, and where it would listen itself."""
    script = (
        "from activebroker.transport.same_machine import own_socket, peer_socket\n"
        f"print(peer_socket({KEY!r}, {ADDRESS!r}), own_socket({KEY!r}, {ADDRESS!r}))"
    )
    command = [*before, sys.executable, "-c", script]
    environment = {**os.environ, "TMPDIR": str(temporary)}
    return subprocess.run(
        command, env=environment, check=True, capture_output=True, text=True
    ).stdout.split()


def may_make_networks() -> bool:
    try:
        return (
            subprocess.run([*IN_A_NETWORK_OF_ITS_OWN, "true"], capture_output=True).returncode == 0
        )
    except FileNotFoundError:
        return False


def test_a_peer_finds_the_socket(temporary):
    path = own()
    assert peer_socket(KEY, ADDRESS) is None
    with listen(path):
        assert peer_socket(KEY, ADDRESS) == path
        assert seen_by_another_process(temporary) == [str(path), str(path)]


@pytest.mark.skipif(not may_make_networks(), reason="may not make network namespaces")
def test_who_is_in_another_network_is_on_another_machine(temporary):
    path = own()
    with listen(path):
        found, would_listen = seen_by_another_process(temporary, *IN_A_NETWORK_OF_ITS_OWN)
    assert found == "None"
    assert Path(would_listen).parent == path.parent
    assert Path(would_listen) != path


def test_a_system_without_network_namespaces_has_the_short_cut(monkeypatch):
    monkeypatch.setattr(same_machine, "NETWORK", Path("/nowhere"))
    path = own()
    with listen(path):
        assert peer_socket(KEY, ADDRESS) == path


def test_another_key_or_address_has_another_socket():
    with listen(own()):
        assert peer_socket("l" * 40, ADDRESS) is None
        assert peer_socket(KEY, "tcp://127.0.0.1:7401") is None


def test_only_the_user_may_enter_the_directory():
    assert own().parent.stat().st_mode & 0o777 == 0o700


def test_a_directory_that_others_may_enter_is_not_used():
    with listen(own()) as listener:
        Path(listener.getsockname()).parent.chmod(0o755)
        assert peer_socket(KEY, ADDRESS) is None
        assert own_socket(KEY, ADDRESS) is None


def test_a_directory_that_another_user_made_is_not_used(monkeypatch):
    directory = own().parent
    other = os.getuid() + 1
    shutil.move(directory, directory.with_name(f"activebroker-{other}"))
    monkeypatch.setattr(os, "getuid", lambda: other)
    assert own_socket(KEY, ADDRESS) is None


def test_a_link_in_its_place_is_not_followed(temporary):
    elsewhere = temporary / "elsewhere"
    elsewhere.mkdir(mode=0o700)
    (temporary / f"activebroker-{os.getuid()}").symlink_to(elsewhere)
    assert own_socket(KEY, ADDRESS) is None


def test_a_path_that_is_too_long_is_not_used(temporary, monkeypatch):
    deep = temporary / ("d" * LONGEST)
    deep.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(deep))
    assert own_socket(KEY, ADDRESS) is None


def test_no_unix_sockets_no_short_cut(monkeypatch):
    monkeypatch.delattr(same_machine.socket, "AF_UNIX")
    assert own_socket(KEY, ADDRESS) is None
    assert peer_socket(KEY, ADDRESS) is None


def test_what_killed_processes_left_is_removed():
    dead, living, young = (own(address=f"tcp://127.0.0.1:{port}") for port in (1, 2, 3))
    listen(dead).close()
    listen(young).close()
    with listen(living):
        long_ago = dead.stat().st_mtime - 2 * STALE_AFTER
        for path in (dead, living):
            os.utime(path, (long_ago, long_ago))
        own()
        assert not dead.exists()
        assert living.exists()
        assert young.exists()
