"""What a fabric survives of its Ray cluster: a node that is drained and goes, and the head."""

from __future__ import annotations

import subprocess
import sys

import pytest

pytestmark = [pytest.mark.ray, pytest.mark.timeout(300)]

# A cluster of its own, in a process of its own: it does not live to serve another test.
PROGRAM = """
import subprocess, sys
from dataclasses import dataclass
import ray
from ray.cluster_utils import Cluster
import activebroker as ab
from ray_deploy import Placement, RayFabric

@dataclass(frozen=True)
class Trade:
    number: int

class Numbered(ab.FIFOFilter):
    def __init__(self):
        self.seen = 0

    def enqueue(self, event):
        super().enqueue(event.replace(Trade(self.seen)))
        self.seen += 1

head = {"num_cpus": 1, "include_dashboard": False, "resources": {"head": 1}}
cluster = Cluster(initialize_head=True, head_node_args=head)
east = cluster.add_node(num_cpus=1, resources={"east": 1})
cluster.add_node(num_cpus=1, resources={"west": 1})
ray.init(address=cluster.address, log_to_driver=False, logging_level="error")
places = {"hub": "west", "atlanta": "east", "dallas": "west"}
fabric = RayFabric({name: Placement(resources={at: 0.01}) for name, at in places.items()})

def in_haste(actor):
    "Take for lost who is silent for five seconds."
    from activebroker.node.links import peers
    peers.LOST_AFTER = 5.0

ray.get(fabric._ray._actors["hub"].__ray_call__.remote(in_haste))
trades = fabric.channel("trades", Trade)
numbered = trades.derive(Numbered, at="atlanta", name="numbered")
nyse = trades.supplier("NYSE")
events = numbered.subscribe(timeout=60)
taken = iter(events)

def check(upto):
    "So many have come in all, each once and with the state of its filter."
    nyse.publish_batch([Trade(0)] * (upto - nyse.published), timeout=60)
    while (event := next(taken)).seq < upto - 1:
        assert event.content.number == event.seq
    assert event.content.number == event.seq == upto - 1

def where():
    return next(each["at"] for each in fabric.status()["channels"] if each["parent"])

check(1000)
drain = [sys.executable, "-m", "ray.scripts.scripts", "drain-node", "--address",
         cluster.address, "--node-id", east.node_id, "--reason", "DRAIN_NODE_REASON_PREEMPTION",
         "--reason-message", "spot", "--deadline-remaining-seconds", "60"]
subprocess.run(drain, check=True, capture_output=True)
check(2000)
assert where() == "atlanta", "who drains a node may still move what is there"
cluster.remove_node(east, allow_graceful=False)
while where() == "atlanta":  # its process may live for a moment
    check(nyse.published + 100)
numbered.move(to="dallas")
check(nyse.published + 1000)

cluster.head_node.kill_gcs_server()
check(nyse.published + 1000)
numbered.move(to="hub")
with ab.connect(fabric.address, fabric.key) as other:
    assert other.channel("trades").name == "trades"
check(nyse.published + 1000)
trades.close()
assert not list(taken)
print("survived", flush=True)
"""


def test_the_fabric_outlives_a_node_and_the_head() -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=240
    )
    assert "survived" in done.stdout, done.stderr
