"""A Ray cluster of several nodes on this machine: to try out placement without machines."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager

from activebroker.core.errors import MissingExtra
from ray_deploy.fabric import RayFabric
from ray_deploy.placement import Placement


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
    head = {"num_cpus": 1, "include_dashboard": False}
    cluster = Cluster(initialize_head=True, head_node_args=head)
    try:
        for name in names:
            cluster.add_node(node_name=name, num_cpus=1)
        places = {name: Placement(node=name) for name in names}
        with closing(RayFabric(places, address=cluster.address)) as fabric:
            yield fabric
    finally:
        cluster.shutdown()
