"""Brokers as actors on a Ray cluster, and a fabric that starts them.

from ray_deploy import RayFabric
with RayFabric(brokers=["atlanta", "dallas"]) as fabric: ...
"""

from ray_deploy.fabric import RayFabric
from ray_deploy.placement import Placement

__all__ = ["Placement", "RayFabric"]
