"""This process's connection to a Ray cluster: who makes it, who ends it, what cannot be reached."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = [pytest.mark.ray, pytest.mark.timeout(180)]

# Each in a process of its own: the one that runs the tests is connected already.
SHARED = """
import asyncio
import ray
import activebroker as ab
from activebroker import aio
from activebroker.node.links import peers
from activebroker.core.errors import UnknownPlace, Unreachable
from ray_deploy import Placement, RayFabric

def works(fabric):
    numbers = fabric.channel("numbers", object)
    with numbers.derive(lambda n: n > 1, at="b").subscribe(timeout=60) as events:
        with numbers.supplier() as supplier:
            supplier.publish_batch([1, 2, 3])
        numbers.close()
        return [event.content for event in events] == [2, 3]

def refused(error, action):
    try:
        action()
    except error as refusal:
        print(refusal)
    else:
        raise AssertionError("it was not refused")

async def use_first():
    async with aio.open(RayFabric, ["b"]) as first:
        numbers = await first.channel("numbers", object)
        async with numbers.subscribe(timeout=60) as events, numbers.supplier() as supplier:
            await supplier.publish(1)
            assert (await anext(events)).content == 1
        return RayFabric(["b"])

second = asyncio.run(use_first())
assert ray.is_initialized() and works(second), "the first that closes ends what is its own"
refused(Unreachable, lambda: RayFabric(address="127.0.0.2:6379"))
peers.LOST_AFTER = 5.0
events = second.channel("later", object).subscribe(timeout=60)
ray.shutdown()
refused(Unreachable, lambda: next(iter(events)))
for change in (lambda: second.start_broker("c"), lambda: second.stop_broker("b"), second.close):
    change() if change == second.close else refused((Unreachable, UnknownPlace), change)
    assert not ray.is_initialized(), "Ray was started by itself"

nowhere = {"b": Placement(cpus=100)}
refused(UnknownPlace, lambda: RayFabric(nowhere))
assert not ray.is_initialized(), "the last ends what the first began"
ray.init(log_to_driver=False)
refused(UnknownPlace, lambda: RayFabric(nowhere))
assert ray.is_initialized(), "it was not the fabric's"
print("all is well")
"""


def test_fabrics_of_a_process_share_a_connection(ray_cluster: Any) -> None:
    done = run(SHARED, RAY_ADDRESS=ray_cluster.address)
    assert "all is well" in done, done
    assert "connected to the Ray cluster at" in done
    assert "cannot join its fabric again: This process's connection to the Ray cluster has" in done
    assert done.count("connection to the Ray cluster has ended, ") == 3


REFUSED = """
import os, sys, time
from ray_deploy import RayFabric
for case in sys.argv[1:]:
    argument, os.environ["RAY_ADDRESS"] = case.split(",")
    began = time.monotonic()
    try:
        RayFabric(address=argument or None)
    except Exception as error:
        print(type(error).__name__, str(error).splitlines()[0], end=" ")
    print("at once" if time.monotonic() - began < 10 else "late")
"""


def test_a_dead_head_is_named_at_once(tmp_path: Path) -> None:
    (tmp_path / "ray").mkdir()
    with socket.socket() as kept:  # nobody listens there, nor will
        kept.bind(("127.0.0.1", 0))
        dead = f"127.0.0.1:{kept.getsockname()[1]}"
        (tmp_path / "ray" / "ray_current_cluster").write_text(dead)  # as by a `ray start` before
        cases = [f"{dead},", f",{dead}", f"auto,{dead}", f"ray://{dead},", f",ray://{dead}", ","]
        printed = run(REFUSED, *cases, RAY_TMPDIR=str(tmp_path)).splitlines()
        said = [line for line in printed if line.endswith(("at once", "late"))]  # and not by Ray
    assert len(said) == len(cases)
    for case, line in zip(cases, said, strict=True):
        assert "Unreachable No Ray cluster could be reached" in line
        assert line.endswith("at once")
        assert ("which RAY_ADDRESS names" in line) == (len(case.partition(",")[2]) > 0)


@pytest.mark.parametrize(
    "environment",
    [
        {"RAY_AUTH_TOKEN": "wrong" * 10},
        {"RAY_AUTH_TOKEN": ""},
        {"RAY_AUTH_MODE": "disabled"},
        {"RAY_AUTH_MODE": ""},
    ],
    ids=repr,
)
def test_a_token_that_is_refused_is_named_as_such(
    ray_cluster: Any, environment: dict[str, str], tmp_path: Path
) -> None:
    address = ray_cluster.address
    said = run(REFUSED, f"{address},", f",{address}", HOME=str(tmp_path), **environment)
    assert said.count("AccessDenied The Ray cluster at") == said.count("at once") == 2
    assert said.count("RAY_AUTH_TOKEN,") == 2


def run(script: str, *arguments: str, **environment: str) -> str:
    """What a script prints. A variable that is empty is none."""
    kept = {name: value for name, value in (os.environ | environment).items() if value}
    done = subprocess.run(
        [sys.executable, "-c", script, *arguments],
        env=kept,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=150,
    )
    return "".join(
        line for line in done.stdout.splitlines(keepends=True) if not line.startswith("[20")
    )
