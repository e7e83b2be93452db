"""A Ray cluster of several nodes on this machine: to try out placement without machines."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager

from activebroker.core.errors import MissingExtra, with_extra
from ray_deploy.fabric import RayFabric
from ray_deploy.placement import Placement

TEMPORARY = "RAY_TMPDIR"


@contextmanager
def local_cluster(brokers: Iterable[str]) -> Iterator[RayFabric]:
    """Start a node for each broker, of its name, the last as the head; all end with the context.

    Raises MissingExtra without Ray, and as RayFabric does.
    """
    try:
        from ray.cluster_utils import Cluster
    except ImportError as error:
        raise MissingExtra(f"This needs Ray. {with_extra('ray')}") from error
    *others, last = names = list(brokers)
    # Nobody reads the workers' logs here, and a process on each node that does takes seconds.
    common = {"num_cpus": 1, "include_log_monitor": False}
    with _own_folder():
        head = {"node_name": last, "include_dashboard": False, **common}
        cluster = Cluster(initialize_head=True, head_node_args=head)
        try:
            for name in others:
                cluster.add_node(wait=False, node_name=name, **common)
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
