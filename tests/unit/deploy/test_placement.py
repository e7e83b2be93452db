"""Which nodes can take a broker, told from their totals; no cluster is asked."""

from __future__ import annotations

import pytest

from activebroker.core.errors import UnknownPlace
from ray_deploy import Placement

EAST, WEST, GONE = "east", "west", "gone"
IDS = {name: digit * 56 for name, digit in [(EAST, "a"), (WEST, "b"), (GONE, "c")]}
NODES = [
    {
        "NodeID": IDS[name],
        "NodeName": name,
        "NodeManagerAddress": "10.0.0.1",  # several nodes on a machine
        "Alive": name != GONE,
        "Resources": {"CPU": 4.0, f"node:{name}": 1.0, "memory": 1e9, **resources},
        "Labels": {"ray.io/node-id": IDS[name], **labels},
    }
    for name, resources, labels in [
        (EAST, {"gold": 2.0}, {"zone": "east"}),
        (WEST, {"silver": 1.0}, {"zone": "west", "disk": "fast"}),
        (GONE, {"CPU": 100.0, "gold": 9.0, "silver": 9.0}, {"zone": "east", "disk": "fast"}),
    ]
]


@pytest.mark.parametrize(
    "placement",
    [
        Placement(cpus=100),
        Placement(cpus=4.5),
        Placement(resources={"copper": 1}),
        Placement(resources={"gold": 3}),
        Placement(resources={"gold": 1, "silver": 1}),
        Placement(labels={"zone": "north"}),
        Placement(labels={"zone": "east", "disk": "fast"}),
        Placement(labels={"zone": "west"}, resources={"gold": 1}),
        Placement(labels={"disk": "fast"}, cpus=5),
        Placement(node=EAST, resources={"silver": 1}),
        Placement(node="10.0.0.1", labels={"zone": "north"}),
    ],
    ids=repr,
)
def test_what_no_node_has_all_of_is_refused_with_what_there_is(placement: Placement) -> None:
    with pytest.raises(UnknownPlace) as refused:
        placement.options(NODES)
    said = str(refused.value)
    assert "'east' with CPU=4, gold=2, zone=east" in said
    assert ("'west' with CPU=4, silver=1, disk=fast, zone=west" in said) == (placement.node != EAST)
    assert GONE not in said
    for wanted in placement.labels | placement.resources:
        assert f"{wanted}=" in said.partition("There are")[0]


@pytest.mark.parametrize("name", [GONE, "mars", IDS[GONE]])
def test_a_node_that_is_not_there_is_named(name: str) -> None:
    with pytest.raises(UnknownPlace, match=f"no live node '{name}'.*east"):
        Placement(node=name).options(NODES)


@pytest.mark.parametrize(
    ("placement", "node"),
    [
        (Placement(node="10.0.0.1"), EAST),
        (Placement(node="10.0.0.1", resources={"silver": 1}), WEST),
        (Placement(node="10.0.0.1", labels={"disk": "fast"}, cpus=4), WEST),
        (Placement(node=IDS[WEST]), WEST),
        (Placement(cpus=4, resources={"gold": 2}, labels={"zone": "east"}), None),
        (Placement(), None),
    ],
    ids=repr,
)
def test_of_several_nodes_one_that_has_it_all_is_taken(
    placement: Placement, node: str | None
) -> None:
    strategy = placement.options(NODES).get("scheduling_strategy")
    assert (strategy and strategy.node_id) == (node and IDS[node])
