"""The fast path against the reference it replaces: the same losses, metrics, gradients, weights and actions."""

from __future__ import annotations

import copy
from contextlib import nullcontext
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch

from gymnast.agent.agent import Agent
from gymnast.agent.nets.dense_net import FastNet, fast_net, reference_only, supports
from gymnast.config import A2CConfig, AgentConfig, EnvConfig, PPOConfig, ReinforceConfig
from gymnast.core.devices import set_threads
from gymnast.envs.make import make_vec
from gymnast.envs.types import StepBatch
from gymnast.rl.algos.a2c import A2C
from gymnast.rl.algos.ppo import PPO
from gymnast.rl.algos.reinforce import Reinforce
from gymnast.rl.collector import choose_actions
from gymnast.rl.learner import Learner
from gymnast.rl.rollout import Rollout

STEPS, ENVS = 16, 8
VECTOR, MATRIX = gym.spaces.Box(-np.inf, np.inf, (5,)), gym.spaces.Box(-np.inf, np.inf, (2, 3))
CATEGORY = gym.spaces.Discrete(7)
CHOICE, CONTINUOUS = gym.spaces.Discrete(3), gym.spaces.Box(-1.0, 1.0, (2,))

# Every kind of agent that the fast path serves: observation, action, network.
AGENTS: dict[str, tuple[gym.Space[Any], gym.Space[Any], dict[str, Any]]] = {
    "choice": (VECTOR, CHOICE, {}),
    "continuous": (VECTOR, CONTINUOUS, {"log_std_init": -0.5}),
    "relu": (VECTOR, CHOICE, {"activation": "relu"}),
    "shared": (VECTOR, CHOICE, {"shared": True}),
    "shared relu, continuous": (VECTOR, CONTINUOUS, {"shared": True, "activation": "relu"}),
    "one layer": (VECTOR, CHOICE, {"hidden": [24]}),
    "three layers": (VECTOR, CHOICE, {"hidden": [32, 20, 12]}),
    "no layer": (VECTOR, CHOICE, {"hidden": []}),
    "no layer, shared": (VECTOR, CHOICE, {"hidden": [], "shared": True}),
    "category": (CATEGORY, CHOICE, {}),
    "category, shared": (CATEGORY, CHOICE, {"shared": True, "hidden": [16]}),
    "matrix": (MATRIX, CHOICE, {}),
    "normalised": (VECTOR, CHOICE, {"normalize_obs": True, "clip_obs": 1.5}),
    "normalised matrix": (MATRIX, CONTINUOUS, {"normalize_obs": True}),
    "normalised category": (CATEGORY, CHOICE, {"normalize_obs": True}),
}


@pytest.fixture(autouse=True)
def _one_thread() -> None:
    set_threads(1)


def make_agent(kind: str) -> Agent:
    observation, action, settings = AGENTS[kind]
    torch.manual_seed(0)
    agent = Agent({"obs": observation}, action, AgentConfig(**settings), 0.99)
    with torch.no_grad():  # a policy far from uniform and biases that are not zero: every term counts
        agent.actor_out.weight.mul_(50.0)
        for name, parameter in agent.named_parameters():
            if name.endswith("bias"):
                parameter.normal_(0.0, 0.1)
    if agent.normalizer is not None and observation is not CATEGORY:
        agent.normalizer.update({"obs": 3 + 2 * torch.randn(50, *(observation.shape or ()))})
    return agent


def observations(space: gym.Space[Any], rng: torch.Generator) -> torch.Tensor:
    if isinstance(space, gym.spaces.Discrete):
        return torch.randint(int(space.n), (STEPS, ENVS), generator=rng)
    return torch.randn(STEPS, ENVS, *(space.shape or ()), generator=rng)


def experience(agent: Agent, masks: bool = False) -> Rollout:
    """A rollout of random numbers by a slightly different policy, so that ratios are not one and some clipped."""
    rng = torch.Generator().manual_seed(1)
    rollout = Rollout(STEPS, ENVS, agent, masks)
    rollout.obs["obs"].copy_(observations(agent.obs_space["obs"], rng))
    flat = {"obs": rollout.obs["obs"].flatten(0, 1)}
    mask = None
    if rollout.mask is not None:
        rollout.mask.copy_(torch.rand(rollout.mask.shape, generator=rng) > 0.4)
        rollout.mask[..., 1] = True  # something is always allowed
        mask = rollout.mask.flatten(0, 1)
    acted = agent.act(flat, mask, generator=rng)
    rollout.action.copy_(acted.action.reshape(rollout.action.shape))
    rollout.logp.copy_(acted.logp.reshape(STEPS, ENVS) + 0.2 * torch.randn(STEPS, ENVS, generator=rng))
    rollout.value.copy_(acted.value.reshape(STEPS, ENVS) + 0.1 * torch.randn(STEPS, ENVS, generator=rng))
    rollout.advantage.copy_(torch.randn(STEPS, ENVS, generator=rng) * 2 + 0.5)
    rollout.returns.copy_(rollout.advantage + rollout.value)
    rollout.reward.copy_(torch.randn(STEPS, ENVS, generator=rng))
    rollout.terminated.copy_(torch.rand(STEPS, ENVS, generator=rng) < 0.2)
    rollout.truncated.fill_(False)
    return rollout


def update_both(kind: str, make: Any, masks: bool = False, updates: int = 3) -> tuple[Learner, Learner]:
    """Trains two copies of an agent, one each way, and compares what they report."""
    fast_agent = make_agent(kind)
    slow_agent = copy.deepcopy(fast_agent)
    rollout = experience(fast_agent, masks)
    assert supports(fast_agent)
    fast, slow = (make(agent, torch.Generator().manual_seed(2)) for agent in (fast_agent, slow_agent))
    for i in range(updates):
        progress = i / 10
        ours = fast.update(rollout, progress)
        with reference_only():
            theirs = slow.update(rollout, progress)
        assert list(ours) == list(theirs)
        for name, value in theirs.items():
            assert float(ours[name]) == pytest.approx(float(value), abs=1e-5, rel=1e-5), (name, i)
    return fast, slow


def assert_same(fast: Learner, slow: Learner) -> None:
    """Weights, gradients as they were applied, and all that the optimizer remembers."""
    for (name, ours), theirs in zip(fast.agent.named_parameters(), slow.agent.parameters(), strict=True):
        torch.testing.assert_close(ours, theirs, atol=1e-5, rtol=0, msg=name)
        if theirs.grad is None:  # stopped before the first step
            continue
        assert ours.grad is not None
        torch.testing.assert_close(ours.grad, theirs.grad, atol=1e-5, rtol=0, msg=f"gradient of {name}")
    saved, expected = fast.save_state()[0], slow.save_state()[0]
    for name, tensor in saved.items():
        if name in expected:
            torch.testing.assert_close(tensor, expected[name], atol=1e-5, rtol=0, msg=name)
        elif not name.endswith("step"):  # of a parameter that nothing has reached, the reference remembers nothing
            assert not tensor.any(), name


@pytest.mark.parametrize("kind", AGENTS)
def test_ppo_for_every_kind_of_agent(kind: str) -> None:
    config = PPOConfig(n_epochs=2, batch_size=32, ent_coef=0.01, learning_rate=1e-3)
    assert_same(*update_both(kind, lambda agent, generator: PPO(agent, config, generator)))


@pytest.mark.parametrize(
    "options",
    [
        {"batch_size": STEPS * ENVS},
        {"ent_coef": 0.0},
        {"clip_range_vf": 0.1},
        {"value_loss": "huber", "huber_delta": 0.7},
        {"value_loss": "huber", "clip_range_vf": 0.05, "vf_coef": 0.9},
        {"normalize_advantage": "rollout"},
        {"normalize_advantage": "off"},
        {"target_kl": 0.02},
        {"target_kl": 1e-6},
        {"max_grad_norm": 0.01},
        {"max_grad_norm": 100.0},
        {"learning_rate": {"start": 1e-3, "end": 0}, "clip_range": "lin_0.3", "ent_coef": {"start": 0.1, "end": 0}},
        {"learning_rate": {"points": [[0, 1e-3], [0.1, 1e-3], [0.1, 1e-4]]}, "reset_optimizer_on_lr_jump": 5.0},
    ],
    ids=str,
)
@pytest.mark.parametrize("kind", ["choice", "continuous"])
def test_ppo_for_every_option(kind: str, options: dict[str, Any]) -> None:
    config = PPOConfig(**{"n_epochs": 3, "batch_size": 32, "ent_coef": 0.02, "learning_rate": 1e-3} | options)
    assert_same(*update_both(kind, lambda agent, generator: PPO(agent, config, generator)))


@pytest.mark.parametrize("kind", ["choice", "category, shared"])
def test_ppo_with_action_masks(kind: str) -> None:
    config = PPOConfig(n_epochs=2, batch_size=32, ent_coef=0.02, learning_rate=1e-3)
    assert_same(*update_both(kind, lambda agent, generator: PPO(agent, config, generator), masks=True))


@pytest.mark.parametrize("kind", AGENTS)
@pytest.mark.parametrize("options", [{}, {"optimizer": "adam", "normalize_advantage": "batch", "value_loss": "huber"}])
def test_a2c(kind: str, options: dict[str, Any]) -> None:
    config = A2CConfig(ent_coef=0.01, **options)
    assert_same(*update_both(kind, lambda agent, generator: A2C(agent, config, generator), updates=5))


def test_a_batch_that_does_not_divide_the_rollout_goes_the_reference_way() -> None:
    config = PPOConfig(n_epochs=2, batch_size=48)
    assert_same(*update_both("choice", lambda agent, generator: PPO(agent, config, generator)))


@pytest.mark.parametrize("kind", AGENTS)
def test_acting_takes_the_same_actions_from_the_same_random_numbers(kind: str) -> None:
    agent = make_agent(kind)
    net = fast_net(agent)
    assert net is not None
    rollout = experience(agent)
    ours, theirs = (torch.Generator().manual_seed(3) for _ in range(2))
    for t in range(STEPS):
        action = np.empty_like(rollout.action[t].numpy())
        net.act(rollout.obs["obs"][t].numpy(), None, ours, out=action)
        acted = agent.act({"obs": rollout.obs["obs"][t]}, generator=theirs)
        torch.testing.assert_close(torch.from_numpy(action), acted.action, atol=1e-6, rtol=0)
        logp, value = net.score(rollout.obs["obs"][t].numpy(), action, None)
        torch.testing.assert_close(torch.from_numpy(logp), acted.logp, atol=1e-5, rtol=0)
        torch.testing.assert_close(torch.from_numpy(value), acted.value, atol=1e-5, rtol=0)
        torch.testing.assert_close(torch.from_numpy(net.value(rollout.obs["obs"][t].numpy())), acted.value)
    assert torch.equal(ours.get_state(), theirs.get_state())


def test_acting_never_takes_a_masked_action() -> None:
    agent = make_agent("choice")
    net = fast_net(agent)
    assert net is not None
    rollout = experience(agent, masks=True)
    assert rollout.mask is not None
    ours, theirs = (torch.Generator().manual_seed(3) for _ in range(2))
    for t in range(STEPS):
        action = np.empty(ENVS, np.int64)
        net.act(rollout.obs["obs"][t].numpy(), rollout.mask[t].numpy(), ours, out=action)
        assert rollout.mask[t].numpy()[np.arange(ENVS), action].all()
        acted = agent.act({"obs": rollout.obs["obs"][t]}, rollout.mask[t], generator=theirs)
        assert action.tolist() == acted.action.tolist()


def test_gradients_do_not_depend_on_what_was_in_the_buffers() -> None:
    agent = make_agent("choice")
    net = FastNet(agent)
    x = np.random.default_rng(0).normal(size=(32, 5)).astype(np.float32)
    results = []
    for poison in (0.0, np.nan):
        work = net.work(32)
        for array in (*work.hidden, *work.gradients, work.values, work.outputs, work.outputs_gradient, work.logp):
            array.fill(poison)
        net.gradient.numpy()[:] = 0.0  # the gaps between parameters stay zero, the rest is overwritten
        for view in net.gradient_views:
            view.fill_(poison)
        net.forward(x, work)
        action = np.ones(32, np.int64)
        net.evaluate(action, None, work)
        work.weight.fill(1.0)
        work.value_weight.fill(1.0)
        net.backward(action, 0.1, work)
        results.append(net.gradient.clone())
    assert torch.equal(results[0], results[1])


def test_the_agent_owns_its_weights_before_and_after() -> None:
    agent = make_agent("choice")
    before = {name: tensor.clone() for name, tensor in agent.state_dict().items()}
    net = fast_net(agent)
    assert net is not None
    assert all(torch.equal(tensor, before[name]) for name, tensor in agent.state_dict().items())
    x = np.zeros((1, 5), np.float32)
    agent.load_state_dict({name: tensor + 1 for name, tensor in before.items()})  # written in place: seen at once
    expected = agent.value({"obs": torch.from_numpy(x)})
    torch.testing.assert_close(torch.from_numpy(net.value(x)), expected)
    agent.critic_out.bias.data = torch.tensor([5.0])  # replaced: a new network has to be made
    again = fast_net(agent)
    assert again is not None
    assert again is not net
    torch.testing.assert_close(torch.from_numpy(again.value(x)), agent.value({"obs": torch.from_numpy(x)}))
    assert fast_net(agent) is again


def test_a_saved_optimizer_continues_the_same_whichever_way_it_was_made() -> None:
    """One update each way, in both orders, through save_state and load_state: the same weights as two updates."""
    config = PPOConfig(n_epochs=2, batch_size=32, learning_rate=1e-3)
    start = make_agent("choice")
    rollout = experience(start)
    results = []
    for ways in ("fast fast", "fast slow", "slow fast"):
        agent, state, generator = copy.deepcopy(start), None, torch.Generator().manual_seed(0)
        for way in ways.split():
            learner = PPO(agent, config, generator)
            if state is not None:
                learner.load_state(*state)
            if way == "fast":
                learner.update(rollout, 0.0)
            else:
                with reference_only():
                    learner.update(rollout, 0.0)
            tensors, values = learner.save_state()
            state = ({name: tensor.clone() for name, tensor in tensors.items()}, values)
        results.append(agent.state_dict())
    for other in results[1:]:
        for name, tensor in results[0].items():
            torch.testing.assert_close(other[name], tensor, atol=1e-5, rtol=0, msg=name)


def test_relu_at_zero_and_large_inputs_of_tanh() -> None:
    """tanh is computed by way of the sigmoid for large batches: it must saturate, not overflow."""
    agent = make_agent("choice")
    net = FastNet(agent)
    x = np.array([[0.0] * 5, [1e4] * 5, [-1e4] * 5, [1e30] * 5] * 64, np.float32)
    logp, value = net.score(x, np.zeros(len(x), np.int64), None)
    with torch.no_grad():
        expected = agent.evaluate({"obs": torch.from_numpy(x)}, torch.zeros(len(x), dtype=torch.int64))
    torch.testing.assert_close(torch.from_numpy(logp), expected.logp, atol=1e-5, rtol=0)
    torch.testing.assert_close(torch.from_numpy(value), expected.value, atol=1e-5, rtol=0)


@pytest.mark.parametrize(
    ("observation", "action", "settings"),
    [
        (VECTOR, CHOICE, {"layer_norm": True}),
        (VECTOR, CHOICE, {"activation": "gelu"}),
        (VECTOR, CONTINUOUS, {"squash": True}),
        (VECTOR, CONTINUOUS, {"std": "state_dependent"}),
        (VECTOR, CONTINUOUS, {"std": "sde"}),
        (VECTOR, gym.spaces.MultiDiscrete([2, 3]), {}),
        (VECTOR, gym.spaces.MultiBinary(3), {}),
        (CATEGORY, CHOICE, {"discrete_encoding": "embedding"}),
        (CATEGORY, CHOICE, {"hidden": []}),
        (gym.spaces.Box(0, 255, (4,), np.uint8), CHOICE, {}),
        (gym.spaces.MultiDiscrete([2, 3]), CHOICE, {}),
    ],
    ids=str,
)
def test_other_agents_go_the_reference_way(
    observation: gym.Space[Any], action: gym.Space[Any], settings: dict[str, Any]
) -> None:
    agent = Agent({"obs": observation}, action, AgentConfig(**settings), 0.99)
    assert fast_net(agent) is None
    assert PPO(agent, PPOConfig(), torch.Generator()).fast() is None


def test_stacked_vectors_go_the_fast_way() -> None:
    vec = make_vec(EnvConfig(id="MountainCar-v0", wrappers=[{"frame_stack": {"n": 4}}]), 2, "train")
    assert vec.obs_space["obs"].shape == (8,)
    assert supports(Agent(vec.obs_space, vec.action_space, AgentConfig(normalize_obs=True), 0.99))
    vec.close()


def test_two_observations_go_the_reference_way() -> None:
    agent = Agent({"a": VECTOR, "b": VECTOR}, CHOICE, AgentConfig(), 0.99)
    assert fast_net(agent) is None


@pytest.mark.parametrize("kind", ["choice", "continuous", "category", "shared", "no layer"])
@pytest.mark.parametrize("baseline", ["none", "mean", "value"])
def test_reinforce_with_every_baseline(kind: str, baseline: str) -> None:
    target = "returns" if baseline == "none" else "advantages"
    config = ReinforceConfig(baseline=baseline, target=target, learning_rate=1e-2, ent_coef=0.02)
    assert_same(*update_both(kind, lambda agent, generator: Reinforce(agent, config, generator)))


@pytest.mark.parametrize("kind", ["choice", "continuous", "category", "normalised"])
@pytest.mark.parametrize("greedy", [True, False])
def test_the_same_actions_are_chosen(kind: str, greedy: bool) -> None:
    agent = make_agent(kind)
    obs = observations(agent.obs_space["obs"], torch.Generator().manual_seed(5))[0]
    now = StepBatch({"obs": obs.numpy()}, *np.zeros((3, ENVS), np.float32), final_obs={}, episodes=[])
    chosen = []
    for reference in (False, True):
        generator = None if greedy else torch.Generator().manual_seed(6)
        with reference_only() if reference else nullcontext():
            chosen.append(choose_actions(agent, now, generator, 0))
    np.testing.assert_allclose(chosen[0], chosen[1], atol=1e-6)
