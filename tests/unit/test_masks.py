"""What is masked has probability 0, is never drawn and gets no gradient: any choice, both networks, with memory."""

from __future__ import annotations

import copy
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor

from gymnast.agent.agent import Agent
from gymnast.agent.batch import VALUE, Batch, Outputs
from gymnast.agent.nets import Net
from gymnast.agent.nets import kernels as nets_kernels
from gymnast.agent.nets.dense_net import DenseNet
from gymnast.agent.nets.torch_net import TorchNet
from gymnast.config import AgentConfig
from gymnast.core.devices import set_threads
from gymnast.rl.algos.ppo import PPOConfig
from tests.learners_for_tests import experience, gradients, make_learner

SPACES = {
    "Discrete": gym.spaces.Discrete(5),
    "MultiDiscrete": gym.spaces.MultiDiscrete([3, 2, 4]),
    "MultiBinary": gym.spaces.MultiBinary(4),
}
CASES = [
    ("Discrete", None, DenseNet),
    *((name, memory, TorchNet) for name in SPACES for memory in (None, "lstm", "gru")),
]
every_case = pytest.mark.parametrize(("name", "memory", "net_type"), CASES)
ROWS, DRAWS, LENGTH = 10_000, 100, 10  # a million draws; 100 steps in a row


@pytest.fixture(autouse=True)
def _one_thread() -> None:
    set_threads(1)


def make_agent(name: str, memory: str | None) -> Agent:
    """One that has strong wishes, many of them for what is masked."""
    torch.manual_seed(0)
    more = {} if memory is None else {"memory": memory, "memory_size": 8, "sequence_length": LENGTH}
    cfg = AgentConfig(hidden=[8], **more)  # type: ignore[arg-type]
    agent = Agent({"obs": gym.spaces.Box(-np.inf, np.inf, (3,), np.float32)}, SPACES[name], cfg, 0.99)
    with torch.no_grad():
        for parameter in agent.parameters():
            parameter.normal_(0.0, 1.0)
        agent.actor_out.weight.mul_(2.0)
    return agent


def random_mask(space: gym.Space[Any], rows: int) -> NDArray[np.bool_]:
    """Each choice with probability one half; one of every component is allowed."""
    rng = np.random.default_rng(1)
    sizes = {"Discrete": [5], "MultiDiscrete": [3, 2, 4]}.get(type(space).__name__)
    if sizes is None:
        return rng.random((rows, 4)) < 0.5
    parts = []
    for size in sizes:
        part = rng.random((rows, size)) < 0.5
        part[np.arange(rows), rng.integers(size, size=rows)] = True
        parts.append(part)
    return np.concatenate(parts, 1)


def chosen(space: gym.Space[Any], action: NDArray[Any]) -> NDArray[np.bool_]:
    """[rows, entries of a mask]: what each action is made of."""
    if isinstance(space, gym.spaces.MultiBinary):
        return action.astype(bool)
    columns, sizes = action.reshape(len(action), -1), [5] if isinstance(space, gym.spaces.Discrete) else [3, 2, 4]
    return np.concatenate([np.eye(size, dtype=bool)[columns[:, i]] for i, size in enumerate(sizes)], 1)


@every_case
def test_never_in_a_million_draws(name: str, memory: str | None, net_type: type[Net]) -> None:
    space, agent = SPACES[name], make_agent(name, memory)
    net = net_type(agent)  # type: ignore[call-arg]
    rng, sample = np.random.default_rng(0), torch.Generator().manual_seed(0)
    mask, state, starts = random_mask(space, ROWS), agent.initial_state(ROWS), np.ones(ROWS, bool)
    wished = 0
    for turn in range(DRAWS):
        obs = {"obs": rng.normal(size=(ROWS, 3)).astype(np.float32)}
        drawn = net.act(obs, state, starts, mask, sample)
        drawn = drawn._replace(action=drawn.action.copy())  # the network's own array, which the next call writes to
        assert not (chosen(space, drawn.action) & ~mask).any()
        if turn % 10 == 0:
            likely = net.act(obs, state, starts, mask, None)
            assert not (chosen(space, likely.action) & ~mask).any()
            free = net.act(obs, state, starts, None, torch.Generator().manual_seed(turn))
            wished += int((chosen(space, free.action) & ~mask).any(1).sum())
        state, starts = drawn.state, rng.random(ROWS) < 0.1
        mask = mask[rng.permutation(ROWS)]
    assert wished > ROWS * DRAWS / 10 / 5  # without a mask they are drawn all the time


def sequences(agent: Agent, name: str, rows: int) -> tuple[Batch, Tensor]:
    """Samples of what the mask allows; where there is a memory, in sequences that start in the middle of nothing."""
    space = SPACES[name]
    mask = torch.from_numpy(random_mask(space, rows))
    mask[:, 1] = False  # in every sample
    mask[:, 0] = True
    x = torch.randn(rows, 3, generator=torch.Generator().manual_seed(1))
    action = agent.act({"obs": x}, mask=mask, sample=torch.Generator().manual_seed(2)).action
    columns = {"obs.obs": x, "action": action, "mask": mask, "starts": torch.zeros(rows, dtype=torch.bool)}
    return Batch(columns, agent.remembered(rows // LENGTH)), mask


@every_case
def test_probability_is_exactly_0_and_the_rest_adds_up_to_1(name: str, memory: str | None, net_type: type[Net]) -> None:
    agent = make_agent(name, memory)
    batch, mask = sequences(agent, name, 2000)
    probability = agent.describe(batch)["probability"]
    assert (probability[~mask] == 0).all()
    if name != "MultiBinary":
        parts = probability.split([5] if name == "Discrete" else [3, 2, 4], 1)
        for part in parts:
            torch.testing.assert_close(part.sum(1), torch.ones(2000))
    if name == "Discrete":  # the networks agree; a masked action's log-probability is that of 0
        net = net_type(agent)  # type: ignore[call-arg]
        for a in range(5):
            logp = net.score(net.prepare(batch.with_columns(action=torch.full((2000,), a)))).logp
            torch.testing.assert_close(logp.exp(), probability[:, a], atol=1e-6, rtol=1e-5)
            assert (logp.exp()[~mask[:, a]] == 0).all()


@every_case
def test_no_gradient_reaches_it(name: str, memory: str | None, net_type: type[Net]) -> None:
    """Not its logits, sample by sample, and not the weights of an output that is masked in every sample."""
    agent = make_agent(name, memory)
    batch, mask = sequences(agent, name, 200)
    seen: list[Tensor] = []
    hook = None
    if net_type is TorchNet:  # a hook would send the agent away from the compiled network
        hook = agent.actor_out.register_full_backward_hook(lambda module, into, out: seen.append(out[0]))
    net: Any = net_type(agent)  # type: ignore[call-arg]
    net.use_optimizer("adam", eps=1e-5)
    outputs = net.forward(net.prepare(batch))
    ones = np.ones(200, np.float32) if net_type is DenseNet else torch.ones(200)
    net.backward(Outputs(ones, 0.3 * ones, {VALUE: 0.1 * ones}))
    logits = torch.from_numpy(net.last.outputs_gradient) if net_type is DenseNet else seen[0]
    if hook is not None:
        hook.remove()
    assert (logits[~mask] == 0).all()
    assert (logits[mask] != 0).any()
    found = gradients(net)
    assert (found["actor_out.weight"][1] == 0).all()
    assert found["actor_out.bias"][1] == 0
    assert (found["actor_out.weight"][0] != 0).any()
    assert np.isfinite(np.asarray(outputs.logp if net_type is DenseNet else outputs.logp.detach())).all()


@pytest.mark.parametrize("net_type", [DenseNet, TorchNet])
def test_an_update_does_not_move_it(net_type: type[Net]) -> None:
    agent = make_agent("Discrete", None)
    rollout = experience(agent, 16, 8, drift=0.2, masks=True)
    rollout["mask"][..., 3] = False
    rollout["action"][rollout["action"] == 3] = 1
    before = copy.deepcopy(agent.state_dict())
    learner = make_learner(net_type(agent), PPOConfig(n_epochs=3, batch_size=32, ent_coef=0.1), n_envs=8)  # type: ignore[call-arg]
    for _ in range(5):
        learner.update(rollout, 0.0)
    after = agent.state_dict()
    for key in ("actor_out.weight", "actor_out.bias"):
        assert torch.equal(before[key][3], after[key][3])
        assert not torch.equal(before[key][1], after[key][1])


def test_no_random_number_lifts_it() -> None:
    """An exponential number of exactly 0 has the logarithm -infinity: the score of its action would be infinite."""
    outputs = np.array([[0.0, nets_kernels.MASKED_LOGIT]], np.float32)
    out = np.empty(1, np.int64)
    nets_kernels.sample_category(outputs, np.array([[1.0, 0.0]], np.float32), out)
    assert out.tolist() == [0]
