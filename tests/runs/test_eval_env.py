"""`eval.env`: agents are scored in an env that differs from that of training on purpose, and every score says so."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from gymnast.cli import app
from gymnast.core.errors import UserError
from gymnast.envs.types import EpisodeRecord
from gymnast.judge import background
from gymnast.judge.background import EvaluationWorker
from gymnast.judge.snapshot import Snapshot
from gymnast.judge.verdict import EvalRequest
from gymnast.report.run_facts import RunFacts
from gymnast.runs.references import Run
from gymnast.sinks.base import RunInfo
from gymnast.training.build import build
from gymnast.training.loop import train
from gymnast.training.record import solved_threshold
from gymnast.training.state import restore, save_state
from gymnast.verbs.train import resolve_config

SMALL = [
    "env.n_envs=4",
    "algo.n_steps=64",
    "algo.batch_size=64",
    "algo.n_epochs=1",
    "eval.episodes=4",
    "stop.episodes=4",
]
SHORT = "eval.env={max_episode_steps: 7}"
NAME = "CartPole-v1 with max_episode_steps 7 (eval.env)"


def gymnast(*words: str | Path) -> str:
    return CliRunner().invoke(app, [*map(str, words)], catch_exceptions=False, standalone_mode=False).stdout


def settings(*more: str) -> list[str]:
    return [word for setting in (*SMALL, *more) for word in ("--set", setting)]


def last_line(text: str) -> dict[str, Any]:
    found = json.loads(text.splitlines()[-1])
    assert isinstance(found, dict)
    return found


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any], str]:
    """A run's folder, its JSON and what its console showed."""
    folder = tmp_path_factory.mktemp("runs")
    words = ["train", "CartPole-v1", "--steps", "1024", "--runs-dir", str(folder), *settings(SHORT, "stop.threshold=9")]
    return folder, last_line(gymnast(*words, "--json")), gymnast(*words)


def test_scores_are_of_the_eval_env_and_say_so(runs: tuple[Path, dict[str, Any], str]) -> None:
    folder, result, shown = runs
    assert result["evaluated_on"] == NAME
    assert result["eval_mean"] <= 7  # no episode of the training env is that short
    assert f"evaluated on {NAME}" in " ".join(shown.split())
    facts = RunFacts(Run(folder / result["run"]))
    assert facts.latest["rollout/ep_rew_mean"] > 7 >= facts.latest["eval/mean_reward"]
    assert NAME in facts.run.report_path.read_text(encoding="utf-8")


def test_other_commands_use_it_too(runs: tuple[Path, dict[str, Any], str]) -> None:
    folder, result, _ = runs
    where = "--runs-dir", str(folder)
    scored = last_line(gymnast("eval", result["run"], "--json", *where))
    assert scored["evaluated_on"] == NAME
    assert scored["mean_length"] <= 7
    assert NAME in " ".join(gymnast("eval", result["run"], *where).replace("│", " ").split())
    training = last_line(gymnast("eval", result["run"], "--json", "--set", "eval.env=null", *where))
    assert training["evaluated_on"] is None
    assert training["mean_length"] > 7
    assert last_line(gymnast("runs", "show", result["run"], "--json", *where))["evaluated_on"] == NAME
    assert "(eval.env)" in gymnast("runs", "list", *where)
    video = last_line(gymnast("video", result["run"], "--json", *where))
    assert video["parts"][0]["evaluated_on"] == NAME
    assert video["parts"][0]["episodes"][0]["length"] <= 7


def test_threshold_and_exact_value_are_those_of_the_eval_env() -> None:
    cartpole = resolve_config("CartPole-v1", ["eval.env.id=CartPole-v0"])
    assert solved_threshold(cartpole.config, cartpole.facts) == 195
    dry = resolve_config("FrozenLake-v1", [*SMALL, "eval.env.kwargs.is_slippery=false", "train.total_timesteps=1024"])
    state = build(dry.config, 0.7)
    try:
        assert state.judge.table is not None
        assert state.judge.table.best_value == 1.0  # 0.7442 where it is slippery
        state.judge.watch([EpisodeRecord(0, 0.0, 1, 1, 0, True)])
        assert state.judge.record.seen.low == float("inf")  # returns of training say nothing about it
    finally:
        state.close()
    with pytest.raises(UserError, match=r"above the best possible mean return 0\.7442"):
        resolve_config("FrozenLake-v1", ["stop.threshold=0.9"])
    assert resolve_config("FrozenLake-v1", ["eval.env.kwargs.is_slippery=false", "stop.threshold=0.9"]).threshold == 0.9


def test_the_worker_in_the_background_makes_the_same_env(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same numbers, from another process."""
    monkeypatch.setattr(background, "NICENESS", 0)  # a busy machine shall not decide how this ends
    config = resolve_config("CartPole-v1", [*SMALL, SHORT, "train.total_timesteps=1024"]).config
    state = build(config, None)
    try:
        request = EvalRequest(0, 0)
        here = state.judge.court.examine(request, None)
        tensors = {f"agent/{name}": tensor for name, tensor in state.agent.state_dict().items()}
        worker = EvaluationWorker(config, {})
        worker.give(Snapshot(request, tensors, {}, {}, ""), None)
        there = worker.hear(300.0)
        worker.close()
    finally:
        state.close()
    assert there is not None
    assert there.scores["greedy"].returns.tolist() == here.scores["greedy"].returns.tolist()
    assert max(there.scores["greedy"].lengths) <= 7


def test_scores_of_another_eval_env_are_forgotten_on_resume() -> None:
    config = resolve_config("CartPole-v1", [*SMALL, "train.total_timesteps=1024", "eval.every=256"]).config
    state = build(config, None)
    train(state)
    saved = save_state(state)
    state.close()
    for same, setting in ((True, "eval.env=null"), (False, SHORT)):
        other = build(resolve_config("CartPole-v1", [*SMALL, "train.total_timesteps=1024", setting]).config, None)
        restore(other, *saved)
        assert (other.judge.record.best_score is not None) == same
        other.close()


def test_mistakes_are_one_line() -> None:
    config = resolve_config("CartPole-v1", [*SMALL, "eval.env.id=Acrobot-v1"]).config
    with pytest.raises(UserError, match=r"eval.env: Acrobot-v1 has observations .* Both must be the same"):
        build(config, None)
    with pytest.raises(UserError, match=r"eval.env.wrappers: unknown wrapper 'frame_stak'"):
        resolve_config("CartPole-v1", ["eval.env.wrappers=[frame_stak]"])
    with pytest.raises(UserError, match=r"eval.env.n_envs"):
        resolve_config("CartPole-v1", ["eval.env.n_envs=3"])


def test_what_is_not_changed_is_not_named() -> None:
    config = resolve_config("CartPole-v1", ["eval.env={}"]).config
    assert (config.eval_env, config.evaluated_on) == (config.env, None)
    named = resolve_config("CartPole-v1", ["eval.env.id=CartPole-v0"]).config
    info = RunInfo(None, config=named.model_dump(mode="json"), evaluated_on=named.evaluated_on)
    assert info.title.endswith("evaluated on CartPole-v0 (eval.env)")
