"""What runs reserve on a cluster in addition to cores, and nodes that may not have them. The GPUs are names only."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gymnast import config as configs
from gymnast.core.errors import UserError
from gymnast.jobs.launchers.ray import RayLauncher
from gymnast.jobs.pool import ENDS, run_all
from gymnast.jobs.worker import Event, Job, Resources
from gymnast.verbs.remote.cluster import status
from gymnast.verbs.remote.needs import needs_of, resources_of
from gymnast.verbs.train import start
from tests.cluster.conftest import NODE, nodes_here

pytest.importorskip("ray")
pytestmark = pytest.mark.timeout(300)


@pytest.fixture(scope="module")
def launcher() -> Iterator[RayLauncher]:
    """On a head that trains nothing, a plain node, and one with two GPUs, a GiB and a label."""
    with pytest.MonkeyPatch.context() as patch, nodes_here(patch, num_cpus=0) as cluster:
        cluster.add_node(**NODE, memory=2**20)
        cluster.add_node(**{**NODE, "num_cpus": 2}, num_gpus=2, memory=2**30, labels={"gpu": "A100"})
        cluster.wait_for_nodes()
        yield RayLauncher(cluster.address)


def job(work: str, resources: Resources, **arguments: Any) -> Job:
    return Job(f"tests.jobs_for_tests:{work}", arguments, packages=("tests",), resources=resources)


def test_each_run_has_a_gpu_of_its_own(launcher: RayLauncher, tmp_path: Path) -> None:
    both = job("meet", Resources(gpu=1), place=str(tmp_path), count=2)
    ends = [event for _, event in run_all([1, 2], 2, lambda number: launcher.run(both)) if event.kind in ENDS]
    assert sorted(event.data["gpus"] for event in ends) == ["0", "1"]


def test_a_node_is_chosen_by_memory_and_label(launcher: RayLauncher) -> None:
    nodes = status(launcher.address).data["nodes"]
    (large,) = [node["node"] for node in nodes if node["labels"] == {"gpu": "A100"}]
    assert [(node["gpus"], node["memory"]) for node in nodes if node["node"] == large] == [(2, 2**30)]
    for resources in (Resources(memory=2**29), Resources(labels={"gpu": "A100"})):
        placed, *_, end = launcher.run(job("double", resources, number=1))
        assert large in placed.data["node"]
        assert end == Event("result", {"double": 2})


def test_what_no_node_has_is_refused_at_once(launcher: RayLauncher, tmp_path: Path) -> None:
    for resources, said in (
        (Resources(gpu=1, memory=2**32), "1 core, 1 GPU, 4 GiB of memory"),
        (Resources(labels={"gpu": "H100"}), "1 core, the label gpu=H100"),
    ):
        with pytest.raises(UserError) as error:
            launcher.run(job("double", resources, number=1))
        assert str(error.value) == f"train.resources: no node of the cluster at {launcher.address} has {said}."
    with pytest.raises(
        UserError, match=r"^train\.resources: no node of the cluster at .* has 1 core, 8 GiB of memory\.$"
    ):
        start("CartPole-v1", ["train.resources.memory=8G"], tmp_path, quiet=True, on=launcher.address)
    assert not list(tmp_path.glob("*"))


def test_a_node_with_another_version_is_named_before_anything_starts(
    launcher: RayLauncher, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gymnast.__version__", "9.8.7")
    (end,) = launcher.run(job("meet", Resources(), place=str(tmp_path), count=1))
    monkeypatch.undo()
    from gymnast import __version__

    assert end.kind == "error"
    assert (
        f" has gymnast {__version__} instead of 9.8.7: every node needs the versions of the machine" in end.data["why"]
    )
    assert not list(tmp_path.iterdir())


def test_settings_of_resources() -> None:
    def found(*overrides: str) -> Resources:
        return resources_of(configs.load("CartPole-v1", overrides).config)

    assert found() == Resources()
    assert found("train.device=cuda") == Resources(gpu=1.0)
    assert found("train.device=cuda", "train.resources.gpu=0.5") == Resources(gpu=0.5)
    everything = found("train.resources={gpu: 1, memory: 1.5G, labels: {gpu: A100}}")
    assert everything == Resources(1.0, 3 * 2**29, {"gpu": "A100"})
    assert needs_of(configs.load("CartPole-v1").config) == {
        "cores": 1,
        "resources": {"gpu": 0.0, "memory": 0, "labels": {}},
    }
    for wrong in ("memory=4", "memory=4GB", "gpu=2", "labels={gpu: in(A)}"):
        with pytest.raises(configs.ConfigError, match=r"train\.resources"):
            found(f"train.resources.{wrong}")
