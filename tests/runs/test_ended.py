"""A run that was killed between its last checkpoint and its end is finished by `resume`: nothing is lost."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from gymnast.cli import app
from gymnast.core.errors import UserError
from gymnast.runs import checkpoint
from gymnast.runs.references import Run
from gymnast.verbs.train import resume, start
from tests.runs.report_runs import ROLLOUT, SMALL

CLOCKS = ("seconds", "fps")  # of the summary: a checkpoint is written some moments before the end


def as_killed(run: Run, folder: Path, *lost: str) -> Run:
    """What kill -9 leaves behind when the last checkpoint is there: a run.json that says running, and nobody."""
    copy = Run(folder / run.id)
    shutil.copytree(run.path, copy.path)
    data = json.loads((copy.path / "run.json").read_text())
    kept = {key: data["summary"][key] for key in ("engine", "exact_resume")}
    (copy.path / "run.json").write_text(json.dumps(data | {"status": "running", "summary": kept}))
    for name in ("report.md", *lost):
        (copy.path / name).unlink()
    assert copy.read().status == "killed"
    return copy


def trained(folder: Path, *settings: str, env: str = "CartPole-v1", steps: int = 4 * ROLLOUT) -> Run:
    done = start(env, [*SMALL, *settings], folder, 1, steps, quiet=True)
    return Run(folder / done.run)


def said(*words: str | Path) -> str:
    return CliRunner().invoke(app, list(map(str, words)), catch_exceptions=False, standalone_mode=False).stdout


def same(found: dict[str, Any], expected: dict[str, Any]) -> None:
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        assert found[name] == value or name in CLOCKS, name


@pytest.mark.parametrize(
    ("env", "settings", "reason"),
    [
        ("CartPole-v1", (), "steps"),
        ("CartPole-v1", ("stop.on_solved=true", "stop.threshold=5", "stop.target=null"), "solved"),
        ("CartPole-v1", ("stop.on_solved=true", "stop.threshold=2", "stop.target=5"), "target"),
        ("CartPole-v1", ("stop.plateau={evals: 1, min_delta: 1000}",), "plateau"),
        ("FrozenLake-v1", (), "steps"),  # whose exact value decides
        ("CartPole-v1", ("eval.every=0",), "steps"),  # never evaluated
        ("CartPole-v1:and-acrobot", (), "steps"),
    ],
    ids=str,
)
def test_its_end_is_the_one_it_would_have_had(env: str, settings: Sequence[str], reason: str, tmp_path: Path) -> None:
    if env.endswith("acrobot"):  # its rollouts are larger
        settings = ("env.n_envs=8", "algo.n_steps=32")
    run = trained(tmp_path / "a", *settings, env=env, steps=(12 if reason == "plateau" else 4) * ROLLOUT)
    killed = as_killed(run, tmp_path / "b")
    before = (killed.metrics_path.read_bytes(), killed.checkpoint_path("last").read_bytes())
    page = said("report", killed.id, "--runs-dir", tmp_path / "b")
    assert f"gymnast resume {killed.id.split('-')[0]}" in page
    assert "only its summary, report and videos are missing" in page or reason == "plateau"

    result = resume(killed.id, [], tmp_path / "b")
    assert (result.data["stop_reason"], result.exit_code) == (reason, 0)
    found, expected = killed.read(), run.read()
    assert found.status == "finished"
    same(found.summary, expected.summary)
    assert (killed.metrics_path.read_bytes(), killed.checkpoint_path("last").read_bytes()) == before
    told = ("# ", "| score", "| solved", "| measured", "| agent", "| exact")
    pages = [
        [line for line in one.report_path.read_text().splitlines() if line.startswith(told)] for one in (run, killed)
    ]
    assert pages[0] == pages[1]
    listed = json.loads(said("runs", "list", "--runs-dir", tmp_path / "b", "--json").splitlines()[-1])["runs"][0]
    assert listed["score"] == expected.summary["score"]

    if reason in ("steps", "solved", "target"):
        with pytest.raises(UserError, match=r"has done its|is solved|has reached"):  # now it is over for good
            resume(killed.id, [], tmp_path / "b")


def test_an_older_checkpoint_does_not_say_why_training_stopped(tmp_path: Path) -> None:
    killed = as_killed(trained(tmp_path / "a"), tmp_path / "b")
    path = killed.checkpoint_path("last")
    saved = checkpoint.load(path)
    state = {name: value for name, value in saved.state.items() if name != "stop_reason"}
    checkpoint.save(path, saved.tensors, state, saved.metrics)
    assert resume(killed.id, [], tmp_path / "b").data["stop_reason"] == "steps"


def test_missing_videos_are_made(tmp_path: Path) -> None:
    run = trained(tmp_path / "a", "log.video=best", "env.max_episode_steps=20", steps=2 * ROLLOUT)
    killed = as_killed(run, tmp_path / "b", "videos/best.mp4", "videos/best.json")
    lines: list[str] = []
    resume(killed.id, [], tmp_path / "b", say=lines.append)
    assert [path.name for path in killed.videos_dir.glob("*.mp4")] == ["best.mp4"]
    assert any("made a video of the agent" in line for line in lines)
    assert "videos/best.mp4" in killed.report_path.read_text()
    again, first = (json.loads((one.videos_dir / "best.json").read_text())["parts"][0] for one in (killed, run))
    assert again == first


def test_a_run_that_is_not_at_its_end_goes_on(tmp_path: Path) -> None:
    """Killed two rollouts before: these are trained again."""
    run = trained(tmp_path / "a", f"train.checkpoint_every={2 * ROLLOUT}")
    killed = as_killed(run, tmp_path / "b")
    os.replace(killed.checkpoint_path(f"step_{2 * ROLLOUT}"), killed.checkpoint_path("last"))
    resume(killed.id, [], tmp_path / "b", quiet=True)
    assert killed.read().resumed_at == [2 * ROLLOUT]
    same(killed.read().summary, run.read().summary)
