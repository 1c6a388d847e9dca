"""Every algorithm learns every skill; minutes would hide what seconds can show."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from gymnast.agent.batch import VALUE
from gymnast.config import validate
from gymnast.judge.evaluate import evaluate
from gymnast.training.build import build
from gymnast.training.loop import train
from gymnast.training.state import TrainState
from tests.probes.probes import ConstantReward, MemoryCue, ObservationTellsAction, Probe, Target, TwoStates

ALGOS: dict[str, dict[str, Any]] = {
    "ppo": {"name": "ppo", "n_steps": 16, "batch_size": 64, "n_epochs": 4, "learning_rate": 1e-2, "gamma": 0.5},
    "a2c": {"name": "a2c", "n_steps": 8, "learning_rate": 1e-2, "gamma": 0.5, "optimizer": "adam"},
    "reinforce": {"name": "reinforce", "n_steps": 16, "learning_rate": 1e-2, "gamma": 0.5},
}
SQUASHED = {"squash": True, "std": "state_dependent"}


def trained(make: Callable[[], Probe], algo: str, steps: int = 8192, **sections: Any) -> TrainState:
    config = validate(
        {
            "env": {"id": "probe", "n_envs": 8, "engine": "sync", **sections.get("env", {})},
            "agent": {"hidden": [16], **sections.get("agent", {})},
            "algo": ALGOS[algo],
            "train": {"total_timesteps": steps, "seed": 3},
            "eval": {"every": 0},
            "stop": {"on_solved": False, "episodes": 2},
        }
    )
    state = build(config, None, factory=make)
    train(state)
    return state


def score(state: TrainState) -> float:
    mean = evaluate(state.net, state.judge.env, 50, seed=9).mean
    state.close()
    return mean


def values(state: TrainState, *seen: float) -> list[float]:
    found: list[float] = state.agent.values({"obs": torch.tensor(seen)[:, None]})[VALUE].tolist()
    state.close()
    return found


@pytest.mark.parametrize("algo", ALGOS)
def test_constant_reward_gives_the_value(algo: str) -> None:
    assert values(trained(ConstantReward, algo), 0.0) == pytest.approx([1.0], abs=0.03)


@pytest.mark.parametrize("algo", ALGOS)
def test_two_states_give_the_discount(algo: str) -> None:
    first, second = values(trained(TwoStates, algo), 0.0, 1.0)
    assert second == pytest.approx(1.0, abs=0.05)
    assert first == pytest.approx(0.5, abs=0.05)  # gamma


@pytest.mark.parametrize("algo", ALGOS)
def test_the_observation_decides(algo: str) -> None:
    assert score(trained(ObservationTellsAction, algo)) == 1.0


@pytest.mark.parametrize("algo", ALGOS)
@pytest.mark.parametrize("kind", ["multi_discrete", "multi_binary", "box"])
def test_every_action_space_finds_its_target(algo: str, kind: str) -> None:
    assert score(trained(lambda: Target(kind), algo, 16_384)) > 0.94


def test_a_squashed_policy_finds_its_target() -> None:
    assert score(trained(lambda: Target("box"), "ppo", 16_384, agent=SQUASHED)) > 0.94


def test_frames_are_a_memory() -> None:
    """Without memory nothing beats chance, 0.5; with the last two observations the cue is still there."""
    assert score(trained(MemoryCue, "ppo")) < 0.8
    assert score(trained(MemoryCue, "ppo", env={"wrappers": [{"frame_stack": {"n": 2}}]})) == 1.0


@pytest.mark.parametrize("memory", ["lstm", "gru"])
def test_a_memory_keeps_what_was_shown(memory: str) -> None:
    assert score(trained(MemoryCue, "ppo", agent={"memory": memory, "memory_size": 16})) == 1.0
