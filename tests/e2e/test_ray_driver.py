"""The process that made a fabric on Ray: it stands still, comes back, and dies."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from typing import Any

import psutil
import pytest
from brokers_for_tests import until
from processes_for_tests import PATIENCE, Programs

import activebroker as ab
from activebroker.core.errors import Unreachable
from activebroker.node.links import peers

pytestmark = [pytest.mark.ray, pytest.mark.timeout(180)]

DRIVER = """
import os, threading
import ray
from ray_deploy import RayFabric

def pid_of(actor):
    "Of a broker, which now takes for lost who is silent for five seconds."
    from activebroker.node.links import peers
    peers.LOST_AFTER = 5.0
    return os.getpid()

fabric = RayFabric(["hub", "dallas"])
actors = fabric._ray._actors.values()
pids = ray.get([each.__ray_call__.remote(pid_of) for each in actors])
numbers = fabric.channel("numbers", object)
numbered = numbers.derive(lambda number: number % 2 == 0, at="dallas", name="even")
back = numbers.subscribe(timeout=60)
say(json.dumps([fabric.node, fabric.address, fabric.key, pids]))
sys.stdin.readline()
enough = threading.Event()

def publish():
    with numbers.supplier("S") as supplier:
        number = 0
        while not enough.wait(0.01):
            supplier.publish(number)
            number += 1

publishing = threading.Thread(target=publish)
publishing.start()
sys.stdin.readline()
fabric.start_broker("later")
enough.set()
publishing.join()
numbers.close()
seen = [event.content for event in back]
say(seen == list(range(len(seen))), len(seen))
sys.stdin.readline()
"""


def test_a_driver_that_stood_still_is_back_and_one_that_was_killed_ends_its_fabric(
    ray_cluster: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAY_ADDRESS", ray_cluster.address)
    with Programs(tmp_path, "0" * 40) as programs:
        driver = programs.run(DRIVER)
        node, address, key, pids = json.loads(driver.line())
        with ab.connect(address, key, reconnect=False) as other:
            seen: list[int] = []
            even: list[int] = []
            numbers = other.channel("numbers")
            all_of_it = numbers.subscribe(lambda event: seen.append(event.content))
            half = other.channel("even").subscribe(lambda event: even.append(event.content))

            def members() -> set[str]:
                return {each["name"] for each in other.status()["members"]}

            driver.tell()
            until(lambda: len(seen) > 50, "it publishes")
            os.kill(driver.pid, signal.SIGSTOP)
            try:
                until(lambda: node not in members(), "it is found lost")
            finally:
                os.kill(driver.pid, signal.SIGCONT)
            until(lambda: node in members(), "it is back")
            before = len(seen)
            until(lambda: len(seen) > before + 50, "it publishes again")
            driver.tell()
            told = driver.line()
            for each in (all_of_it, half):
                each.join(PATIENCE)
            assert told == f"True {len(seen)}"
            assert seen == list(range(len(seen)))
            assert even == seen[::2]
            assert members() == {node, other.node, "hub", "dallas", "later"}

            monkeypatch.setattr(peers, "LOST_AFTER", 5.0)
            events = other.channel("later numbers", object).subscribe(timeout=PATIENCE)
            brokers = [psutil.Process(pid) for pid in pids]
            driver.kill()
            with pytest.raises(Unreachable, match="The fabric's directory at 'hub'"):
                next(iter(events))
            assert psutil.wait_procs(brokers, timeout=PATIENCE)[1] == []
