"""A broker whose node has failed ends its process, aloud, so that whoever started it sees it."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

import activebroker as ab

FAILING = """
import sys
from activebroker.runtime import Runtime

def fail(self):
    raise ZeroDivisionError("planted")

Runtime._patience = fail
"""
COMMAND = """
from activebroker.cli.app import main
sys.argv = ["activebroker", "broker", "--listen", "tcp://127.0.0.1:*", "--name", "hub"]
main()
"""
ACTOR = """
import logging, threading, types
from activebroker.fabric import serve
from ray_deploy.host import BrokerActor
actor = BrokerActor.__new__(BrokerActor)  # without Ray, which would only run this method
actor._stopped = threading.Event()
actor._keep(serve("hub", "tcp://127.0.0.1:*", "0" * 40))
"""


@pytest.mark.parametrize("host", [COMMAND, ACTOR], ids=["command", "Ray actor"])
def test_the_process_of_a_broker_that_has_failed_ends_with_an_error(host: str) -> None:
    ended = subprocess.run(
        [sys.executable, "-c", FAILING + host],
        env=os.environ | {"ACTIVEBROKER_KEY": ab.generate_key()},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ended.returncode == 70
    assert "node 'hub' has failed and ends" in ended.stderr
    assert "ZeroDivisionError: planted" in ended.stderr
