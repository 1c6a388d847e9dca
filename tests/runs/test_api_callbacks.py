"""Callbacks of learn(): when each event comes, what it sees, and that it can stop training and do nothing else."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from stable_baselines3.common import callbacks as theirs
from stable_baselines3.common.logger import configure

from gymnast import A2C, PPO
from gymnast.core.errors import UserError
from tests.envs_for_tests import Counting
from tests.runs.test_api import same, small_ppo


class Diary:
    """An object with stable-baselines3's methods that writes down what it is told."""

    def __init__(self, stop_after: int = 10**9) -> None:
        self.events: list[str] = []
        self.steps: list[tuple[int, int]] = []  # num_timesteps, and the first env's observation
        self.stop_after = stop_after

    def init_callback(self, model: Any) -> None:
        self.model = model
        self.events.append("init")

    def on_training_start(self, locals_: dict[str, Any], globals_: dict[str, Any]) -> None:
        self.locals = locals_
        self.events.append("start")

    def on_rollout_start(self) -> None:
        self.events.append("rollout")

    def on_step(self) -> bool:
        self.steps.append((self.model.num_timesteps, int(self.locals["new_obs"][0, 0])))
        if self.locals["dones"][0]:
            assert self.locals["infos"][0]["episode"] == {"r": 15.0, "l": 5}
            assert self.locals["infos"][0]["terminal_observation"] == [5.0]
        return len(self.steps) < self.stop_after

    def on_rollout_end(self) -> None:
        self.events.append("rollout end")

    def on_training_end(self) -> None:
        self.events.append("end")


def test_events_come_when_stable_baselines3_calls_them_and_change_nothing() -> None:
    diary = Diary()
    watched = small_ppo(lambda: Counting(), n_envs=2).learn(128, callback=diary)
    assert diary.events == ["init", "start", *["rollout", "rollout end"] * 2, "end"]
    # 64 steps of 2 envs, counted one by one; an episode's 5th step shows the next one's first observation
    assert diary.steps == [(2 * step, step % 5) for step in range(1, 65)]
    assert diary.locals["total_timesteps"] == 128
    assert same(watched, small_ppo(lambda: Counting(), n_envs=2).learn(128))


def test_an_event_that_says_false_ends_training_at_once() -> None:
    diary = Diary(stop_after=40)
    model = small_ppo(lambda: Counting()).learn(1000, callback=diary, log_interval=20)
    assert model.result is not None
    assert (model.result.stop_reason, model.num_timesteps) == ("callback", 40)
    assert len(diary.steps) == 40  # none after it has said so
    assert diary.events == ["init", "start", "rollout", "rollout end", "rollout", "end"]
    once = small_ppo(lambda: Counting()).learn(32)
    assert same(model, once)  # the eight steps of the second rollout were not learned from
    model.learn(32, reset_num_timesteps=False)  # and the model trains on
    assert model.num_timesteps == 72


def test_an_error_in_a_callback_leaves_a_usable_model() -> None:
    def fail(local: dict[str, Any], all_: dict[str, Any]) -> bool:
        if local["n_steps"] == 9:
            raise KeyError("mine")
        return True

    model = small_ppo(lambda: Counting())
    with pytest.raises(KeyError, match="mine"):
        model.learn(64, callback=fail)
    assert model.num_timesteps == 0  # nothing was learned from those nine steps
    rows: list[dict[str, float]] = []
    model.learn(32, callback=rows.append)
    assert (rows[-1]["rollout/ep_len_mean"], model.num_timesteps) == (5.0, 32)


@pytest.mark.parametrize(
    ("callback", "steps"),
    [
        (lambda row: False, 32),  # rows come after a rollout, steps within it
        (lambda local, all_: local["n_steps"] < 10, 10),
        ([lambda row: None, lambda row: False], 32),
    ],
)
def test_functions_stop_training_as_well(callback: Any, steps: int) -> None:
    model = small_ppo().learn(1000, callback=callback, log_interval=1)
    assert model.result is not None
    assert (model.result.stop_reason, model.num_timesteps) == ("callback", steps)


def test_callbacks_of_stable_baselines3_do_their_work(tmp_path: Path) -> None:
    stop = theirs.StopTrainingOnMaxEpisodes(max_episodes=20)
    every = theirs.EveryNTimesteps(n_steps=40, callback=theirs.CheckpointCallback(1, tmp_path / "all", "at"))
    best = theirs.EvalCallback(Counting(), eval_freq=25, n_eval_episodes=2, best_model_save_path=tmp_path, warn=False)
    rows: list[dict[str, float]] = []
    model = A2C(lambda: Counting(), n_steps=10).learn(1000, callback=[stop, every, best, rows.append], log_interval=1)
    assert stop.n_episodes == 20
    assert model.num_timesteps == 100  # 20 episodes of 5 steps
    assert best.best_mean_reward == 15.0
    assert sorted(path.name for path in (tmp_path / "all").iterdir()) == ["at_40_steps.zip", "at_80_steps.zip"]
    assert A2C.load(tmp_path / "best_model.zip", env=lambda: Counting()).learn(10).num_timesteps == 10
    # what a callback records comes with the next row, under a name of its own
    assert [row["custom/eval/mean_reward"] for row in rows if "custom/eval/mean_reward" in row] == [15.0] * 4


def test_a_callback_sees_the_envs_that_are_trained_on_and_cannot_step_them() -> None:
    seen: list[Any] = []

    class Looks(theirs.BaseCallback):
        def _on_step(self) -> bool:
            seen.append((self.training_env.num_envs, self.training_env.get_attr("length"), self.n_calls))
            with pytest.raises(UserError, match="Give a callback envs of its own"):
                self.training_env.reset()
            return True

    small_ppo(lambda: Counting(), set={"env.engine": "sync"}).learn(32, callback=Looks())
    assert seen[-1] == (1, [5], 32)


def test_numbers_that_callbacks_record_and_loggers_that_users_set(tmp_path: Path) -> None:
    class Records(theirs.BaseCallback):
        def _on_step(self) -> bool:
            self.logger.record("mine/step", self.n_calls)
            self.logger.record_mean("mine/mean", np.float32(self.n_calls))
            self.logger.record("text", "not a number")
            return True

    rows: list[dict[str, float]] = []
    model = small_ppo()
    with pytest.warns(UserWarning, match="only numbers are kept, not str") as said:
        model.learn(64, callback=[Records(), rows.append], log_interval=1)
    assert len(said) == 1
    assert [(row["custom/mine/step"], row["custom/mine/mean"]) for row in rows] == [(32.0, 16.5), (64.0, 48.5)]
    assert model.logger.name_to_value["train/loss"] == rows[-1]["train/loss"]
    model.set_logger(configure(str(tmp_path), ["csv"]))
    model.learn(64, log_interval=1)
    table = (tmp_path / "progress.csv").read_text().splitlines()
    assert len(table) == 3
    assert "train/loss" in table[0]


def test_a_logger_that_prints_tables_gets_names_that_fit(tmp_path: Path) -> None:
    """Diagnostics of two layers: cut to 36 characters their names are the same, which its tables refuse."""
    model = PPO("CartPole-v1", n_steps=32, batch_size=32)
    model.set_logger(configure(str(tmp_path), ["stdout", "log", "csv"]))
    model.learn(32, log_interval=1)
    assert "net/activation_mean/actor_body.layers.3" in (tmp_path / "progress.csv").read_text()
    assert "activation_mean" not in (tmp_path / "log.txt").read_text()
    assert "approx_kl" in (tmp_path / "log.txt").read_text()


def test_tensorboard_log_counts_folders_as_stable_baselines3_does(tmp_path: Path) -> None:
    model = small_ppo(tensorboard_log=tmp_path)
    model.learn(32)
    model.learn(32, reset_num_timesteps=False)
    model.learn(32, None, None, "mine")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["PPO_1", "mine_1"]
    for folder in tmp_path.iterdir():
        assert list(folder.rglob("events.out.tfevents.*"))


def test_a_schedule_may_be_a_function_of_what_is_left() -> None:
    def rates(function: Any) -> Any:
        return PPO("CartPole-v1", learning_rate=function, clip_range=lambda left: 0.3).config.algo.learning_rate

    assert str(rates(lambda left: 1e-3 * left)) == "lin_0.001"
    assert rates(lambda left: 2e-4).to_form() == 2e-4
    steps = rates(lambda left: 1e-3 if left > 0.5 else 1e-4)
    assert (steps.value(0.3), steps.value(0.6)) == (1e-3, 1e-4)
    model = PPO("CartPole-v1", learning_rate=lambda left: 1e-3 * left, clip_range=0.3)
    assert (model.learning_rate, model.learning_rate(0.5), model.lr_schedule(0.25)) == (1e-3, 5e-4, 2.5e-4)
    assert (model.clip_range, model.clip_range(1.0), model.gamma, model.n_steps) == (0.3, 0.3, 0.99, 2048)


class NoOptions(gym.Wrapper[Any, Any, Any, Any]):
    """An env as many are written: its reset takes a seed and nothing else."""

    def reset(self, seed: int | None = None) -> Any:  # type: ignore[override]
        return self.env.reset(seed=seed)


def test_an_env_whose_reset_has_no_options() -> None:
    rows: list[dict[str, float]] = []
    small_ppo(NoOptions(Counting())).learn(32, callback=rows.append)
    assert rows[-1]["rollout/ep_rew_mean"] == 15.0


def test_parts_of_the_loop_may_be_looked_at() -> None:
    seen: list[Any] = []

    class Looking(theirs.BaseCallback):
        def _on_step(self) -> bool:
            return True

        def _on_rollout_end(self) -> None:
            buffer = self.model.rollout_buffer
            seen.append((buffer.rewards.copy(), buffer.actions.shape, np.isnan(buffer.returns).all()))
            buffer.rewards[:] = 7.0  # a copy

    model = small_ppo(lambda: Counting(), n_envs=2, stats_window_size=3).learn(64, callback=Looking())
    rewards, shape, unknown = seen[0]
    assert rewards[:, 0].tolist() == [float(1 + step % 5) for step in range(32)]  # episodes of 5 steps, paid 1 to 5
    assert (shape, bool(unknown)) == ((32, 2), True)
    buffer = model.rollout_buffer
    assert (buffer.observations.shape, buffer.values.shape, buffer.buffer_size) == ((32, 2, 1), (32, 2), 32)
    assert np.allclose(buffer.returns, buffer.advantages + buffer.values, atol=1e-5)
    assert list(model.ep_info_buffer) == [{"r": 15.0, "l": 5}] * 3
    assert (model.ep_info_buffer.maxlen, len(model.ep_success_buffer)) == (3, 0)
    with pytest.raises(AttributeError, match=r"rollout_buffer has no 'add'.* cannot be changed"):
        buffer.add(1)
    assert model._last_obs.shape == (2, 1)
    model.set_env(lambda: Counting())
    assert model._last_obs is None  # new episodes begin
    model.num_timesteps = 1000
    assert model.learn(32, reset_num_timesteps=False).num_timesteps == 1000 + 64


@pytest.mark.parametrize("env", ["CartPole-v1", "Pendulum-v1"])
def test_a_policy_judges_actions(env: str) -> None:
    model = small_ppo(env, seed=1)
    policy = model.policy
    obs, _ = policy.obs_to_tensor(np.stack([model.observation_space.sample() for _ in range(16)]))
    actions, values, logps = policy(obs)
    judged = policy.evaluate_actions(obs, actions)
    for mine, theirs_ in zip(judged[:2], (values, logps), strict=True):
        torch.testing.assert_close(mine, theirs_, atol=1e-5, rtol=0)
    judged[1].mean().backward()  # with gradients
    assert policy.actor_out.weight.grad is not None
    chosen = policy.get_distribution(obs)
    torch.testing.assert_close(chosen.log_prob(actions), logps, atol=1e-5, rtol=0)
    torch.testing.assert_close(chosen.entropy(), judged[2])
    assert torch.equal(chosen.get_actions(deterministic=True), chosen.mode())
    assert chosen.distribution.sample().shape == actions.shape
    with pytest.raises(UserError, match="an agent with memory judges whole sequences"):
        small_ppo(env, memory="lstm").policy.evaluate_actions(obs, actions)
