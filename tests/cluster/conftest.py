"""A real Ray cluster of several nodes on this machine, for all tests of a module."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import pytest

PRIORITY = "RAY_worker_niceness"
NODE: dict[str, Any] = {"num_cpus": 1, "object_store_memory": 80_000_000}  # bytes


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    """A head that trains nothing, and two nodes of one core."""
    ray = pytest.importorskip("ray")
    from ray.cluster_utils import Cluster

    os.environ[PRIORITY] = "0"  # with Ray's 15 they would wait for every other test
    found = Cluster(initialize_head=True, head_node_args={**NODE, "num_cpus": 0, "include_dashboard": False})
    for _ in range(2):
        found.add_node(**NODE)
    found.wait_for_nodes()
    yield found
    ray.shutdown()
    found.shutdown()
    del os.environ[PRIORITY]


def kill_node(cluster: Any, placed: str) -> None:
    """The node that a job was `placed` on, at once and with all that runs there; another one joins."""
    node = next(one for one in cluster.worker_nodes if one.node_id[:6] in placed)
    cluster.remove_node(node, allow_graceful=False)
    cluster.add_node(**NODE)
