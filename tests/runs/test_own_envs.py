"""Envs of one's own in short real runs: pictures get a network that fits, what is wrong with one is reported."""

from __future__ import annotations

import math
import sys
from pathlib import Path
from typing import Any
from unittest.mock import patch

import gymnasium as gym
import numpy as np
import pytest
import torch
from gymnasium import spaces

from gymnast.agent.agent import Agent
from gymnast.alerts.alert import Alert
from gymnast.alerts.text import evidence_of
from gymnast.config import with_space_defaults
from gymnast.config.load import load
from gymnast.config.schema import EnvConfig
from gymnast.envs.make import EnvMaker, space_defaults
from gymnast.envs.repeat import repeats
from gymnast.envs.spaces import ObsLayout
from gymnast.report.next_steps import next_steps
from gymnast.report.run_facts import RunFacts
from gymnast.runs.references import Run
from gymnast.training.build import build
from gymnast.training.loop import train
from gymnast.training.record import new_run, record
from gymnast.verbs.train import start
from tests.envs_for_tests import full_id
from tests.runs.test_alerts import trained


class Corner(gym.Env[Any, Any]):
    """A dot somewhere in one of the picture's four corners; naming the corner pays 1. Ten pictures an episode."""

    def __init__(self, side: int = 8, first: bool = False, beside: bool = False) -> None:
        self.side, self.first = side, first
        picture = spaces.Box(0, 255, (3, side, side) if first else (side, side, 3), np.uint8)
        numbers = spaces.Box(-1, 1, (2,), np.float32)
        self.observation_space = spaces.Dict({"eye": picture, "numbers": numbers}) if beside else picture
        self.action_space = spaces.Discrete(4)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        super().reset(seed=seed)
        self.t = 0
        return self.show(), {}

    def step(self, action: Any) -> Any:
        paid, self.t = float(action == self.corner), self.t + 1
        return self.show(), paid, False, self.t == 10, {}

    def show(self) -> Any:
        self.corner = int(self.np_random.integers(4))
        half, picture = self.side // 2, np.zeros((self.side, self.side, 3), np.uint8)
        row, column = self.np_random.integers(half, size=2)
        picture[row + half * (self.corner // 2), column + half * (self.corner % 2)] = 255
        picture = np.moveaxis(picture, 2, 0) if self.first else picture
        beside = isinstance(self.observation_space, spaces.Dict)
        return {"eye": picture, "numbers": np.zeros(2, np.float32)} if beside else picture


class Match(gym.Env[Any, Any]):
    """Shows a number; naming it pays 1. Twenty of them an episode, which has no other end."""

    observation_space: Any = spaces.Box(0, 1, (2,), np.float32)
    action_space: Any = spaces.Discrete(2)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        super().reset(seed=seed)
        return self.show(), {}

    def show(self) -> Any:
        self.number = int(self.np_random.integers(2))
        return np.eye(2, dtype=np.float32)[self.number]

    def step(self, action: Any) -> Any:
        paid = self.pay(action)
        return self.show(), paid, False, False, {}

    def pay(self, action: Any) -> float:
        return float(action == self.number)


class Constant(Match):
    def pay(self, action: Any) -> float:
        return 1.0


class Blank(Constant):
    """Shows nothing either: there is no gradient at all, whatever the learning rate."""

    def show(self) -> Any:
        return np.zeros_like(super().show())


class Noise(Match):
    """Pays at random."""

    def pay(self, action: Any) -> float:
        return float(self.np_random.normal())


class Combination(Match):
    """Shows nothing. Actions must alternate three times, whichever comes first: by chance always, greedily never."""

    def show(self) -> Any:
        return np.zeros(2, np.float32)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        super().reset(seed=seed)
        self.last, self.changes = None, 0
        return self.show(), {}

    def step(self, action: Any) -> Any:
        self.changes += self.last not in (None, action)
        self.last = int(action)
        return self.show(), float(self.changes == 3), self.changes == 3, False, {}


class Walk(gym.Env[Any, Any]):
    """Ten places in a row; action 1 goes up, and the last place pays 1. Returns are 0 or 1."""

    observation_space: Any = spaces.Box(0, 9, (1,), np.float32)
    action_space: Any = spaces.Discrete(2)

    def __init__(self, pays: float = 1.0) -> None:
        self.pays = pays

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        super().reset(seed=seed)
        self.place = 0
        return np.zeros(1, np.float32), {}

    def step(self, action: Any) -> Any:
        self.place = max(0, self.place + (1 if action == 1 else -1))
        there = self.place == 9
        return np.array([self.place], np.float32), self.pays * there, there, False, {}


gym.register("test/Corner-v0", Corner)
gym.register("test/Walk-v0", Walk, max_episode_steps=50)
gym.register("test/Match-v0", Match, max_episode_steps=20)
gym.register("test/Constant-v0", Constant, max_episode_steps=20)
gym.register("test/Blank-v0", Blank, max_episode_steps=20)
gym.register("test/Noise-v0", Noise, max_episode_steps=20)
gym.register("test/Combination-v0", Combination, max_episode_steps=20)
gym.register("test/NeverEnds-v0", Constant)
HERE = f"{__name__}:test/Corner-v0"


def resolved(target: str, *settings: str) -> Any:
    found = load(target, settings)
    return with_space_defaults(found, space_defaults(found.config.env))


@pytest.mark.parametrize("first", [False, True], ids=["HWC", "CHW"])
@pytest.mark.parametrize(
    "side,encoder", [(7, "mlp"), (8, "small_cnn"), (16, "small_cnn"), (35, "small_cnn"), (36, "nature_cnn")]
)
def test_pictures_get_the_network_that_fits_their_size(side: int, encoder: str, first: bool) -> None:
    config = resolved(HERE, f"env.kwargs={{side: {side}, first: {str(first).lower()}}}").config
    assert config.agent.encoder == encoder
    space = Corner(side, first).observation_space
    layout = ObsLayout(space)
    agent = Agent(layout.obs_space, spaces.Discrete(4), config.agent, 0.99)
    batch, _ = layout.to_batch(space.sample())
    assert agent.act({name: torch.as_tensor(leaf) for name, leaf in batch.items()}).action.shape == (1,)


def test_a_picture_among_other_entries_gets_it_too() -> None:
    agent = resolved(HERE, "env.kwargs={beside: true}").config.agent
    assert (agent.encoder, agent.shared, agent.hidden, agent.normalize_obs) == ("small_cnn", True, [64, 64], True)


def test_it_learns_from_small_pictures() -> None:
    sizes = ("algo.n_steps=64", "algo.batch_size=128", "algo.n_epochs=4", "algo.learning_rate=1e-3")
    config = resolved(HERE, *sizes, "train.total_timesteps=6144", "eval.every=6144", "stop.episodes=5").config
    state = build(config, None)
    try:
        train(state)
    finally:
        state.close()
    score = state.judge.record.last_score
    assert score is not None
    assert score > 7.0  # of 10; chance gets 2.5


def alerts_of(env: str, *settings: str) -> dict[str, Alert]:
    """What a short run on one of these envs reports, by rule."""
    sizes = ("algo.n_steps=64", "algo.n_epochs=4", "algo.batch_size=128", "train.total_timesteps=16384")
    book, rows = trained(f"{__name__}:test/{env}-v0", "algo.learning_rate=1e-3", *sizes, *settings)
    assert rows
    return {alert.rule: alert for alert in book.alerts}


def test_a_task_of_a_fixed_length_is_healthy() -> None:
    """Every episode is cut, and in the end all returns are 20 of 20."""
    assert [rule for rule, alert in alerts_of("Match").items() if alert.severity != "info"] == []


def test_a_perfect_agent_is_silent_without_a_threshold() -> None:
    """All returns are 1 of 1 after a twentieth of the run, and the policy is as certain as one can be."""
    book, rows = trained(f"{__name__}:test/Walk-v0", "algo.learning_rate=1e-3", "train.total_timesteps=98304")
    assert [row["rollout/ep_rew_mean"] for row in rows[-20:]] == [1.0] * 20
    assert rows[-1]["train/entropy"] < 0.005 * math.log(2)  # these two raise alerts where the score is poor
    assert rows[-1]["rollout/action_std"] < 0.05
    assert [alert.rule for alert in book.alerts] == []


def test_an_env_that_never_pays_is_not_blamed_on_a_setting() -> None:
    alert = alerts_of("Walk", "env.kwargs={pays: 0.0}")["reward_sparse"]
    assert alert.patch is None
    assert "`gymnast envs audit`" in alert.cause
    assert evidence_of(alert) == "reward_nonzero_fraction none, ep_rew_max 0.00"


def next_of(folder: Path, *settings: str) -> list[str]:
    """What a run on the row of places advises next."""
    order = ["gymnast", "train", f"{__name__}:test/Walk-v0"]
    sizes = ["algo.learning_rate=1e-3", "eval.episodes=5", "stop.episodes=5", *settings]
    with patch.object(sys, "argv", order):
        result = start(order[2], sizes, folder, 3, 40_960, quiet=True)
    return [command for command, _ in next_steps(RunFacts(Run(folder / result.run)))]


def test_a_run_without_a_threshold_is_offered_one_first(tmp_path: Path) -> None:
    """A tenth of what it gained below the score, so that a trained agent reaches it and an untrained one does not."""
    first, *others = next_of(tmp_path)
    command, value = first.removesuffix(f" --runs-dir {tmp_path}").split("=")
    assert command == f"gymnast train {__name__}:test/Walk-v0 --set stop.threshold"
    assert 0.9 < float(value) < 1.0
    assert not any("envs audit" in other for other in others)  # its returns have moved


def test_a_run_whose_returns_did_not_move_is_offered_an_audit_of_its_env(tmp_path: Path) -> None:
    assert next_of(tmp_path, "env.kwargs={pays: 0.0}")[0] == f"gymnast envs audit {__name__}:test/Walk-v0:ppo"


@pytest.mark.parametrize("env", ["Constant", "Blank"])
def test_a_constant_reward_is_reported_as_such_and_nothing_else_is_blamed(env: str) -> None:
    (alert,) = alerts_of(env, "algo.learning_rate=lin_3e-4").values()
    assert alert.rule == "returns_alike"
    assert alert.patch is None
    assert "set `terminated`" in alert.cause


def test_episodes_that_are_all_cut_are_an_alert_only_where_the_score_does_not_rise() -> None:
    alerts = alerts_of("Noise")
    assert "No step has set `terminated`" in alerts["all_cut"].cause
    assert alerts["all_cut"].patch is None


def test_an_env_that_never_ends_is_reported_before_any_evaluation_waits_for_it() -> None:
    alerts = alerts_of("NeverEnds", "train.total_timesteps=20480", "eval.every=1024")
    assert alerts["no_end"].patch == {"env.max_episode_steps": 1000}
    assert alerts["no_end"].since <= 18432


def test_training_far_above_greedy_evaluation_advises_to_judge_sampled_actions() -> None:
    alert = alerts_of("Combination")["greedy_below_training"]
    assert alert.patch == {"stop.judge": "stochastic", "eval.policy": "both"}
    assert alert.evidence["eval/mean_reward"].value == 0.0
    healed = alerts_of("Combination", "stop.judge=stochastic", "eval.policy=both")
    assert "greedy_below_training" not in healed


@pytest.mark.parametrize(
    ("env_id", "same"),
    [
        (full_id("Dice-v0"), True),
        (full_id("Sampling-v0"), True),
        (full_id("Unseeded-v0"), False),
        (full_id("Crashing-v0"), None),  # training will say so
        (full_id("Masked-v0"), None),
        ("CartPole-v1", None),  # has a preset
    ],
)
def test_whether_an_env_repeats_itself_is_found_before_a_run(env_id: str, same: bool | None) -> None:
    config = EnvConfig(id=env_id, action_masks="Masked" in env_id)
    assert repeats(EnvMaker(config, "train")) is same


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        (["env.engine=sync"], None),
        (["env.engine=envpool"], "cannot continue those in progress. For exact resume: --set env.engine=sync"),
        (["train.layout=central", "train.central.mode=async"], "async actors: the same seed gives other numbers"),
        ([f"env.id={full_id('Unseeded-v0')}", "env.engine=sync"], "gives other numbers for the same seed, so that two"),
    ],
    ids=str,
)
def test_a_run_says_at_its_start_what_does_not_repeat(settings: list[str], said: str | None, tmp_path: Path) -> None:
    if "env.engine=envpool" in settings:
        pytest.importorskip("envpool")
    small = ["env.n_envs=2", "algo.n_steps=32", "algo.batch_size=64", "train.total_timesteps=64", "eval.every=0"]
    config = load("CartPole-v1", [*small, *settings]).config
    session, run = build(config, None), new_run(config, "ppo", tmp_path)
    try:
        record(session, run, quiet=True)
    finally:
        session.close()
    log = run.log_path.read_text()
    assert (said in log) if said else not any(word in log for word in ("new episodes", "other numbers"))
    assert bool(run.read().summary["exact_resume"]) == (said is None)
