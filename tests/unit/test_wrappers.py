"""Each wrapper alone, on envs whose every number is known."""

from __future__ import annotations

import re
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces

from gymnast.config import EnvConfig
from gymnast.core.errors import UserError
from gymnast.core.registry import WRAPPERS
from gymnast.envs.make import make_env
from gymnast.envs.recorder import recorder_of
from gymnast.envs.wrappers import problems
from tests.envs_for_tests import full_id


def wrapped(name: str, *wrappers: Any, role: str = "train", **kwargs: Any) -> gym.Env[Any, Any]:
    env_id = name if name in gym.registry else full_id(name)
    return make_env(EnvConfig(id=env_id, wrappers=list(wrappers), kwargs=kwargs), role)  # type: ignore[arg-type]


class Spy(gym.Env[Any, Any]):
    """Keeps the actions it is given."""

    def __init__(self, action_space: gym.Space[Any]) -> None:
        self.observation_space, self.action_space = spaces.Box(-1, 1, (1,)), action_space
        self.actions: list[Any] = []

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        return np.zeros(1, np.float32), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.actions.append(action)
        return np.zeros(1, np.float32), 0.0, False, False, {}


def spied(wrapper: dict[str, Any], space: gym.Space[Any]) -> tuple[gym.Env[Any, Any], Spy]:
    spy = Spy(space)
    return make_env(EnvConfig(id="spy", wrappers=[wrapper]), "train", lambda: spy), spy  # type: ignore[list-item]


def test_every_registered_wrapper_says_its_own_name() -> None:
    for name in WRAPPERS.names():
        assert WRAPPERS.get(name).name == name


def test_frame_stack_of_vectors_is_oldest_first() -> None:
    env = wrapped("Counting-v0", {"frame_stack": {"n": 3}})
    assert env.observation_space.shape == (3,)
    assert env.reset(seed=0)[0].tolist() == [0, 0, 0]
    assert env.step(0)[0].tolist() == [0, 0, 1]
    first = env.step(0)[0]
    assert first.tolist() == [0, 1, 2]
    env.step(0)
    assert first.tolist() == [0, 1, 2]  # what was returned does not change later
    env.step(0)
    assert env.reset(seed=1)[0].tolist() == [0, 0, 0]  # nothing of the episode before


@pytest.mark.parametrize(
    "name,shape,dtype",
    [
        ("Image", (6, 16, 12), np.uint8),  # two images of 3 channels, channels first
        ("Discrete", (2,), np.int64),
        ("MultiDiscrete", (4,), np.int64),
        ("MultiBinary", (8,), np.int8),
    ],
)
def test_frame_stack_of_other_spaces(name: str, shape: tuple[int, ...], dtype: Any) -> None:
    env = wrapped(f"{name}Observation-v0", {"frame_stack": {"n": 2}})
    observation, _ = env.reset(seed=0)
    assert (env.observation_space.shape, observation.shape) == (shape, shape)
    assert observation.dtype == dtype
    assert env.observation_space.contains(observation)
    plain = wrapped(f"{name}Observation-v0")
    start, _ = plain.reset(seed=0)
    then = plain.step(0)[0]
    stacked = env.step(0)[0]
    if name == "Image":
        expected = np.concatenate([start.transpose(2, 0, 1), then.transpose(2, 0, 1)])
    else:
        expected = np.concatenate([np.atleast_1d(start), np.atleast_1d(then)])
    np.testing.assert_array_equal(stacked, expected)


def test_frame_stack_of_a_dict_is_entry_by_entry() -> None:
    env = wrapped("DictObservation-v0", {"frame_stack": {"n": 2}})
    observation, _ = env.reset(seed=0)
    assert observation["camera"].shape == (2, 8, 10)
    assert observation["inside"]["speed"].shape == (4,)
    assert env.observation_space.contains(observation)


def test_frame_skip_sums_rewards_and_stops_at_the_end() -> None:
    env = wrapped("Counting-v0", {"frame_skip": {"n": 3}})
    env.reset(seed=0)
    observation, reward, terminated, _, _ = env.step(0)
    assert (observation.tolist(), reward, terminated) == ([3], 1 + 2 + 3, False)
    observation, reward, terminated, _, _ = env.step(0)
    assert (observation.tolist(), reward, terminated) == ([5], 4 + 5, True)


def test_stochastic_frame_skip_draws_from_its_range_and_replays() -> None:
    env = wrapped("Truncating-v0", {"frame_skip": {"low": 2, "high": 4}})
    runs = []
    for _ in range(2):
        seen = []
        for seed in range(30):
            env.reset(seed=seed)
            env.step(0)
            seen.append(recorder_of(env).frames)
        runs.append(seen)
    assert runs[0] == runs[1]
    assert set(runs[0]) == {2, 3, 4}


def test_time_limit_counts_decisions() -> None:
    env = wrapped("Truncating-v0", {"frame_skip": {"n": 2}}, {"time_limit": {"steps": 2}})
    env.reset(seed=0)
    assert env.step(0)[2:4] == (False, False)
    assert env.step(0)[2:4] == (False, True)
    assert recorder_of(env).frames == 4
    env.reset(seed=0)
    assert env.step(0)[3] is False


def test_sticky_actions_repeat_the_executed_action() -> None:
    env, spy = spied({"sticky_actions": {"p": 0.25}}, spaces.Discrete(10_000))
    env.reset(seed=4)
    for action in range(4000):
        env.step(action)
    assert spy.actions[0] == 0  # never at the first step
    repeated = [now == before for before, now in zip(spy.actions[:-1], spy.actions[1:], strict=True)]
    # 3999 draws with p = 0.25: a standard deviation of 0.0068
    assert np.mean(repeated) == pytest.approx(0.25, abs=0.03)
    assert all(
        now in (before, i + 1) for i, (before, now) in enumerate(zip(spy.actions, spy.actions[1:], strict=False))
    )
    again, spy_again = spied({"sticky_actions": {"p": 0.25}}, spaces.Discrete(10_000))
    again.reset(seed=4)
    for action in range(4000):
        again.step(action)
    assert spy.actions == spy_again.actions


def test_observation_noise_has_its_deviation_and_replays() -> None:
    env = wrapped("Truncating-v0", {"observation_noise": {"std": 0.5}})
    draws = np.array([env.reset(seed=seed)[0][0] for seed in range(2000)])
    assert draws.std() == pytest.approx(0.5, abs=0.03)
    assert draws.mean() == pytest.approx(0.0, abs=0.05)
    assert env.reset(seed=7)[0] == draws[7]
    assert env.observation_space.contains(env.reset(seed=0)[0])
    two = wrapped("Truncating-v0", {"observation_noise": {"std": 0.5}}, {"observation_noise": {"std": 0.5}})
    assert two.reset(seed=7)[0] != pytest.approx(2 * draws[7])  # the second does not repeat the first


def test_action_noise_continuous_is_clipped_and_discrete_is_uniform() -> None:
    box = spaces.Box(-1.0, 1.0, (2,), np.float32)
    env, spy = spied({"action_noise": {"std": 0.3}}, box)
    env.reset(seed=0)
    for _ in range(1000):
        env.step(np.zeros(2, np.float32))
    taken = np.stack(spy.actions)
    assert all(box.contains(action) for action in taken)
    assert taken.std() == pytest.approx(0.3, abs=0.02)
    env, spy = spied({"action_noise": {"p": 0.5}}, spaces.Discrete(4))
    env.reset(seed=0)
    for _ in range(4000):
        env.step(3)
    # action 3 is kept in half of the steps and drawn in a quarter of the others: 0.5 + 0.5 / 4
    assert np.mean(np.array(spy.actions) == 3) == pytest.approx(0.625, abs=0.03)
    with pytest.raises(UserError, match=r"continuous actions take std, not p=0\.5"):
        spied({"action_noise": {"p": 0.5}}, box)


def test_flatten_keeps_every_number() -> None:
    env = wrapped("TupleObservation-v0", "flatten")
    raw, _ = wrapped("TupleObservation-v0").reset(seed=5)
    observation, _ = env.reset(seed=5)
    assert observation.dtype == np.float32
    assert observation.tolist() == [*np.eye(4, dtype=np.float32)[raw[0]].tolist(), *raw[1].tolist()]
    assert env.observation_space.contains(observation)


def test_one_hot() -> None:
    env = wrapped("DiscreteObservation-v0", "one_hot")  # from 2 to 6
    raw, _ = wrapped("DiscreteObservation-v0").reset(seed=1)
    assert env.reset(seed=1)[0].tolist() == np.eye(5)[raw - 2].tolist()
    env = wrapped("MultiDiscreteObservation-v0", "one_hot")  # 3 and 4 values
    raw, _ = wrapped("MultiDiscreteObservation-v0").reset(seed=1)
    assert env.reset(seed=1)[0].tolist() == [*np.eye(3)[raw[0]].tolist(), *np.eye(4)[raw[1]].tolist()]
    env = wrapped("MultiBinaryObservation-v0", "one_hot")
    raw, _ = wrapped("MultiBinaryObservation-v0").reset(seed=1)
    assert env.reset(seed=1)[0].tolist() == raw.tolist()
    with pytest.raises(UserError, match="one_hot: needs Discrete"):
        wrapped("CartPole-v1", "one_hot")


@pytest.mark.parametrize(
    "space,actions,second",
    [
        (spaces.Discrete(5), [4, 2], 2),
        (spaces.MultiBinary(3), [[0, 0, 0], [1, 0, 1]], [1, 0, 1]),
        (spaces.MultiDiscrete([2, 3]), [[0, 0], [1, 2]], [1, 2]),
        (spaces.Box(-1.0, 1.0, (1,), np.float32), [[-1.0], [0.5]], [0.5]),
    ],
)
def test_action_remap(space: gym.Space[Any], actions: list[Any], second: Any) -> None:
    env, spy = spied({"action_remap": {"actions": actions}}, space)
    assert env.action_space == spaces.Discrete(2)
    env.reset(seed=0)
    env.step(1)
    assert np.asarray(spy.actions[0]).tolist() == second
    assert space.contains(spy.actions[0])
    with pytest.raises(UserError, match=r"action_remap: actions: .* is not an action of"):
        spied({"action_remap": {"actions": [*actions, 9]}}, space)


def test_training_only_wrappers_are_left_out_of_evaluation_and_play() -> None:
    noise = {"observation_noise": {"std": 1.0, "training_only": True}}
    sticky = {"sticky_actions": {"p": 0.5}}
    names = {role: str(wrapped("Counting-v0", noise, sticky, role=role)) for role in ("train", "eval", "play")}
    assert "ObservationNoise" in names["train"]
    assert "ObservationNoise" not in names["eval"]
    assert "ObservationNoise" not in names["play"]
    assert all("StickyActions" in name for name in names.values())  # part of the task unless marked


@pytest.mark.parametrize(
    "name,kwargs,expected",
    [
        ("frame_stakc", {}, r"unknown wrapper 'frame_stakc'. Did you mean 'frame_stack'"),
        ("frame_stack", {}, r"wrapper 'frame_stack' needs the parameter 'n'. Known: n\."),
        ("frame_stack", {"n": 0}, r"n is 0 and must be a whole number from 1 to 1024. Known: n\."),
        ("frame_stack", {"n": 2.5}, r"n is 2.5 and must be a whole number from 1 to 1024"),
        ("frame_stack", {"n": True}, r"n is True and must be a whole number"),
        ("frame_stack", {"n": 2, "size": 3}, r"no parameter 'size' \(value 3\). Known: n\."),
        ("sticky_actions", {"p": 1.5}, r"p is 1.5 and must be a number from 0 to 1. Known: p, training_only\."),
        ("sticky_actions", {"p": 0.1, "training_only": 1}, r"training_only is 1 and must be true or false"),
        ("frame_skip", {}, r"give either n, or both low and high; got \{\}"),
        ("frame_skip", {"n": 2, "low": 1}, r"give either n, or both low and high"),
        ("frame_skip", {"low": 3, "high": 2}, r"low is 3 and high is 2; low must not be above high"),
        ("action_noise", {"std": 0.1, "p": 0.2}, r"give std \(continuous actions\) or p \(others\), one of them"),
        ("action_remap", {"actions": 3}, r"actions is 3 and must be a list"),
        ("flatten", {"n": 1}, r"no parameter 'n' \(value 1\). It takes no parameters\."),
        ("reward_scale", {}, r"set env.reward.scale"),
        ("action_repeat", {"repeats": [2, 2]}, r"repeats is \[2, 2\] and must list different whole numbers from 1"),
        ("action_repeat", {"repeats": []}, r"repeats is \[\] and must list different whole numbers"),
        ("resize", {"height": 84}, r"wrapper 'resize' needs the parameter 'width'"),
        ("rescale_observation", {"mean": 1.0}, r"give mean and std, or neither"),
        ("rescale_observation", {"mean": ["a"], "std": 1.0}, r"mean is \['a'\] and must be numbers"),
    ],
)
def test_problems_name_wrapper_parameter_value_and_what_is_known(
    name: str, kwargs: dict[str, Any], expected: str
) -> None:
    found = problems(name, kwargs)
    assert len(found) == 1
    assert re.search(expected, found[0])


def test_several_problems_are_all_named_and_right_parameters_have_none() -> None:
    assert len(problems("observation_noise", {"sdt": 1.0, "training_only": "yes"})) == 3  # and std is missing
    assert problems("frame_skip", {"low": 2, "high": 4, "training_only": True}) == []
    assert problems("observation_noise", {"std": 1}) == []


def test_grayscale_weighs_the_colours() -> None:
    env = wrapped("ImageObservation-v0", "grayscale")
    plain = wrapped("ImageObservation-v0")
    observation, _ = env.reset(seed=0)
    picture, _ = plain.reset(seed=0)
    assert observation.shape == env.observation_space.shape == (16, 12, 1)
    red, green, blue = picture[3, 4].tolist()
    assert observation[3, 4, 0] == round(0.299 * red + 0.587 * green + 0.114 * blue)
    np.testing.assert_allclose(env.step(0)[0][..., 0], plain.step(0)[0] @ [0.299, 0.587, 0.114], atol=0.51)


def test_resize_takes_the_mean_of_what_a_pixel_covers() -> None:
    """16 x 12 to 4 x 8: a new pixel is 4 rows by 1.5 columns, the second one half of column 1 and all of 2."""
    env = wrapped("ImageObservation-v0", {"resize": {"height": 4, "width": 8}})
    picture = wrapped("ImageObservation-v0").reset(seed=0)[0].astype(float)
    observation, _ = env.reset(seed=0)
    assert (observation.shape, observation.dtype) == ((4, 8, 3), np.uint8)
    second = (0.5 * picture[:4, 1] + picture[:4, 2]).sum(axis=0) / (4 * 1.5)
    np.testing.assert_allclose(observation[0, 1], second, atol=0.51)
    stacked = wrapped(
        "ImageObservation-v0", "grayscale", {"resize": {"height": 8, "width": 6}}, {"frame_stack": {"n": 4}}
    )
    assert stacked.reset(seed=0)[0].shape == (4, 8, 6)  # channels first, as every stack


def test_pictures_only() -> None:
    for wrapper in ("grayscale", {"resize": {"height": 2, "width": 2}}):
        with pytest.raises(UserError, match=r"needs pictures \[height, width, channels\] of bytes"):
            wrapped("BoxObservation-v0", wrapper)
    with pytest.raises(UserError, match="needs red, green and blue; this env's pictures have 1 channels"):
        wrapped("ImageObservation-v0", "grayscale", "grayscale")


def test_the_agent_chooses_how_often_to_repeat() -> None:
    env, spy = spied({"action_repeat": {"repeats": [1, 3]}}, spaces.Discrete(4, start=-1))
    assert env.action_space == spaces.Discrete(8)
    env.reset(seed=0)
    env.step(2)  # action 2 of four, once
    env.step(7)  # 7 = 3 + 4 * 1: the last action, three times
    assert spy.actions == [1, 2, 2, 2]
    counting = wrapped("Counting-v0", {"action_repeat": {"repeats": [1, 4]}})
    counting.reset(seed=0)
    assert counting.step(2)[1] == 1 + 2 + 3 + 4
    observation, reward, terminated, _, _ = counting.step(2)
    assert (observation.tolist(), reward, terminated) == ([5], 5, True)  # it ends there, not four later
    with pytest.raises(UserError, match="needs Discrete actions"):
        spied({"action_repeat": {"repeats": [1, 2]}}, spaces.MultiBinary(2))


def test_rescaled_observations() -> None:
    plain, env = wrapped("Pendulum-v1"), wrapped("Pendulum-v1", "rescale_observation")
    start, _ = plain.reset(seed=0)
    np.testing.assert_allclose(env.reset(seed=0)[0], start / [1, 1, 8], rtol=1e-6)  # its bounds are 1, 1 and 8
    assert env.observation_space == spaces.Box(-1.0, 1.0, (3,), np.float32)
    given = {"rescale_observation": {"mean": [0.0, 1.0, 2.0], "std": 2.0}}
    np.testing.assert_allclose(wrapped("Pendulum-v1", given).reset(seed=0)[0], (start - [0, 1, 2]) / 2, rtol=1e-6)
    assert wrapped("Pendulum-v1", given, role="eval").observation_space.low.tolist() == [-0.5, -1.0, -5.0]  # type: ignore[attr-defined]
    with pytest.raises(UserError, match="has no bounds to scale by; give mean and std"):
        wrapped("Counting-v0", "rescale_observation")
    with pytest.raises(UserError, match=r"mean has the shape \(2,\); an observation has \(3,\)"):
        wrapped("Pendulum-v1", {"rescale_observation": {"mean": [0.0, 1.0], "std": 2.0}})
    with pytest.raises(UserError, match="every number of it must be positive"):
        wrapped("Pendulum-v1", {"rescale_observation": {"mean": 0.0, "std": [1.0, 0.0, 1.0]}})
