"""Vectors of envs in stable-baselines3's interface: ours in its hands, its own in ours."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from stable_baselines3.common import vec_env as theirs
from stable_baselines3.common.callbacks import EvalCallback
from stable_baselines3.common.monitor import Monitor

from gymnast import PPO, evaluate_policy, make_vec_env
from gymnast.core.errors import EnvFailure, UserError
from tests.envs_for_tests import Counting, Sampling, Troubled
from tests.runs.test_api import SMALL, Pictures, small_ppo


class Doubled(gym.RewardWrapper[Any, Any]):
    def reward(self, reward: Any) -> float:
        return 2.0 * float(reward)


class Copied(gym.ObservationWrapper[Any, Any, Any]):
    """Stable-baselines3's vector keeps the last observation by reference, and this env changes it in place."""

    def observation(self, observation: Any) -> Any:
        return np.array(observation)


def rows_of(model: Any, steps: int) -> list[dict[str, float]]:
    rows: list[dict[str, float]] = []
    model.learn(steps, callback=rows.append, log_interval=1)
    return rows


def test_a_vector_of_stable_baselines3_is_trained_on_as_it_is() -> None:
    given = theirs.DummyVecEnv([lambda: gym.wrappers.TimeLimit(Counting(length=7), 5)] * 3)
    model = PPO(given, **SMALL)
    rows = rows_of(model, 192)
    assert (model.n_envs, model.get_env(), model.num_timesteps) == (3, given, 192)
    assert rows[-1]["rollout/ep_rew_mean"] == 15.0  # 1 + 2 + 3 + 4 + 5
    assert rows[-1]["rollout/truncated_fraction"] == 1.0  # by the limit, and so estimated further
    assert evaluate_policy(model, given, 6, warn=False) == (15.0, 0.0)
    model.learn(96, reset_num_timesteps=False)  # evaluation has moved the envs: new episodes, the same count
    assert model.num_timesteps == 288
    with pytest.raises(UserError, match="this vector has 3 envs"):
        PPO(given, n_envs=2)
    with pytest.raises(UserError, match=r"env.max_episode_steps: is for envs that Gymnast makes"):
        PPO(given, set={"env.max_episode_steps": 9})


def test_an_infinite_observation_of_a_given_vector_is_named() -> None:
    given = theirs.DummyVecEnv([lambda: Troubled(trouble="inf_observation", at=3)])
    with pytest.raises(EnvFailure, match=r"DummyVecEnv: env 0, in step 3 .* gave -inf in the observation 'obs'"):
        PPO(given, **SMALL).learn(32)


def test_what_the_envs_of_a_given_vector_sample_follows_from_the_seed() -> None:
    def weights(seed: int) -> np.ndarray:
        model = PPO(theirs.DummyVecEnv([Sampling] * 2), **SMALL | {"seed": seed}).learn(64)
        return np.concatenate([leaf.numpy().ravel() for leaf in model.agent.state_dict().values()])

    assert np.array_equal(weights(3), weights(3))
    assert not np.array_equal(weights(3), weights(4))


def test_final_observations_of_a_given_vector_are_what_is_estimated_from() -> None:
    """The value behind a time limit is that of the last observation, not of the next episode's first."""
    given = theirs.DummyVecEnv([lambda: gym.wrappers.TimeLimit(Copied(Counting(length=None)), 4)])
    model = PPO(given, **SMALL)
    model.learn(32)
    rollout = model.session.rollout
    cut = rollout["truncated"][:, 0].numpy().astype(bool)
    assert np.flatnonzero(cut).tolist() == list(range(3, 32, 4))
    expected = model.policy.predict_values(model.policy.obs_to_tensor(np.array([[4.0]]))[0])
    model.session.collector.fill(rollout, lambda name: None)  # with the weights as they are now
    assert np.allclose(rollout["final_value"][:, 0].numpy()[cut], float(expected), atol=1e-5)


def test_normalisers_monitors_and_stacks_of_stable_baselines3(tmp_path: Path) -> None:
    normal = theirs.VecNormalize(make_vec_env(lambda: Counting(), n_envs=2))  # ours, in its wrapper
    model = PPO(normal, **SMALL)
    model.learn(64)
    assert model.get_vec_normalize_env() is normal
    assert normal.obs_rms.mean[0] == pytest.approx(2.0, abs=0.3)  # it has seen what the model was trained on
    monitored = theirs.VecMonitor(theirs.DummyVecEnv([lambda: Counting()]))
    assert rows_of(small_ppo(theirs.VecNormalize(monitored)), 64)[-1]["rollout/ep_rew_mean"] == 15.0  # not normalised
    stacked = theirs.VecFrameStack(theirs.DummyVecEnv([Pictures]), 4)
    pictures = PPO("CnnPolicy", stacked, n_steps=16, batch_size=16, n_epochs=1).learn(16)
    assert pictures.predict(stacked.reset())[0].shape == (1,)


def test_make_vec_env_puts_envs_into_a_class_that_is_asked_for(tmp_path: Path) -> None:
    vector = make_vec_env(Counting, 2, seed=1, start_index=4, monitor_dir=tmp_path, env_kwargs={"length": 3})
    assert isinstance(vector, theirs.DummyVecEnv)
    assert vector.env_is_wrapped(Monitor) == [True, True]
    assert rows_of(PPO(vector, **SMALL), 64)[-1]["rollout/ep_rew_mean"] == 6.0
    vector.close()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["4.monitor.csv", "5.monitor.csv"]
    named = make_vec_env("CartPole-v1", 2, vec_env_cls=theirs.DummyVecEnv, wrapper_class=Doubled)
    assert [type(env) for env in named.envs] == [Doubled, Doubled]


def test_env_objects_are_reached_through_the_vector() -> None:
    vector = make_vec_env(Counting, 3, env_kwargs={"length": 4}, wrapper_class=Doubled, engine="sync")
    assert isinstance(vector, theirs.VecEnv)  # so that its wrappers and callbacks take it
    assert vector.get_attr("length", indices=[0, 2]) == [4, 4]
    vector.set_attr("length", 2, indices=1)
    assert vector.get_attr("length") == [4, 2, 4]
    assert vector.env_method("info", indices=0) == [{"t": 0}]
    assert (vector.env_is_wrapped(Doubled), vector.env_is_wrapped(gym.wrappers.TimeLimit)) == ([True] * 3, [False] * 3)
    vector.reset()
    vector.step_async([0, 0, 0])
    _, rewards, _, _ = vector.step_wait()
    assert rewards.tolist() == [2.0] * 3
    assert not hasattr(vector, "set_options")
    with pytest.raises(UserError, match=r"these envs have no pictures.*engine='sync'"):
        vector.render("rgb_array")


def test_envs_that_are_asked_for_before_the_first_reset_are_objects_with_pictures() -> None:
    vector = make_vec_env("CartPole-v1", 2)  # stepped by a compiled engine, where nobody asks
    assert isinstance(vector, theirs.DummyVecEnv)
    assert [type(env.unwrapped).__name__ for env in vector.envs] == ["CartPoleEnv"] * 2
    assert vector.get_attr("metadata")[0]["render_fps"] == 50
    vector.reset()
    assert vector.render_mode == "rgb_array"
    assert vector.render("rgb_array").shape == (400, 600, 3)
    watched = make_vec_env("CartPole-v1", 2, wrapper_class=gym.wrappers.RecordEpisodeStatistics)
    assert all(isinstance(env, gym.wrappers.RecordEpisodeStatistics) for env in watched.envs)
    late = make_vec_env("CartPole-v1", 8)
    late.reset()
    with pytest.raises(UserError, match="envs: the cartpole engine keeps no env objects"):
        _ = late.envs


@pytest.mark.parametrize("wrapper", [None, Doubled])
def test_a_time_limit_is_an_argument_of_make(wrapper: Any) -> None:
    vector = make_vec_env("Pendulum-v1", 2, env_kwargs={"max_episode_steps": 7, "g": 9.0}, wrapper_class=wrapper)
    rows = rows_of(PPO(vector, **SMALL), 64)
    assert rows[-1]["rollout/ep_len_mean"] == 7.0
    assert vector.get_attr("g") == [9.0, 9.0]


def test_evaluation_of_stable_baselines3_takes_our_envs_without_a_warning(recwarn: pytest.WarningsRecorder) -> None:
    model = small_ppo(make_vec_env("CartPole-v1", 1))
    model.learn(32, callback=EvalCallback(Monitor(gym.make("CartPole-v1")), eval_freq=32, n_eval_episodes=1, verbose=0))
    assert not [warning for warning in recwarn if "not of the same type" in str(warning.message)]


def test_evaluate_policy_shows_every_step_and_asserts() -> None:
    model = small_ppo(lambda: Counting())
    seen: list[tuple[int, float, bool]] = []

    def look(local: dict[str, Any], all_: dict[str, Any]) -> None:
        assert local["new_observations"] is not local["observations"]
        seen.append((local["i"], float(local["reward"]), bool(local["done"])))

    evaluate_policy(model, make_vec_env(Counting, 2), 3, callback=look)
    assert sum(done for _, _, done in seen) == 3  # each env's quota of episodes, and no step after it
    assert [reward for env, reward, _ in seen if env == 1] == [1.0, 2.0, 3.0, 4.0, 5.0]
    assert evaluate_policy(model.policy, lambda: Counting(), reward_threshold=14.9) == (15.0, 0.0)
    with pytest.raises(AssertionError, match=r"15.00 is not above the threshold 15.00"):
        evaluate_policy(model, lambda: Counting(), reward_threshold=15.0)


def test_evaluate_policy_renders_what_can_be_rendered() -> None:
    pictures: list[Any] = []

    class Shown(Counting):
        def render(self) -> Any:
            pictures.append(self.t)
            return np.zeros((8, 8, 3), np.uint8)

    model = small_ppo(lambda: Counting())
    evaluate_policy(model, Shown(render_mode="rgb_array"), 1, render=True)
    evaluate_policy(model, theirs.DummyVecEnv([lambda: Shown(render_mode="rgb_array")]), 1, render=True, warn=False)
    assert pictures == [1, 2, 3, 4, 0] * 2  # after each step, where the last one has begun the next episode
    evaluate_policy(model, lambda: Shown(), 1, render=True)  # made without a way to show it
    assert len(pictures) == 10


def test_evaluate_policy_says_when_wrappers_lie_between_env_and_score(recwarn: pytest.WarningsRecorder) -> None:
    model = small_ppo(lambda: Counting())
    assert evaluate_policy(model, gym.wrappers.TimeLimit(Counting(), 9), 2) == (15.0, 0.0)
    assert evaluate_policy(model, Doubled(Monitor(Counting())), 2) == (15.0, 0.0)  # the Monitor knows the env's own
    assert evaluate_policy(model, Doubled(Counting()), 2, warn=False) == (30.0, 0.0)
    assert not recwarn
    for doubled in (Doubled(Counting()), gym.wrappers.TransformReward(Counting(), lambda reward: 2 * reward)):
        with pytest.warns(UserWarning, match="its own wrappers included"):
            assert evaluate_policy(model, doubled, 2) == (30.0, 0.0)
