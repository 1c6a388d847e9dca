"""gymnast autotune on real trainings of seconds."""

from __future__ import annotations

import json
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from gymnast import config as configs
from gymnast.core.errors import UserError
from gymnast.runs.references import list_runs
from gymnast.training.state import TrainState
from gymnast.verbs.autotune import segment
from gymnast.verbs.autotune.run import autotune
from gymnast.verbs.train import start


def test_a_damaged_agent_is_replaced_and_the_file_reproduces_it(tmp_path: Path) -> None:
    found = autotune("CartPole-v1", ["algo.learning_rate=0.6"], budget="300k", seed=2, runs_dir=tmp_path)
    assert found.solved
    assert found.used_steps < 300_000
    assert found.settings == {"algo.learning_rate": "lin_0.003"}
    (decision,) = found.decisions
    assert decision["kept"]
    assert decision["start"] == "step 0"
    assert decision["rule"] in ("kl_high", "entropy_falling", "entropy_collapse", "action_collapse")
    assert decision["patched"]["score"] > decision["control"]["score"]
    runs = list_runs(tmp_path)
    assert {run.id for run in runs} == {found.run, decision["control"]["run"]}
    assert all("autotune" in run.tags for run in runs)
    # every step that was trained was paid for: both runs began at step 0
    assert found.used_steps == sum(run.summary["env_steps"] for run in runs)
    page = found.journal.read_text()
    assert "Solved by run" in page
    assert decision["rule"] in page

    assert configs.load(str(found.config)).config.algo == configs.load("CartPole-v1").config.algo
    again = start(str(found.config), [], tmp_path, seed=2, quiet=True)
    assert (again.data["solved"], again.data["env_steps"]) == (True, found.env_steps)

    # Ended, the same command has nothing left to train
    same = autotune("CartPole-v1", ["algo.learning_rate=0.6"], budget="300k", seed=2, runs_dir=tmp_path)
    assert same.to_json() == found.to_json()
    assert len(list_runs(tmp_path)) == 3


def story(runs_dir: Path) -> list[dict[str, Any]]:
    """What was trained and decided, without names of runs and times."""
    (path,) = runs_dir.glob("autotune/*/journal.jsonl")
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    segments = ("env_steps", "trained", "reason", "returns", "solved", "row", "diagnosis")
    decisions = ("step", "patch", "kept", "result", "difference", "why", "cost_steps")
    told = [{key: line["outcome"][key] for key in segments} for line in lines if line["kind"] == "segment"]
    return told + [{key: line[key] for key in decisions} for line in lines if line["kind"] == "decision"]


def test_kills_and_small_budgets_change_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Killed after each stretch, before the journal knows of it; and with budgets that end before the first stretch of
    a comparison, within the control's, within the challenger's. A gamma of 0.5 sees two steps ahead."""
    asked = ("CartPole-v1", ["algo.gamma=0.5", "algo.learning_rate=lin_1e-3"])
    autotune(*asked, budget="26k", seed=1, runs_dir=tmp_path / "whole")
    whole = story(tmp_path / "whole")
    assert [line.get("reason") for line in whole] == ["alert", "reached", "reached", "spent", None]

    for budget in ("2048", "8k", "20k", "26k"):
        found = autotune(*asked, budget=budget, seed=1, runs_dir=tmp_path / "grown")
        assert len(found.decisions) == (budget == "26k")  # none before both have made their steps
    assert 26_000 <= found.used_steps < 26_000 + 2 * 2048
    assert not found.solved
    assert story(tmp_path / "grown") == whole
    (decision,) = found.decisions  # the agent is no wreck: a change goes on from its checkpoint
    assert (decision["rule"], decision["patch"]) == ("horizon_short", {"algo.gamma": 0.99})
    run, _, step = decision["start"].partition("/step_")
    parents = {info.id: info.parent for info in list_runs(tmp_path / "grown")}
    assert parents[decision["patched"]["run"]] == f"{run}/step_{step}"
    assert int(step) == decision["step"]

    score_of, calls = segment.score_of, count()

    def killed(session: TrainState) -> tuple[list[float], bool]:
        if next(calls) % 2 == 0:
            raise InterruptedError
        return score_of(session)

    monkeypatch.setattr(segment, "score_of", killed)
    for _ in range(4):
        with pytest.raises(InterruptedError):
            autotune(*asked, budget="26k", seed=1, runs_dir=tmp_path / "killed")
    autotune(*asked, budget="26k", seed=1, runs_dir=tmp_path / "killed")
    assert story(tmp_path / "killed") == whole


def test_from_a_run(tmp_path: Path) -> None:
    """A run that did not get there is not changed: a new one goes on from its end."""
    before = start("CartPole-v1", ["algo.gamma=0.4"], tmp_path, seed=1, steps=10_000, quiet=True).run
    files = {path: path.read_bytes() for path in (tmp_path / before).rglob("*") if path.is_file()}
    found = autotune("@last", budget="15k", runs_dir=tmp_path)
    assert {path: path.read_bytes() for path in files} == files
    ours = [run for run in list_runs(tmp_path) if "autotune" in run.tags]
    assert {run.parent for run in ours} >= {f"{before}/last"}
    assert found.used_steps >= 15_000
    assert configs.load(str(found.config)).config.train.total_timesteps == 10_000
    more = autotune("@last", budget="18k", runs_dir=tmp_path)  # by now one of its own runs
    assert more.name == found.name
    assert more.used_steps >= 18_000


def test_a_journal_of_another_version_is_one_line(tmp_path: Path) -> None:
    asked = ("CartPole-v1", ["algo.gamma=0.6"])
    found = autotune(*asked, budget="2048", seed=1, runs_dir=tmp_path)
    path = found.journal.with_suffix(".jsonl")
    path.write_text(path.read_text().replace('"returns"', '"scores"'))
    with pytest.raises(UserError, match="line 3 does not fit this command or this version"):
        autotune(*asked, budget="4k", seed=1, runs_dir=tmp_path)


def test_a_budget_of_seconds(tmp_path: Path) -> None:
    found = autotune("Pendulum-v1", ["stop.threshold=-1"], budget="0.5s", seed=1, runs_dir=tmp_path)
    assert found.used_seconds >= 0.5
    assert not found.solved  # most starts alone cost more
