"""One rule: rollouts, statistics and random numbers are on the CPU, the network where `device` says.

`tests/fake_device.py` stands for an accelerator; a run on it must give the numbers of the same run on the CPU.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from gymnast import config as configs
from gymnast.agent.nets import TorchNet, choose_net
from gymnast.core import devices
from gymnast.judge.evaluate import evaluate
from gymnast.runs import saved_agent
from gymnast.training import build as building
from gymnast.training.build import build
from gymnast.training.diagnostics import diagnose
from gymnast.training.loop import train
from gymnast.training.state import TrainState, last_steps, restore, save_state
from tests.envs_for_tests import full_id
from tests.fake_device import DEVICE, FakeDevice, OnDevice

NORMALISED = {"normalize_obs": True, "normalize_reward": True}
CASES: dict[str, dict[str, Any]] = {
    "ppo": {"env": {"id": "CartPole-v1"}, "agent": NORMALISED},
    "a2c": {"env": {"id": "CartPole-v1"}, "agent": NORMALISED, "algo": {"name": "a2c", "n_steps": 16}},
    "reinforce": {"env": {"id": "CartPole-v1"}, "agent": NORMALISED, "algo": {"name": "reinforce", "n_steps": 16}},
    "gaussian": {"env": {"id": "Pendulum-v1"}, "agent": NORMALISED},
    "sde": {"env": {"id": "Pendulum-v1"}, "agent": {**NORMALISED, "std": "sde", "sde_sample_freq": 4}},
    "masks": {"env": {"id": full_id("Masked-v0"), "action_masks": True}, "agent": NORMALISED},
    "lstm": {"env": {"id": "CartPole-v1"}, "agent": {**NORMALISED, "memory": "lstm", "memory_size": 8}},
    "gru": {"env": {"id": "CartPole-v1"}, "agent": {**NORMALISED, "memory": "gru", "memory_size": 8, "shared": True}},
    "categories": {"env": {"id": "FrozenLake-v1"}, "agent": {"discrete_encoding": "embedding"}},
}


def run(monkeypatch: pytest.MonkeyPatch, case: dict[str, Any], elsewhere: bool, updates: int = 3) -> TrainState:
    """A short run through everything that moves numbers between network and rollout."""
    data = {
        "algo": case.get("algo", {"name": "ppo", "n_steps": 16, "batch_size": 32, "n_epochs": 2}),
        "env": {"n_envs": 4, "engine": "sync"} | case["env"],
        "agent": {"hidden": [16]} | case["agent"],
        "train": {"total_timesteps": 64 * updates, "seed": 3},
        "eval": {"episodes": 2, "every": 0},  # `train` scores the agent at its end all the same
        "stop": {"episodes": 2, "on_solved": False},
    }
    config = configs.validate(data)
    where = DEVICE if elsewhere else torch.device("cpu")
    monkeypatch.setattr(saved_agent, "pick_device", lambda name, large: where)
    monkeypatch.setattr(building, "choose_net", TorchNet)  # the same network on both, so that bits can be compared
    state = build(config, None)
    train(state)
    diagnose(state)
    assert last_steps(state).count("\n") > 10
    assert np.isfinite(evaluate(state.net, state.judge.env, 2, seed=5).mean)
    return state


@pytest.mark.parametrize("name", CASES)
def test_a_run_on_another_device_gives_the_numbers_of_the_cpu(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    here = run(monkeypatch, CASES[name], elsewhere=False)
    with FakeDevice():
        there = run(monkeypatch, CASES[name], elsewhere=True)
        found = {key: tensor.cpu() for key, tensor in there.agent.state_dict().items()}
    # A memory is scanned by compiled loops on the CPU and by torch's layer elsewhere: equal up to rounding.
    tolerance = 1e-4 if there.agent.has_memory else 0.0
    for key, tensor in here.agent.state_dict().items():
        torch.testing.assert_close(found[key], tensor, rtol=tolerance, atol=tolerance, msg=key)
    here.close(), there.close()


def test_every_part_is_where_the_rule_says(monkeypatch: pytest.MonkeyPatch) -> None:
    with FakeDevice():
        state = run(monkeypatch, CASES["sde"], elsewhere=True)
        assert all(isinstance(parameter.data, OnDevice) for parameter in state.agent.parameters())
        for stream in (*state.rollout.streams.values(), *state.rollout.last_values.values()):
            assert stream.device.type == "cpu"
        assert state.agent.normalizer is not None
        assert state.agent.reward_normalizer is not None
        for moments in (*state.agent.normalizer.moments, state.agent.reward_normalizer.moments):
            assert {moments.mean.device.type, moments.var.device.type, moments.count.device.type} == {"cpu"}
            assert {moments.shift.device.type, moments.scale.device.type} == {DEVICE.type}
        moved = [tensor for held in state.net.optimizer.state.values() for tensor in held.values()]  # type: ignore[attr-defined]
        assert {tensor.device.type for tensor in moved} == {DEVICE.type}
        assert state.collector.generator.device.type == state.learner.generator.device.type == "cpu"
        assert isinstance(choose_net(state.agent), TorchNet)  # the compiled network is for the CPU alone
    state.close()


@pytest.mark.parametrize("name", ["ppo", "lstm"])
def test_a_run_that_is_resumed_on_the_device_goes_on_exactly(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    with FakeDevice():
        whole = run(monkeypatch, CASES[name], elsewhere=True, updates=4)
        half = run(monkeypatch, CASES[name], elsewhere=True, updates=2)
        tensors, values = save_state(half)
        saved = {key: tensor.cpu().clone() for key, tensor in tensors.items()}
        rest = build(whole.config, None)
        assert restore(rest, saved, values) == []
        for state in (half, rest):
            assert all(isinstance(parameter.data, OnDevice) for parameter in state.agent.parameters())
        rest.plan()
        train(rest)
        for key, tensor in whole.agent.state_dict().items():
            torch.testing.assert_close(rest.agent.state_dict()[key].cpu(), tensor.cpu(), rtol=0, atol=0, msg=key)
    for state in (whole, half, rest):
        state.close()


def test_the_fake_device_refuses_what_a_real_one_does() -> None:
    """Or the tests above could not fail."""
    with FakeDevice():
        there = torch.ones(3).to(DEVICE)
        with pytest.raises(RuntimeError, match="same device"):
            there + torch.ones(3)
        with pytest.raises(TypeError, match="numpy"):
            there.numpy()
        with pytest.raises(AssertionError, match="float64"):
            torch.ones(3, dtype=torch.float64).to(DEVICE)
        assert (there + there).cpu().tolist() == [2.0, 2.0, 2.0]


@pytest.mark.parametrize(
    ("name", "large", "cuda", "expected"),
    [
        ("auto", False, True, "cpu"),  # a small network is faster on the compiled one
        ("auto", True, True, "cuda"),
        ("auto", True, False, "cpu"),
        ("cuda", False, True, "cuda"),
        ("cpu", True, True, "cpu"),
    ],
)
def test_auto_takes_an_accelerator_for_a_large_network_alone(
    monkeypatch: pytest.MonkeyPatch, name: str, large: bool, cuda: bool, expected: str
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: cuda)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: False)
    assert devices.pick_device(name, large).type == expected
