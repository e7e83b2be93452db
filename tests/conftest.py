"""Fixtures that many tests share. What is started here is ended here, once a session."""

from __future__ import annotations

import contextlib
import os
import secrets
import signal
from collections.abc import Iterator
from typing import Any

import hypothesis
import pytest
from brokers_for_tests import Brokers, OnRay, Plain, joining

import activebroker as ab

# A busy machine is slow; whatever does not end is ended by the time limit of its test.
hypothesis.settings.register_profile("no pace", deadline=None)
hypothesis.settings.load_profile("no pace")

# A shell lets what it runs in the background ignore this, and so would all processes that we start.
signal.signal(signal.SIGINT, signal.default_int_handler)

# Before Ray is imported: its workers must not be started through `uv run`.
os.environ.setdefault("RAY_ENABLE_UV_RUN_RUNTIME_ENV", "0")
# As by default, but with a token of this run's own instead of one in the home directory.
os.environ.setdefault("RAY_AUTH_MODE", "token")
os.environ.setdefault("RAY_AUTH_TOKEN", secrets.token_hex(32))

BROKERS = ("atlanta", "dallas", "houston")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--rounds", type=int, default=0, help="Play whole tables, so many rounds each."
    )
    parser.addoption("--seed", type=int, default=1, help="What is drawn in them depends on it.")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Whole tables take long, and are played only on request."""
    if not config.getoption("rounds"):
        items[:] = [item for item in items if item.get_closest_marker("table") is None]
    _gather(items)


def _gather(items: list[pytest.Item]) -> None:
    """One process has all tests on the session's Ray cluster, another those on the Spark session
    and on clusters of their own: so no more than two clusters run at a time. A third has those at
    the session's plain brokers, which else each process would start.

    These groups are handed out first, and each other test to the process that is free.
    """
    for item in items:
        needs = {mark.name for mark in item.iter_markers()} | set(getattr(item, "fixturenames", ()))
        if "ray_cluster" in needs or ("ray" in needs and needs & {"brokers", "anywhere"}):
            item.add_marker(pytest.mark.xdist_group("ray"))
        elif needs & {"ray", "spark"}:
            item.add_marker(pytest.mark.xdist_group("spark"))
        elif "plain_brokers" in needs or (
            needs & {"brokers", "anywhere"} and "plain" in item.callspec.params.values()
        ):
            item.add_marker(pytest.mark.xdist_group("plain"))


def pytest_collection_finish(session: pytest.Session) -> None:
    """Else each process would start clusters and sessions of its own, and nothing would say so."""
    if getattr(session.config.option, "loadgroup", False):
        for item in session.items:
            if item.get_closest_marker("xdist_group") and "@" not in item.nodeid:
                raise pytest.UsageError(f"pytest-xdist does not group {item.nodeid}")


@pytest.fixture
def fabric() -> Iterator[ab.Fabric]:
    """An embedded fabric with two brokers."""
    with ab.Fabric(brokers=["atlanta", "dallas"]) as fabric:
        yield fabric


@pytest.fixture(scope="session")
def spark() -> Iterator[Any]:
    """A real Spark session."""
    from activebroker.spark import session, stop

    yield session()
    stop()


@pytest.fixture(scope="session")
def ray_cluster() -> Iterator[Any]:
    """A real cluster of three nodes with the resources `head`, `east` and `west`."""
    import ray
    from ray.cluster_utils import Cluster

    head = {"num_cpus": 1, "include_dashboard": False, "resources": {"head": 1}}
    cluster = Cluster(initialize_head=True, head_node_args=head)
    try:
        cluster.add_node(num_cpus=1, resources={"east": 1}, labels={"side": "east"})
        cluster.add_node(num_cpus=1, resources={"west": 1}, labels={"side": "west"})
        ray.init(address=cluster.address, log_to_driver=False, logging_level="warning")
        yield cluster
    finally:
        ray.shutdown()
        cluster.shutdown()


@pytest.fixture(scope="session")
def ray_fabric(ray_cluster: Any) -> Iterator[ab.Fabric]:
    """A fabric on that cluster, its three brokers on different nodes."""
    from ray_deploy import Placement, RayFabric

    brokers = {
        "atlanta": Placement(resources={"east": 0.1}),
        "dallas": Placement(resources={"west": 0.1}),
        "houston": Placement(resources={"head": 0.1}),
    }
    with RayFabric(brokers=brokers) as fabric:
        yield fabric


RAY = pytest.param("ray", marks=pytest.mark.ray)


@pytest.fixture(scope="session")
def plain_brokers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Brokers]:
    with contextlib.closing(Plain(tmp_path_factory.mktemp("brokers"), *BROKERS)) as plain:
        yield plain


@pytest.fixture(params=["plain", RAY])
def brokers(request: pytest.FixtureRequest) -> Brokers:
    """`atlanta`, `dallas` and `houston`, each a process: plain ones, and on Ray."""
    if request.param == "ray":
        return OnRay(request.getfixturevalue("ray_fabric"))
    plain: Brokers = request.getfixturevalue("plain_brokers")
    return plain


@pytest.fixture
def joined(brokers: Brokers) -> Iterator[ab.Fabric]:
    """This process in the fabric of those."""
    with joining(brokers) as fabric:
        yield fabric


@pytest.fixture(params=["embedded", "plain", RAY])
def anywhere(request: pytest.FixtureRequest) -> Iterator[ab.Fabric]:
    """A fabric with these brokers: in this process, in plain ones, and on Ray."""
    if request.param == "embedded":
        yield request.getfixturevalue("fabric")
        return
    name = "plain_brokers" if request.param == "plain" else "ray_fabric"
    with joining(request.getfixturevalue(name)) as fabric:
        yield fabric
