"""gymnast sweep as a user runs it: killed and continued; mistakes in one line each."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from gymnast.core.seeds import derive_seed
from tests.cli.conftest import ONE_THREAD, ROOT, Command, environment
from tests.processes import running, wait_for

# Rollouts of 8 envs x 32 steps, evaluations of 2 episodes: a second a cell, and two to start its process
TINY = ("--steps", "1024", "--set", "eval.episodes=2", "--set", "stop.episodes=4", "--trials", "1", "--seeds", "2")


def cells(runs: Path) -> dict[str, Any]:
    return {path.stem: json.loads(path.read_text()) for path in sorted(runs.glob("sweeps/*/cells/[!.]*.json"))}


@pytest.mark.timeout(300)
def test_killed_and_continued(gymnast: Command, tmp_path: Path) -> None:
    arguments = ["sweep", "CartPole-v1:zoo", *TINY, "--search", "algo.gamma=[0.9, 0.95]", "--runs-dir", str(tmp_path)]
    command = [sys.executable, "-m", "gymnast", *arguments]
    with running(command, cwd=ROOT, env=environment(**ONE_THREAD), text=True, stderr=subprocess.PIPE) as process:
        wait_for(lambda: len(cells(tmp_path)) >= 2, "two cells", process)
        process.send_signal(signal.SIGKILL)
        process.communicate()
    before = cells(tmp_path)

    finished = gymnast(*arguments, "--json", **ONE_THREAD)
    assert finished.code == 0, finished.err
    after = cells(tmp_path)
    # Round 1 has the preset and a draw, round 2 the draw (nobody races with it after that), the confirmation both on
    # two fresh seeds; each is a part of a cell that is trained once. Before the kill some were.
    parts = 2 + 1 + 4
    in_parts = derive_seed(0, "search", 0)
    done = sum(1 + (record["seed"] == in_parts and record["steps"] >= 1024) for record in before.values())
    assert finished.json["ran"] == parts - done
    for name, record in before.items():
        assert after[name]["curve"][: len(record["curve"])] == record["curve"]  # it went on from there, or stayed
        if record["steps"] == after[name]["steps"]:
            assert after[name] == record  # with its seconds: it was not trained again
    assert len(after) == 2 + 4
    folder = next(tmp_path.glob("sweeps/*"))
    assert {"journal.log", "report.md", "report.html", "sweep.json"} <= {path.name for path in folder.iterdir()}

    again = gymnast(*arguments, **ONE_THREAD)
    assert again.code == 0, again.err
    assert ("no better one found than CartPole-v1:zoo" in again.out) != (
        "better than CartPole-v1:zoo: wrote" in again.out
    )
    assert "95 % interval" in again.out
    assert cells(tmp_path) == after


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["CartPole-v1", "--search", "algo.gama=log(0.1,0.2)"], "--search: algo.gama"),
        (["CartPole-v1", "--search", "algo.gamma=uniform(0.99,0.9)"], "the range is empty"),
        (["CartPole-v1", "--sampler", "grid"], "a grid needs a list"),
        (["CartPole-v1", "--name", "a/b"], "--name"),
        (["CartPole-v1", "--on", "moon"], "--on moon: must be local, ray"),
        (["CartPole-v1", "--from", "@last"], "name an ENV or a config file, or a run with --from"),
        (["LunarLander-v3:curriculum"], "without stages"),
    ],
)
def test_mistakes_start_nothing(gymnast: Command, tmp_path: Path, arguments: list[str], said: str) -> None:
    result = gymnast("sweep", *arguments, "--runs-dir", str(tmp_path / "runs"))
    assert result.code == 2
    lines = result.err.strip().splitlines()
    assert said in result.err
    assert all(line.startswith("gymnast: ") for line in lines)
    assert "Traceback" not in result.err
    assert not (tmp_path / "runs").exists()
