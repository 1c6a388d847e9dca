"""A real Ray cluster of several nodes on this machine, for all tests of a module."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from gymnast.core.ray_cluster import LOOPBACK

NODE: dict[str, Any] = {"num_cpus": 1, "object_store_memory": 80_000_000}  # bytes
# Of one node, in a process of its own: it prints its address, and ends when its input does
CLUSTER = """
import sys
from ray.cluster_utils import Cluster
head = {"num_cpus": 1, "object_store_memory": 80_000_000, "include_dashboard": False}
cluster = Cluster(initialize_head=True, head_node_args=head)
print(cluster.address, flush=True)
sys.stdin.read()
cluster.shutdown()
"""


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    """A head that trains nothing, and two nodes of one core."""
    with pytest.MonkeyPatch.context() as patch, nodes_here(patch, num_cpus=0) as found:
        for _ in range(2):
            found.add_node(**NODE)
        found.wait_for_nodes()
        yield found


@contextmanager
def nodes_here(patch: pytest.MonkeyPatch, **head: Any) -> Iterator[Any]:
    """A cluster of a head, on this machine's loopback whatever network it is in."""
    ray = pytest.importorskip("ray")
    from ray.cluster_utils import Cluster

    patch.setenv("RAY_worker_niceness", "0")  # with Ray's 15 they would wait for every other test
    patch.setenv("RAY_health_check_period_ms", "500")  # a dead node is noticed after five of them, not after 15 seconds
    for name, value in LOOPBACK.items():
        patch.setenv(name, value)  # for the processes of the cluster, and here:
    patch.setattr("ray._private.ray_constants.ENABLE_RAY_CLUSTER", False)
    found = Cluster(initialize_head=True, head_node_args={**NODE, "include_dashboard": False, **head})
    try:
        yield found
    finally:
        ray.shutdown()
        found.shutdown()


def kill_node(cluster: Any, placed: str) -> None:
    """The node that a job was `placed` on, at once and with all that runs there; another one joins."""
    node = next(one for one in cluster.worker_nodes if one.node_id[:6] in placed)
    cluster.remove_node(node, allow_graceful=False)
    cluster.add_node(**NODE)
