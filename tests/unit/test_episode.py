"""The record of an episode: every number of it is known beforehand from the env."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from gymnast import config as configs
from gymnast.play.episode import Step, play_episodes
from gymnast.play.stage import Stage
from gymnast.runs.saved_agent import SavedAgent
from tests.envs_for_tests import full_id


def record(name: str, episodes: int, *settings: str) -> list[Step]:
    config = configs.load(f"{full_id(name)}:ppo", settings).config
    stage = Stage(config, episodes)
    steps = list(play_episodes(SavedAgent.build(config, stage.engine).net, stage, 7, deterministic=False))
    stage.engine.close()
    return steps


def test_steps_of_a_counting_env() -> None:
    """Five steps that pay 1 to 5; the observation is the step's index. The sixth record is the end."""
    steps = record("Counting-v0", 2)
    assert [(step.env, step.t) for step in steps] == [(env, t) for env in (0, 1) for t in range(6)]
    for episode in (steps[:6], steps[6:]):
        assert [float(step.obs["obs"][0]) for step in episode] == [0, 1, 2, 3, 4, 5]
        assert [step.reward for step in episode] == [1, 2, 3, 4, 5, 0]
        assert [step.total for step in episode] == [0, 1, 3, 6, 10, 15]
        assert [step.frames for step in episode] == [0, 1, 2, 3, 4, 5]
        assert [step.terminated for step in episode] == [False, False, False, False, True, False]
        assert not any(step.truncated for step in episode)
        assert all(sum(step.choices["probability"]) == pytest.approx(1) for step in episode[:-1])
        assert all(step.picture.ndim == 3 and step.picture.size for step in episode)
        last = episode[-1]
        assert (last.action, last.value, last.choices) == (None, None, {})
        assert last.record is not None
        assert (last.record.raw_return, last.record.length) == (15, 5)
        assert all(step.record is None for step in episode[:-1])


def test_named_parts_add_up_to_the_reward_of_their_step() -> None:
    steps = record("Dice-v0", 3)
    ends = [step for step in steps if step.record is not None]
    assert [step.env for step in ends] == [0, 1, 2]
    for step in steps:
        assert sum(step.components.values()) == pytest.approx(step.reward)
    for end in ends:
        assert end.record is not None
        mine = [step for step in steps if step.env == end.env]
        for name, total in end.record.components.items():
            assert sum(step.components.get(name, 0.0) for step in mine) == pytest.approx(total)
        assert sum(step.reward for step in mine) == pytest.approx(end.record.raw_return)


def test_actions_are_those_that_the_mask_allows() -> None:
    steps = record("Masked-v0", 1, "env.action_masks=true")
    for step in steps[:-1]:
        assert step.mask is not None
        assert step.mask[step.action]
        assert np.array_equal(np.asarray(step.choices["probability"]) > 0, step.mask)


def test_what_an_agent_remembers_is_part_of_it() -> None:
    steps = record("Counting-v0", 1, "agent.memory=lstm", "agent.sequence_length=8", "algo.n_steps=32")
    memories = [step.state for step in steps[:-1]]
    assert memories[0]
    assert all(not array.any() for array in memories[0].values())
    for before, after in pairwise(memories[1:]):  # the first observation is 0 and leaves no trace
        assert any(not np.array_equal(before[name], after[name]) for name in before)
