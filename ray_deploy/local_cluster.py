"""A Ray cluster of several nodes on this machine: to try out placement without machines."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager

from activebroker.core.errors import MissingExtra
from ray_deploy.fabric import RayFabric
from ray_deploy.placement import Placement

TEMPORARY = "RAY_TMPDIR"


@contextmanager
def local_cluster(brokers: Iterable[str]) -> Iterator[RayFabric]:
    """Start a head and, for each broker, a node of its name; all end with the context.

    Raises MissingExtra without Ray, and as RayFabric does.
    """
    try:
        from ray.cluster_utils import Cluster
    except ImportError as error:
        raise MissingExtra("This needs Ray: `uv add 'activebroker[ray]'`.") from error
    names = list(brokers)
    with _own_folder():
        head = {"num_cpus": 1, "include_dashboard": False}
        cluster = Cluster(initialize_head=True, head_node_args=head)
        try:
            for name in names:
                cluster.add_node(wait=False, node_name=name, num_cpus=1)
            cluster.wait_for_nodes()
            places = {name: Placement(node=name) for name in names}
            with closing(RayFabric(places, address=cluster.address)) as fabric:
                yield fabric
        finally:
            cluster.shutdown()


@contextmanager
def _own_folder() -> Iterator[None]:
    """Ray's files go to a folder of their own and vanish with it.

    In the usual one Ray also notes which cluster `address="auto"` means on this machine, and that
    is for the user's own.
    """
    before = os.environ.get(TEMPORARY)
    with tempfile.TemporaryDirectory(prefix="ray-", ignore_cleanup_errors=True) as folder:
        os.environ[TEMPORARY] = folder
        try:
            yield
        finally:
            if before is None:
                del os.environ[TEMPORARY]
            else:
                os.environ[TEMPORARY] = before
