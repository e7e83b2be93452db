"""The user's key file: made for the user alone, and refused where others may know it."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import activebroker as ab
from activebroker.core.errors import AccessDenied
from activebroker.fabric import keys

HERE = "tcp://127.0.0.1:7400"


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.delenv("ACTIVEBROKER_KEY", raising=False)
    return tmp_path / "config" / "activebroker" / "key"


def test_it_is_made_once_and_for_the_user_alone(file: Path) -> None:
    before = os.umask(0)
    try:
        key = keys.find_key(address=HERE)
    finally:
        os.umask(before)
    assert len(key) == 40
    assert keys.find_key(address=HERE) == key
    assert file.stat().st_mode & 0o777 == 0o600
    assert file.parent.stat().st_mode & 0o777 == 0o700
    assert list(file.parent.iterdir()) == [file]


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620, 0o602, 0o644, 0o666, 0o610, 0o777])
def test_one_that_others_may_use_is_refused_with_the_remedy(file: Path, mode: int) -> None:
    key = keys.user_key()
    file.chmod(mode)
    with pytest.raises(AccessDenied, match=f"mode 0{mode:o}.*run `chmod 600 {file}`"):
        keys.find_key(address=HERE)
    assert keys.find_key("given", address=HERE) == "given"
    file.chmod(0o600)
    assert keys.user_key() == key


def test_one_that_others_own_is_refused(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    keys.user_key()
    monkeypatch.setattr(os, "geteuid", lambda: 4711)  # as if it were not ours
    with pytest.raises(AccessDenied, match=r"belongs to another user.*remove it"):
        keys.user_key()


def nothing(file: Path) -> None:
    file.write_text(" \n")


def no_text(file: Path) -> None:
    file.write_bytes(b"\xff" * 40)


def folder(file: Path) -> None:
    file.unlink()
    file.mkdir(mode=0o700)


def file_for_a_folder(file: Path) -> None:
    file.unlink()
    file.parent.rmdir()
    file.parent.write_text("")


def loop(file: Path) -> None:
    file.unlink()
    file.symlink_to(file)


@pytest.mark.parametrize("spoil", [nothing, no_text, folder, file_for_a_folder, loop])
def test_one_of_no_use_is_named(file: Path, spoil: Callable[[Path], None]) -> None:
    keys.user_key()
    spoil(file)
    with pytest.raises(AccessDenied, match=str(file)):
        keys.user_key()


@pytest.mark.parametrize("where", ["/dev/null/config", "/proc/none/config"])
def test_a_place_where_nothing_can_be_made(monkeypatch: pytest.MonkeyPatch, where: str) -> None:
    monkeypatch.delenv("ACTIVEBROKER_KEY", raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", where)
    with pytest.raises(AccessDenied, match=f"{where}.*ACTIVEBROKER_KEY"):
        keys.user_key()
    monkeypatch.delenv("XDG_CONFIG_HOME")
    monkeypatch.setenv("HOME", where)
    with pytest.raises(AccessDenied, match=f"{where}.*ACTIVEBROKER_KEY"):
        ab.connect(HERE)
    with ab.Fabric() as fabric:  # which needs no key
        assert fabric.channel("any", object).name == "any"


def test_no_home_at_all(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_home() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    monkeypatch.setattr(Path, "home", no_home)
    with pytest.raises(AccessDenied, match=r"determine home directory.*ACTIVEBROKER_KEY"):
        keys.user_key()


def test_many_at_once_agree(file: Path) -> None:
    with ThreadPoolExecutor(8) as pool:
        assert (
            len({taken.result() for taken in [pool.submit(keys.user_key) for _ in range(8)]}) == 1
        )
    assert list(file.parent.iterdir()) == [file]
