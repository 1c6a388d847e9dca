"""Action heads against torch.distributions, and what masks and squashing must do."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
import pytest
import torch
from torch import distributions as reference

from gymnast.agent.heads import BernoulliHead, CategoricalHead, GaussianHead, Head, make_head
from gymnast.config import AgentConfig
from gymnast.core.errors import UserError

SPACES = {
    "discrete": gym.spaces.Discrete(5),
    "multi_discrete": gym.spaces.MultiDiscrete([3, 2, 4]),
    "multi_binary": gym.spaces.MultiBinary(4),
    "box": gym.spaces.Box(-2.0, 2.0, (3,)),
}
VARIANTS = [
    *((name, AgentConfig()) for name in SPACES),
    ("box", AgentConfig(std="state_dependent")),
    ("box", AgentConfig(squash=True)),
    ("box", AgentConfig(squash=True, std="state_dependent")),
]


def head_and_outputs(name: str, cfg: AgentConfig, rows: int = 64) -> tuple[Head, torch.Tensor]:
    head = make_head(SPACES[name], cfg, n_features=1)
    return head, torch.randn(rows, head.n_outputs, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize("name, cfg", VARIANTS)
@pytest.mark.parametrize("deterministic", [False, True])
def test_act_and_evaluate_agree(name: str, cfg: AgentConfig, deterministic: bool) -> None:
    head, outputs = head_and_outputs(name, cfg)
    sample = None if deterministic else torch.Generator().manual_seed(1)
    action, logp, state = head.act(outputs, sample, {})
    assert state == {}
    again, entropy = head.evaluate(outputs, action)
    torch.testing.assert_close(logp, again, atol=1e-6, rtol=0)
    assert entropy.shape == logp.shape == (64,)
    assert action.shape == (64, *head.shape)
    assert action.dtype == head.dtype
    for row in head.to_env(action.detach().numpy()):
        assert SPACES[name].contains(np.asarray(row, SPACES[name].dtype))


def test_categorical_equals_torch() -> None:
    head, outputs = head_and_outputs("discrete", AgentConfig())
    action = torch.arange(64) % 5
    logp, entropy = head.evaluate(outputs, action)
    expected = reference.Categorical(logits=outputs)
    torch.testing.assert_close(logp, expected.log_prob(action))
    torch.testing.assert_close(entropy, expected.entropy())


def test_multi_discrete_is_a_product_of_categoricals() -> None:
    head, outputs = head_and_outputs("multi_discrete", AgentConfig())
    action = torch.stack([torch.arange(64) % n for n in (3, 2, 4)], 1)
    logp, entropy = head.evaluate(outputs, action)
    parts = [reference.Categorical(logits=part) for part in outputs.split([3, 2, 4], 1)]
    torch.testing.assert_close(logp, sum(part.log_prob(action[:, i]) for i, part in enumerate(parts)))
    torch.testing.assert_close(entropy, sum(part.entropy() for part in parts))


def test_bernoulli_equals_torch() -> None:
    head, outputs = head_and_outputs("multi_binary", AgentConfig())
    action = (torch.arange(256).reshape(64, 4) % 3 > 0).to(torch.int8)
    logp, entropy = head.evaluate(outputs, action)
    expected = reference.Independent(reference.Bernoulli(logits=outputs), 1)
    torch.testing.assert_close(logp, expected.log_prob(action.float()))
    torch.testing.assert_close(entropy, expected.entropy())


def test_gaussian_equals_torch() -> None:
    head, outputs = head_and_outputs("box", AgentConfig(log_std_init=-0.5))
    action = torch.randn(64, 3)
    logp, entropy = head.evaluate(outputs, action)
    expected = reference.Independent(reference.Normal(outputs, np.exp(-0.5)), 1)
    torch.testing.assert_close(logp, expected.log_prob(action))
    torch.testing.assert_close(entropy, expected.entropy())


def test_squashed_gaussian_equals_torch_and_its_entropy_is_right_on_average() -> None:
    head, _ = head_and_outputs("box", AgentConfig(squash=True))
    outputs = torch.tensor([[0.3, -1.0, 0.8]]).expand(200_000, 3)
    action, logp, _ = head.act(outputs, torch.Generator().manual_seed(2), {})
    base = reference.Independent(reference.Normal(outputs, 1.0), 1)
    expected = reference.TransformedDistribution(base, reference.TanhTransform(cache_size=1))
    inside = action.abs().amax(1) < 4  # where torch's atanh is still exact
    torch.testing.assert_close(logp[inside], expected.log_prob(action.tanh())[inside], atol=2e-3, rtol=1e-3)
    # Entropy is -E[log p]; both sides are means over the same 200k samples of a unit-order quantity.
    _, entropy = head.evaluate(outputs, action)
    assert abs(float((entropy.mean() + logp.mean()).detach())) < 0.02


def test_sampling_frequencies_are_the_probabilities() -> None:
    logits = torch.tensor([[0.0, 1.0, -1.0]]).expand(100_000, 3)
    action, _, _ = CategoricalHead(gym.spaces.Discrete(3)).act(logits, torch.Generator().manual_seed(0), {})
    frequencies = torch.bincount(action, minlength=3) / 100_000
    # One standard deviation of a frequency is at most sqrt(0.25 / 100000) = 0.0016.
    torch.testing.assert_close(frequencies, torch.softmax(logits[0], 0), atol=0.008, rtol=0)
    bits, _, _ = BernoulliHead(gym.spaces.MultiBinary(3)).act(logits, torch.Generator().manual_seed(0), {})
    torch.testing.assert_close(bits.float().mean(0), torch.sigmoid(logits[0]), atol=0.008, rtol=0)


@pytest.mark.parametrize("name", ["discrete", "multi_discrete", "multi_binary"])
def test_masked_actions_have_no_probability_and_no_gradient(name: str) -> None:
    head, outputs = head_and_outputs(name, AgentConfig(), rows=2000)
    outputs.requires_grad_()
    mask = torch.ones(2000, head.n_mask, dtype=torch.bool)
    mask[:, [0, -1]] = False
    masked = head.outputs(outputs, outputs, mask)
    action, logp, _ = head.act(masked, torch.Generator().manual_seed(3), {})
    first = action if name == "discrete" else action[:, 0]
    assert (first != 0).all() if name != "multi_binary" else (first == 0).all()
    again, entropy = head.evaluate(masked, action)
    torch.testing.assert_close(logp, again, atol=1e-6, rtol=0)
    (again.sum() + entropy.sum()).backward()
    assert outputs.grad is not None
    assert torch.isfinite(outputs.grad).all()
    assert (outputs.grad[:, [0, -1]] == 0).all()
    assert (outputs.grad[:, 1] != 0).any()
    # The entropy is that of the allowed actions alone.
    if name == "discrete":
        allowed = reference.Categorical(logits=outputs.detach()[:, 1:-1])
        torch.testing.assert_close(entropy, allowed.entropy())


def test_rescaling_maps_unit_actions_to_the_bounds() -> None:
    space = gym.spaces.Box(np.array([0.0, -10.0], np.float32), np.array([4.0, 30.0], np.float32))
    unit = np.array([[-1.0, -1.0], [0.0, 0.0], [1.0, 1.0], [5.0, -5.0]], np.float32)
    scaled = GaussianHead(space, AgentConfig()).to_env(unit)
    assert scaled.tolist() == [[0, -10], [2, 10], [4, 30], [4, -10]]  # what is beyond the bounds is clipped
    plain = GaussianHead(space, AgentConfig(rescale_actions=False)).to_env(unit)
    assert plain.tolist() == [[0, -1], [0, 0], [1, 1], [4, -5]]


def test_what_cannot_be_acted_in_is_refused_with_the_way_out() -> None:
    with pytest.raises(UserError, match=r"agent.squash: true needs bounded actions"):
        make_head(gym.spaces.Box(-np.inf, np.inf, (2,)), AgentConfig(squash=True), 1)
    with pytest.raises(UserError, match="Discrete, MultiDiscrete, MultiBinary and Box"):
        make_head(gym.spaces.Text(5), AgentConfig(), 1)
