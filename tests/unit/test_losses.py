"""A loss is written once, as an expression of a network's outputs: the compiled kernels give the same slopes and
metrics, and the expression itself trains both networks alike."""

from __future__ import annotations

import copy
from functools import partial
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch

from gymnast.agent.agent import Agent
from gymnast.agent.batch import VALUE, Batch, Outputs
from gymnast.agent.nets.dense_net import DenseNet
from gymnast.config import AgentConfig
from gymnast.config.algos import AlgoSettings
from gymnast.rl.algos.a2c import A2CConfig
from gymnast.rl.algos.ppo import PPO, PPOConfig, PPOKernel
from gymnast.rl.algos.reinforce import ReinforceConfig
from gymnast.rl.learner import Expression, Learner, PolicyGradientKernel, policy_gradient_losses
from tests.learners_for_tests import NETS, experience, make_learner

STEPS, ENVS = 16, 4
ROWS = STEPS * ENVS
COLUMNS = ["action", "logp", "value", "advantage", "returns"]
ACTIONS = {"choice": gym.spaces.Discrete(3), "gaussian": gym.spaces.Box(-1.0, 1.0, (2,))}
OPTIONS: list[dict[str, Any]] = [
    {},
    {"clip_range": 0.02},
    {"clip_range": 5.0},
    {"clip_range_vf": 0.05},
    {"value_loss": "huber", "huber_delta": 0.7},
    {"value_loss": "huber", "huber_delta": 0.3, "clip_range_vf": 0.1, "vf_coef": 0.9},
    {"ent_coef": 0.0},
    {"ent_coef": 0.3},
    {"normalize_advantage": "off"},
    {"clip_range": "lin_0.3", "ent_coef": {"start": 0.1, "end": 0}, "vf_coef": {"start": 1.0, "end": 0.5}},
]


def make_agent(actions: str) -> Agent:
    torch.manual_seed(0)
    agent = Agent({"obs": gym.spaces.Box(-np.inf, np.inf, (5,))}, ACTIONS[actions], AgentConfig(), 0.99)
    with torch.no_grad():
        agent.actor_out.weight.mul_(50.0)  # far from uniform: entropies differ from row to row
    return agent


def prepared(learner: Learner, masks: bool, **columns: torch.Tensor) -> Batch:
    rollout = experience(learner.agent, STEPS, ENVS, drift=0.2, value_drift=0.1, masks=masks)
    return learner.net.prepare(rollout.batch(COLUMNS).with_columns(**columns))


def copied(batch: Batch) -> Batch:
    """A kernel may normalise advantages where they lie."""
    return batch.map(np.copy)


def assert_same_slopes(kernel: Outputs, expression: Outputs) -> None:
    pairs = {
        "logp": (kernel.logp, expression.logp),
        "entropy": (kernel.entropy, expression.entropy),
        "value": (kernel.values[VALUE], expression.values[VALUE]),
    }
    for name, (ours, theirs) in pairs.items():
        assert (ours is None) == (theirs is None), name
        if theirs is not None:
            torch.testing.assert_close(torch.as_tensor(ours), theirs, atol=1e-7, rtol=1e-4, msg=name)


def assert_same_metrics(kernel: Any, expression: Expression) -> None:
    ours, theirs = kernel.metrics(), expression.metrics()
    assert list(ours) == list(theirs)
    for name, value in theirs.items():
        assert float(ours[name]) == pytest.approx(float(value), abs=1e-6, rel=1e-5), name


@pytest.mark.parametrize("actions,masks", [("choice", False), ("choice", True), ("gaussian", False)])
@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_ppos_kernel_has_the_slopes_of_its_loss(options: dict[str, Any], actions: str, masks: bool) -> None:
    algo = PPOConfig(**{"batch_size": ROWS, "ent_coef": 0.02} | options)
    learner = make_learner(DenseNet(make_agent(actions)), algo)
    assert isinstance(learner, PPO)
    batch = prepared(learner, masks)
    out = learner.net.forward(batch)
    for progress in (0.0, 0.4):
        kernel, losses = learner.losses(progress), Expression(partial(learner.loss, progress=progress))
        assert isinstance(kernel, PPOKernel)
        expected = losses.slopes(out, copied(batch))
        found = kernel.slopes(out, copied(batch))
        assert_same_slopes(found, expected)
        assert_same_metrics(kernel, losses)
        for name in ("train/approx_kl", "train/ratio"):
            assert kernel.metric(name, -1) == pytest.approx(float(losses.metric(name, -1)), abs=1e-6)
        assert float(losses.metrics()["train/clip_fraction"]) > 0 or algo.clip_range.value(progress) > 1  # or vacuous


def test_ppos_kernel_sees_that_nan_is_nan() -> None:
    """A diverged network must be seen, not hidden by a comparison that is false."""
    learner = make_learner(DenseNet(make_agent("choice")), PPOConfig(batch_size=ROWS, clip_range_vf=0.1))
    assert isinstance(learner, PPO)
    batch = prepared(learner, masks=False)
    out = learner.net.forward(batch)
    out.logp[3] = out.values[VALUE][5] = np.nan
    kernel, losses = learner.losses(0.0), Expression(partial(learner.loss, progress=0.0))
    found, expected = (each.slopes(out, copied(batch)) for each in (kernel, losses))
    assert (
        np.flatnonzero(np.isnan(found.logp)).tolist() == torch.nonzero(expected.logp.isnan()).flatten().tolist() == [3]
    )
    assert np.flatnonzero(np.isnan(found.values[VALUE])).tolist() == [5]
    assert np.isnan(kernel.metrics()["train/loss"])


@pytest.mark.parametrize("actions,masks", [("choice", False), ("choice", True), ("gaussian", False)])
@pytest.mark.parametrize("has_target", [True, False])
@pytest.mark.parametrize("options", [{}, {"value_loss": "huber", "huber_delta": 0.4}, {"ent_coef": 0.0}], ids=str)
def test_the_policy_gradients_kernel_has_the_slopes_of_its_loss(
    options: dict[str, Any], has_target: bool, actions: str, masks: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    learner = make_learner(DenseNet(make_agent(actions)), A2CConfig(**{"ent_coef": 0.02, "vf_coef": 0.3} | options))
    columns = {"weight": torch.randn(ROWS, generator=torch.Generator().manual_seed(1))}
    if has_target:
        columns["target"] = torch.randn(ROWS, generator=torch.Generator().manual_seed(2))
    batch = prepared(learner, masks, **columns)
    kernel = policy_gradient_losses(learner, 0.0)
    assert isinstance(kernel, PolicyGradientKernel)
    monkeypatch.setattr(Learner, "uses_kernels", False)
    losses = policy_gradient_losses(learner, 0.0)
    assert isinstance(losses, Expression)
    out = learner.net.forward(batch)
    expected = losses.slopes(out, batch)
    assert_same_slopes(kernel.slopes(out, batch), expected)
    assert_same_metrics(kernel, losses)


@pytest.mark.parametrize(
    "algo",
    [
        PPOConfig(n_epochs=2, batch_size=16, ent_coef=0.02, clip_range_vf=0.1, learning_rate=1e-3),
        A2CConfig(ent_coef=0.02),
        ReinforceConfig(ent_coef=0.02, learning_rate=1e-3),
        ReinforceConfig(ent_coef=0.02, learning_rate=1e-3, baseline="mean"),
    ],
    ids=lambda algo: f"{algo.name} {algo.trains_critic}",
)
@pytest.mark.parametrize("actions", ACTIONS)
def test_a_loss_written_once_trains_both_networks(
    actions: str, algo: AlgoSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By its expression on both networks, and by its kernel: always the same weights and metrics."""
    start = make_agent(actions)
    rollout = experience(start, STEPS, ENVS, drift=0.2, value_drift=0.1)

    def trained(net: str) -> tuple[dict[str, torch.Tensor], dict[str, Any]]:
        learner = make_learner(NETS[net](copy.deepcopy(start)), algo)
        metrics = [learner.update(rollout, progress) for progress in (0.0, 0.1, 0.2)][-1]
        return learner.agent.state_dict(), metrics

    results = {"the kernel": trained("dense")}
    monkeypatch.setattr(Learner, "uses_kernels", False)
    results |= {f"the expression on {net}": trained(net) for net in NETS}
    weights, metrics = results.pop("the expression on torch")
    assert not torch.equal(weights["actor_out.weight"], start.state_dict()["actor_out.weight"])
    for way, (found, reported) in results.items():
        for name, tensor in weights.items():
            torch.testing.assert_close(found[name], tensor, atol=1e-5, rtol=0, msg=f"{way}: {name}")
        assert list(reported) == list(metrics)
        for name, value in metrics.items():
            assert float(reported[name]) == pytest.approx(float(value), abs=1e-5, rel=1e-4), f"{way}: {name}"


def test_a_term_that_an_extension_adds_is_an_expression() -> None:
    class Extra:
        adds_loss = True

        def loss(self, out: Outputs, batch: Batch) -> torch.Tensor:
            return 3.0 * out.values[VALUE].sum()

    learner = make_learner(DenseNet(make_agent("choice")), A2CConfig(vf_coef=0.0, ent_coef=0.0))
    learner.extensions = [Extra()]  # type: ignore[list-item]
    losses = policy_gradient_losses(learner, 0.0)
    assert isinstance(losses, Expression)  # no kernel knows it
    batch = prepared(learner, masks=False, weight=torch.ones(ROWS))
    slopes = losses.slopes(learner.net.forward(batch), batch)
    assert slopes.values[VALUE].tolist() == [3.0] * ROWS
    assert slopes.logp.tolist() == pytest.approx([-1 / ROWS] * ROWS)
