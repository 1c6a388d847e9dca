"""A Ray cluster that is gone: one line, and nothing that was finished is lost."""

from __future__ import annotations

import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from gymnast.core.errors import Lost, UserError
from gymnast.runs.folder import Run, create_run
from gymnast.verbs.remote.follow import hold
from gymnast.verbs.runs.change import stop_runs
from tests.cluster.conftest import nodes_here
from tests.processes import wait_for

ROOT = Path(__file__).parents[2]


def test_a_head_that_stops_listening_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("ray")
    from gymnast.core import ray_cluster

    with socket.create_server(("127.0.0.1", 0)) as server:
        head = ray_cluster.Head(f"ray://127.0.0.1:{server.getsockname()[1]}")
        assert head.listens()
    assert not head.listens()  # for the first time: it may be starting again
    monkeypatch.setattr(ray_cluster, "LOST_SECONDS", -1.0)
    with pytest.raises(Lost, match=r"the Ray cluster at ray://127.0.0.1:\d+ is lost: .*refused") as lost:
        head.listens()
    assert lost.value.gone


def test_a_run_whose_cluster_was_switched_off_ends_when_it_is_stopped(tmp_path: Path) -> None:
    """It counts as running as long as its user does not say otherwise: only the way to it may be broken."""
    pytest.importorskip("ray")
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"127.0.0.1:{server.getsockname()[1]}"
    run = create_run(tmp_path, "", env="CartPole-v1", algo="ppo", seed=1, on=address)
    run.let_go()
    with pytest.raises(UserError, match=r"no Ray cluster answers there .* gone for good: gymnast runs stop \w+"):
        hold(None, address, str(run.path), {}, once=True)  # type: ignore[arg-type]
    assert Run(run.path).read().status == "running"
    with pytest.raises(UserError, match=r"No checkpoint of run \S+ had arrived here"):
        stop_runs([Run(run.path)])
    assert Run(run.path).read().status == "killed"
    assert not run.stopping_path.exists()


@pytest.mark.parametrize(
    ("error", "arguments"),
    [
        ("ObjectLostError", ("0" * 56, None, "")),
        ("ObjectReconstructionFailedError", ("0" * 56,)),
        ("OwnerDiedError", ("0" * 56, None, "")),
        ("NodeDiedError", ("the node is gone",)),
    ],
)
def test_an_answer_that_is_lost_with_its_node_is_no_lost_cluster(error: str, arguments: tuple[Any, ...]) -> None:
    """To a job it is the same as an actor that died: it goes on on the next node."""
    ray = pytest.importorskip("ray")
    from gymnast.core.ray_cluster import Head

    with pytest.raises(ray.exceptions.RayActorError) as died, Head("127.0.0.1:1").or_lost():
        raise getattr(ray.exceptions, error)(*arguments)
    assert not died.value.actor_init_failed
    with pytest.raises(Lost), Head("127.0.0.1:1").or_lost():
        raise ray.exceptions.LocalRayletDiedError


@pytest.mark.slow
@pytest.mark.xfail(reason="a head that dies while Ray makes or ends an actor: Ray ends the process after 60 s itself")
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("verb", ["train", "benchmark", "sweep", "speed"])
def test_the_head_is_killed_under_a_command(verb: str, tmp_path: Path) -> None:
    commands = {
        "train": ["train", "CartPole-v1", "--steps", "1000000000", "--set", "stop.on_solved=false"],
        "benchmark": ["benchmark", "CartPole-v1", "--seeds", "500", "--steps", "8192", "--out", str(tmp_path)],
        "sweep": ["sweep", "CartPole-v1", "--trials", "500", "--steps", "8192"],
        "speed": ["speed", "CartPole-v1", "--seconds", "100000"],
    }
    done = {"train": "*/checkpoints/last.*", "benchmark": "runs/*/[!.]*.json", "sweep": "sweeps/*/cells/[!.]*.json"}
    with pytest.MonkeyPatch.context() as patch, nodes_here(patch, num_cpus=2) as cluster:
        words = [*commands[verb], "--on", cluster.address, *(["--runs-dir", str(tmp_path)] if verb != "speed" else [])]
        command = [sys.executable, "-m", "gymnast", *words]
        process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        if verb in done:
            wait_for(lambda: any(tmp_path.glob(done[verb])), "something finished", process)
        cluster.head_node.kill_all_processes(check_alive=False, allow_graceful=False)
        said, _ = process.communicate(timeout=300)
    assert process.returncode == 2, said
    assert "Traceback" not in said
    last = said.strip().splitlines()[-1]
    assert last.startswith("gymnast: the Ray cluster at ")
    assert " is lost: " in last
    if verb in done:
        assert any(tmp_path.glob(done[verb]))
        assert ("gymnast resume" if verb == "train" else "The same command does the others.") in last
