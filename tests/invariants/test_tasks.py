"""Whole runs with several tasks: resumed exactly, one task as none, scores and verdicts by task."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from click.testing import CliRunner

from gymnast.cli import app
from gymnast.config import RunConfig, validate
from gymnast.core.pulse import Pulse
from gymnast.envs.tasks import TaskEnvs
from gymnast.envs.types import EpisodeRecord
from gymnast.judge import verdict as verdicts
from gymnast.judge.evaluate import Episode, Evaluation
from gymnast.judge.evidence import error_of
from gymnast.judge.judge import SOLVED
from gymnast.judge.tasks import TaskCourt
from gymnast.judge.verdict import Allowance, EvalRequest, result_from_json, result_to_json
from gymnast.training.loop import train
from gymnast.training.state import restore, save_state
from tests.envs_for_tests import full_id
from tests.invariants.conftest import small_config
from tests.invariants.test_resume import resumes_exactly

TWO_GAMES = [
    {"name": "cartpole", "weight": 3},
    {"name": "acrobot", "env": {"id": "Acrobot-v1", "engine": "sync", "max_episode_steps": 60}, "reward_scale": 0.1},
]
TWO_POLES = [{"name": "short", "env": {"max_episode_steps": 20}, "threshold": 15}, {"name": "long", "threshold": 30}]


def with_tasks(tasks: list[dict[str, Any]], algo: str = "ppo", **sections: Any) -> RunConfig:
    sections["agent"] = {"hidden": [16, 16]} | sections.get("agent", {})
    config = small_config(algo, **sections)
    return validate(config.model_dump(mode="json") | {"tasks": tasks})


@pytest.mark.parametrize(
    ("algo", "tasks", "agent"),
    [
        ("ppo", TWO_GAMES, {"normalize_obs": True, "normalize_reward": True}),
        ("ppo", TWO_POLES, {"memory": "lstm", "memory_size": 8}),
        ("a2c", TWO_GAMES, {"shared": True}),
        ("reinforce", TWO_POLES, {"normalize_reward": True}),
    ],
    ids=["different spaces", "memory", "a2c", "reinforce"],
)
def test_resumed_equals_uninterrupted(
    algo: str, tasks: list[dict[str, Any]], agent: dict[str, Any], tmp_path: Path, make_session: Any
) -> None:
    config = with_tasks(tasks, algo, agent=agent, eval={"policy": "both"})
    rows = resumes_exactly(config, tmp_path, lambda config: make_session(config, 0.0))
    names = [task["name"] for task in tasks]
    assert {f"{metric}/{name}" for metric in ("rollout/ep_rew_mean", "eval/mean_reward") for name in names} <= {
        key for row in rows for key in row
    }


def test_an_evaluation_says_which_task_it_is_of(make_session: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    begun: list[tuple[str, str]] = []
    begin = Pulse.begin

    def noting(pulse: Pulse, *words: Any, **named: Any) -> None:
        begin(pulse, *words, **named)
        begun.append((pulse.activity.name, pulse.activity.of))

    monkeypatch.setattr(Pulse, "begin", noting)
    train(make_session(with_tasks(TWO_GAMES), 0.0))
    for what in ("evaluating", "score"):
        assert [where for name, where in begun if name == what][-2:] == ["cartpole", "acrobot"]
    assert {where for name, where in begun if name == "collecting"} == {""}


@pytest.mark.parametrize("agent", [{}, {"normalize_obs": True, "normalize_reward": True, "memory": "gru"}], ids=str)
def test_one_task_learns_what_the_plain_run_learns(agent: dict[str, Any], make_session: Any) -> None:
    """To the last bit: every metric of learning, every weight."""
    plain, one = small_config(agent=agent), small_config(agent=agent).model_dump(mode="json")
    one["tasks"] = [{"name": "only"}]
    rows: dict[str, list[dict[str, float]]] = {"plain": [], "one": []}
    sessions = {"plain": make_session(plain, 475.0), "one": make_session(validate(one), 0.0)}
    for name, session in sessions.items():
        train(session, observer=rows[name].append)
    assert len(rows["plain"]) == len(rows["one"])
    for left, right in zip(rows["plain"], rows["one"], strict=True):
        assert {k: v for k, v in left.items() if k.startswith("train/")} == {
            k: v for k, v in right.items() if k.startswith("train/")
        }
        for metric in ("rollout/ep_rew_mean", "eval/mean_reward"):
            assert left.get(metric) == right.get(f"{metric}/only")
            if metric in left:
                assert right[metric] == pytest.approx((left[metric] - 475) / 475)
    agents = [session.agent.state_dict() for session in sessions.values()]
    assert all(torch.equal(agents[0][name], tensor) for name, tensor in agents[1].items())


def test_masks_of_tasks_are_kept_apart(make_session: Any) -> None:
    tasks = [{"name": "a", "threshold": 1}, {"name": "b", "threshold": 1, "env": {"kwargs": {"length": 3}}}]
    masked = {"id": full_id("Masked-v0"), "n_envs": 4, "engine": "sync", "action_masks": True}
    session = make_session(with_tasks(tasks, env=masked, train={"total_timesteps": 256}), 0.0)
    train(session)
    rollout = session.rollout
    allowed = rollout["mask"].gather(2, rollout["action"][..., None])
    assert allowed.all()


def court_with(scores: dict[str, Evaluation], monkeypatch: pytest.MonkeyPatch, config: RunConfig) -> TaskCourt:
    """A court whose envs are names, and whose episodes are given."""

    def in_turn(net: Any, env: Any, *_: Any) -> list[Episode]:
        returns = scores[env].returns.tolist()
        return [Episode(EpisodeRecord(0, score, 1, 1, 0, True), number) for number, score in enumerate(returns)]

    monkeypatch.setattr(verdicts, "evaluate", lambda net, env, episodes, *_: scores[env])
    monkeypatch.setattr(verdicts, "episodes_in_turn", in_turn)
    envs: Any = TaskEnvs.__new__(TaskEnvs)
    envs.vectors = {name: name for name in scores}
    return TaskCourt(None, envs, config, {"short": 15.0, "long": 30.0})  # type: ignore[arg-type]


def of(*returns: float) -> Evaluation:
    return Evaluation(np.array(returns * 50), np.ones(50 * len(returns), np.int64))


@pytest.mark.parametrize(
    ("short", "long", "score", "asked", "solved"),
    [
        (of(19.0, 20.0), of(60.0, 61.0), 0.3, True, True),  # (19.5 - 15) / 15
        (of(19.0, 20.0), of(28.0, 29.0), -0.05, False, False),  # one task below its threshold: no verdict
        (of(19.0, 20.0), of(28.0, 33.0), 1 / 60, True, False),  # above it, but it takes more than 100 episodes
        (of(19.0, 20.0), of(0.0, 61.0), 1 / 60, False, False),  # above it, but no number of episodes shows it
    ],
)
def test_a_run_is_solved_when_one_verdict_shows_it_for_every_task(
    short: Evaluation, long: Evaluation, score: float, asked: bool, solved: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    court = court_with({"short": short, "long": long}, monkeypatch, with_tasks(TWO_POLES))
    request = EvalRequest(1000, 0)
    result = court.examine(request, Allowance(2, {SOLVED: 0.0}))
    assert result.score == pytest.approx(score)
    assert {name: one.mean for name, one in result.tasks.items()} == {"short": short.mean, "long": long.mean}
    assert (result.verdict is not None) == asked
    again = result_from_json(json.loads(json.dumps(result_to_json(result))))  # as it comes from the background
    assert again.score == result.score
    if result.verdict is not None:
        assert again.verdict is not None
        assert again.verdict.shown == result.verdict.shown == ((SOLVED,) if solved else ())
        for own in again.verdict.tasks.values():  # all tasks of the second verdict have its whole share of the error
            assert own.test is not None
            assert own.test.needed == pytest.approx(-np.log(error_of(2)))


def test_the_background_finds_the_same_numbers(make_session: Any) -> None:
    found = []
    for background in (False, True):
        rows: list[dict[str, float]] = []
        config = with_tasks(TWO_POLES, eval={"background": background, "episodes": 3})
        train(make_session(config, 0.0), observer=rows.append)
        evaluated = {row["eval/step"]: row for row in rows if "eval/step" in row}
        found.append({s: (r["eval/mean_reward/short"], r["eval/mean_reward/long"]) for s, r in evaluated.items()})
    assert found[0] == found[1]
    assert found[0]


def test_a_changed_task_forgets_scores_and_episodes(make_session: Any) -> None:
    session = make_session(with_tasks(TWO_POLES), 0.0)
    train(session)
    tensors, values = save_state(session)
    other = make_session(with_tasks([TWO_POLES[0], TWO_POLES[1] | {"env": {"max_episode_steps": 50}}]), 0.0)
    assert any("the env's settings changed" in note for note in restore(other, tensors, values))
    assert other.judge.best_agent is None


def test_scores_of_tasks_in_a_run_of_the_command(tmp_path: Path) -> None:
    """Train, resume, eval and video of a task, by what a user types."""
    runs, file = ["--runs-dir", str(tmp_path)], tmp_path / "two.yaml"
    config = with_tasks(TWO_GAMES, train={"total_timesteps": 1024}, eval={"every": 512}, log={"sinks": ["jsonl"]})
    file.write_text(json.dumps(config.model_dump(mode="json", exclude={"agent": {"sequence_length", "memory_size"}})))

    def run(*words: str) -> Any:
        done = CliRunner().invoke(app, [*words, *runs], catch_exceptions=False)
        assert done.exit_code == 0, done.output
        return done.output

    said = json.loads(run("train", str(file), "--quiet", "--json").splitlines()[-1])
    assert set(said["tasks"]) == {"cartpole", "acrobot"}
    assert said["tasks"]["acrobot"]["threshold"] == -100
    assert said["threshold"] == 0
    assert said["score"] == pytest.approx(
        min((t["score"] - t["threshold"]) / abs(t["threshold"]) for t in said["tasks"].values())
    )
    both = json.loads(run("eval", "--episodes", "3", "--json").splitlines()[-1])
    for name in ("cartpole", "acrobot"):
        alone = json.loads(run("eval", "--episodes", "3", "--task", name, "--json").splitlines()[-1])
        assert (alone["eval_mean"], alone["threshold"]) == tuple(both["tasks"][name][k] for k in ("score", "threshold"))
        assert alone["task"] == name
    assert "cartpole" in run("runs", "list")
    assert "acrobot" in run("runs", "show")
    assert "task acrobot" in run("report")
    played = json.loads(run("video", "--task", "acrobot", "--json").splitlines()[-1])
    assert played["parts"][0]["task"] == "acrobot"
    assert played["parts"][0]["env"] == "Acrobot-v1"
    wrong = CliRunner().invoke(app, ["eval", "--task", "pole", *runs])
    assert "--task pole: unknown." in str(wrong.exception)
    again = json.loads(run("resume", "--steps", "1536", "--quiet", "--json").splitlines()[-1])
    assert again["env_steps"] == 1536
    begun = json.loads(run("train", str(file), "--init-from", "@last", "--quiet", "--json").splitlines()[-1])
    assert set(begun["tasks"]) == {"cartpole", "acrobot"}
