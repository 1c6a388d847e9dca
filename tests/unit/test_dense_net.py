"""The compiled network against torch's: the same losses, metrics, gradients, weights and actions."""

from __future__ import annotations

import copy
import math
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch

from gymnast.agent.agent import Agent
from gymnast.agent.batch import VALUE, Outputs
from gymnast.agent.bodies import parallel
from gymnast.agent.nets import dense_net
from gymnast.agent.nets.base import Net
from gymnast.agent.nets.dense_net import DenseNet
from gymnast.agent.nets.torch_net import TorchNet
from gymnast.config import AgentConfig
from gymnast.config.algos import AlgoSettings
from gymnast.core import devices
from gymnast.core.devices import set_threads
from gymnast.core.errors import UserError
from gymnast.rl.algos.a2c import A2CConfig
from gymnast.rl.algos.ppo import PPOConfig
from gymnast.rl.algos.reinforce import ReinforceConfig
from gymnast.rl.learner import Learner
from gymnast.rl.rollout import Rollout
from tests.learners_for_tests import NETS, as_batch, gradients, make_learner
from tests.learners_for_tests import experience as experience_of

STEPS, ENVS = 16, 8
VECTOR, MATRIX = gym.spaces.Box(-np.inf, np.inf, (5,)), gym.spaces.Box(-np.inf, np.inf, (2, 3))
CATEGORY, BITS = gym.spaces.Discrete(7), gym.spaces.Box(0, 1, (3, 3, 2), np.int8)
CHOICE, CONTINUOUS = gym.spaces.Discrete(3), gym.spaces.Box(-1.0, 1.0, (2,))

# Every kind of agent that the compiled network knows: observation, action, network.
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
    "bits": (BITS, CHOICE, {"activation": "relu"}),
    "normalised": (VECTOR, CHOICE, {"normalize_obs": True, "clip_obs": 1.5}),
    "normalised matrix": (MATRIX, CONTINUOUS, {"normalize_obs": True}),
    "normalised category": (CATEGORY, CHOICE, {"normalize_obs": True}),
}


@pytest.fixture(autouse=True)
def _one_thread() -> None:
    set_threads(1)


def make_agent(kind: str, **others: Any) -> Agent:
    observation, action, settings = AGENTS[kind]
    torch.manual_seed(0)
    agent = Agent({"obs": observation}, action, AgentConfig(**settings | others), 0.99)
    with torch.no_grad():  # a policy far from uniform and biases that are not zero: every term counts
        agent.actor_out.weight.mul_(50.0)
        for name, parameter in agent.named_parameters():
            if name.endswith("bias"):
                parameter.normal_(0.0, 0.1)
    if agent.normalizer is not None and observation is not CATEGORY:
        agent.normalizer.update({"obs": 3 + 2 * torch.randn(50, *(observation.shape or ()))})
    return agent


def experience(agent: Agent, masks: bool = False) -> Rollout:
    """By a slightly different policy and critic, so that ratios are not one and some are clipped."""
    return experience_of(agent, STEPS, ENVS, drift=0.2, value_drift=0.1, masks=masks)


def update_both(kind: str, algo: AlgoSettings, masks: bool = False, updates: int = 3) -> tuple[Learner, Learner]:
    """Trains two copies of an agent, one on each network, and compares what they report."""
    dense_agent = make_agent(kind)
    torch_agent = copy.deepcopy(dense_agent)
    rollout = experience(torch_agent, masks)
    dense, reference = (
        make_learner(net, algo, torch.Generator().manual_seed(2), ENVS)
        for net in (DenseNet(dense_agent), TorchNet(torch_agent))
    )
    for i in range(updates):
        progress = i / 10
        ours, theirs = (learner.update(rollout, progress) for learner in (dense, reference))
        assert list(ours) == list(theirs)
        for name, value in theirs.items():
            assert float(ours[name]) == pytest.approx(float(value), abs=1e-5, rel=1e-5), (name, i)
    return dense, reference


def assert_same(dense: Learner, reference: Learner) -> None:
    """Weights, gradients as they were applied, and all that the optimizer remembers."""
    for (name, ours), theirs in zip(dense.agent.named_parameters(), reference.agent.parameters(), strict=True):
        torch.testing.assert_close(ours, theirs, atol=1e-5, rtol=0, msg=name)
    applied = gradients(dense.net)
    for name, gradient in gradients(reference.net).items():
        torch.testing.assert_close(applied[name], gradient, atol=1e-5, rtol=0, msg=f"gradient of {name}")
    saved, expected = dense.save_state()[0], reference.save_state()[0]
    assert expected.keys() <= saved.keys()
    for name, tensor in saved.items():
        if name in expected:
            torch.testing.assert_close(tensor, expected[name], atol=1e-5, rtol=0, msg=name)
        elif not name.endswith("step"):  # of a parameter that nothing has reached, torch's remembers nothing
            assert not tensor.any(), name


@pytest.mark.parametrize("kind", AGENTS)
def test_ppo_for_every_kind_of_agent(kind: str) -> None:
    config = PPOConfig(n_epochs=2, batch_size=32, ent_coef=0.01, learning_rate=1e-3)
    assert_same(*update_both(kind, config))


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
        {"optimizer": "adamw", "weight_decay": 0.5, "betas": (0.8, 0.99)},
        {"weight_decay": 0.1, "critic_learning_rate": 5e-3},
        {"critic_learning_rate": "lin_1e-2", "optimizer": "adamw", "weight_decay": 0.5},
        {"desired_kl": 0.05},
        {"desired_kl": 1e-4, "critic_learning_rate": 3e-3},
        {"learning_rate": {"start": 1e-3, "end": 0}, "clip_range": "lin_0.3", "ent_coef": {"start": 0.1, "end": 0}},
        {"learning_rate": {"points": [[0, 1e-3], [0.1, 1e-3], [0.1, 1e-4]]}, "reset_optimizer_on_lr_jump": 5.0},
    ],
    ids=str,
)
@pytest.mark.parametrize("kind", ["choice", "continuous"])
def test_ppo_for_every_option(kind: str, options: dict[str, Any]) -> None:
    config = PPOConfig(**{"n_epochs": 3, "batch_size": 32, "ent_coef": 0.02, "learning_rate": 1e-3} | options)
    assert_same(*update_both(kind, config))


@pytest.mark.parametrize("kind", ["choice", "category, shared"])
def test_ppo_with_action_masks(kind: str) -> None:
    config = PPOConfig(n_epochs=2, batch_size=32, ent_coef=0.02, learning_rate=1e-3)
    assert_same(*update_both(kind, config, masks=True))


@pytest.mark.parametrize("kind", AGENTS)
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"optimizer": "adam", "normalize_advantage": "batch", "value_loss": "huber"},
    ],
)
def test_a2c(kind: str, options: dict[str, Any]) -> None:
    config = A2CConfig(ent_coef=0.01, **options)
    assert_same(*update_both(kind, config, updates=5))


@pytest.mark.parametrize("kind", ["choice", "continuous"])
def test_a2c_with_a_rate_for_the_critic(kind: str) -> None:
    assert_same(*update_both(kind, A2CConfig(critic_learning_rate=5e-3), updates=5))


@pytest.mark.parametrize("kind", ["choice", "continuous"])
def test_equal_advantages_move_no_actor(kind: str) -> None:
    """The mean of equal numbers is rounded: without care each would be normalised to 1 or to -1."""
    for constant in (0.1, 1 / 3, 1e-3, 7.7):
        for net in NETS.values():
            agent = make_agent(kind)
            before = copy.deepcopy(agent.state_dict())
            rollout = experience(agent)
            rollout["advantage"].fill_(constant)
            learner = make_learner(net(agent), PPOConfig(n_epochs=1, batch_size=64), n_envs=ENVS)
            learner.update(rollout, 0.0)
            for name, tensor in agent.state_dict().items():
                assert torch.equal(tensor, before[name]) != name.startswith("critic"), (name, constant)


def here(rollout: Rollout, t: int) -> dict[str, Any]:
    return {"obs": rollout.obs["obs"][t].numpy()}


def acted_by(net: Net, rollout: Rollout, t: int, sample: torch.Generator | None) -> np.ndarray:
    mask = None if "mask" not in rollout.streams else rollout["mask"][t].numpy()
    return net.act(here(rollout, t), {}, np.zeros(ENVS, np.bool_), mask, sample).action.copy()


@pytest.mark.parametrize("kind", AGENTS)
def test_acting_takes_the_same_actions_from_the_same_random_numbers(kind: str) -> None:
    agent = make_agent(kind)
    net = DenseNet(agent)
    rollout = experience(agent)
    ours, theirs = (torch.Generator().manual_seed(3) for _ in range(2))
    for t in range(STEPS):
        obs = rollout.obs["obs"][t]
        action = torch.from_numpy(acted_by(net, rollout, t, ours))
        acted = agent.act({"obs": obs}, sample=theirs)
        torch.testing.assert_close(action, acted.action, atol=1e-6, rtol=0)
        scored = net.score(net.prepare(as_batch(obs, action=action)))
        torch.testing.assert_close(scored.logp, acted.logp, atol=1e-5, rtol=0)
        torch.testing.assert_close(scored.values[VALUE], acted.values[VALUE], atol=1e-5, rtol=0)
        value = net.values(here(rollout, t), {}, np.zeros(ENVS, np.bool_))[VALUE]
        torch.testing.assert_close(value, acted.values[VALUE], atol=1e-5, rtol=0)
    assert torch.equal(ours.get_state(), theirs.get_state())


@pytest.mark.parametrize("kind", ["choice", "continuous", "category", "normalised"])
@pytest.mark.parametrize("greedy", [True, False])
def test_both_networks_choose_the_same_actions(kind: str, greedy: bool) -> None:
    agent = make_agent(kind)
    rollout = experience(agent)
    chosen = [
        acted_by(net(agent), rollout, 0, None if greedy else torch.Generator().manual_seed(6)) for net in NETS.values()
    ]
    np.testing.assert_allclose(chosen[0], chosen[1], atol=1e-6)


def test_acting_never_takes_a_masked_action() -> None:
    agent = make_agent("choice")
    net = DenseNet(agent)
    rollout = experience(agent, masks=True)
    ours, theirs = (torch.Generator().manual_seed(3) for _ in range(2))
    for t in range(STEPS):
        action = acted_by(net, rollout, t, ours)
        assert rollout["mask"][t].numpy()[np.arange(ENVS), action].all()
        acted = agent.act({"obs": rollout.obs["obs"][t]}, mask=rollout["mask"][t], sample=theirs)
        assert action.tolist() == acted.action.tolist()


@pytest.mark.parametrize("kind", ["choice", "category", "three layers"])
def test_actor_and_critic_in_threads_of_their_own_give_the_same_bits(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    handed_over, together = [], parallel.together
    monkeypatch.setattr(dense_net, "together", lambda jobs: handed_over.append(len(jobs)) or together(jobs))
    found = []
    for threads, worth in ((1, 0), (2, 0), (2, 1 << 40)):
        monkeypatch.setattr(dense_net, "WORTH_A_THREAD", worth)
        set_threads(threads, trunks=2)
        net = DenseNet(make_agent(kind))
        batch = net.prepare(experience(net.agent).batch(["action"]))
        out = net.forward(batch)
        ones = np.ones(len(batch), np.float32)
        net.backward(Outputs(ones, ones, {VALUE: ones}))
        found.append([out.logp.copy(), out.values[VALUE].copy(), net.gradient.numpy().copy()])
    set_threads(1)
    assert handed_over == [2, 2]  # forward and backward, of the second net alone
    for one, two, small in zip(*found, strict=True):
        np.testing.assert_array_equal(one, two)
        np.testing.assert_array_equal(one, small)
    assert found[0][2].any()


@pytest.mark.parametrize(
    ("threads", "trunks", "expected"),
    [(None, 1, (1, 1)), (None, 2, (1, 2)), (1, 2, (1, 1)), (2, 1, (2, 1)), (2, 2, (1, 2)), (5, 2, (2, 2))],
)
def test_threads_are_shared_out(
    threads: int | None, trunks: int, expected: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(devices, "cores", lambda: 4)
    set_threads(threads, trunks=trunks)
    assert (torch.get_num_threads(), devices.trunks_at_once()) == expected
    assert devices.threads_in_use() == math.prod(expected)
    set_threads(1)


def test_only_wide_networks_are_worth_threads() -> None:
    assert [DenseNet(make_agent("choice", hidden=sizes)).trunks for sizes in ([64, 64], [256, 256])] == [1, 2]
    assert DenseNet(make_agent("choice", hidden=[256, 256], shared=True)).trunks == 1


def test_gradients_do_not_depend_on_what_was_in_the_buffers() -> None:
    net = DenseNet(make_agent("choice"))
    x = torch.randn(32, 5, generator=torch.Generator().manual_seed(0))
    batch = net.prepare(as_batch(x, action=torch.ones(32, dtype=torch.int64)))
    ones, tenth = np.ones(32, np.float32), np.full(32, 0.1, np.float32)
    results = []
    for poison in (0.0, np.nan):
        work = net.work(32)
        for array in (*work.hidden, *work.gradients, work.values, work.outputs, work.outputs_gradient, work.logp):
            array.fill(poison)
        net.gradient.numpy()[:] = 0.0  # the gaps between parameters stay zero, the rest is overwritten
        for view in net.views(net.gradient).values():
            view.fill_(poison)
        net.forward(batch)
        net.backward(Outputs(ones, tenth, {VALUE: ones}))
        results.append(net.gradient.clone())
    assert results[0].any()
    assert torch.equal(results[0], results[1])


def test_a_slope_that_is_none_is_zero_everywhere() -> None:
    net = DenseNet(make_agent("continuous"))
    batch = net.prepare(experience(net.agent).batch(["action"]))
    ones, zeros = (np.full(len(batch), number, np.float32) for number in (1.0, 0.0))
    found = []
    for entropy, value in ((zeros, zeros), (None, None)):
        net.forward(batch)
        for slopes in net.slopes()[:2]:
            slopes.fill(np.nan)  # what an earlier kernel may have left
        net.backward(Outputs(ones, entropy, {VALUE: value}))
        found.append(net.gradient.clone())
    assert found[0].any()
    assert torch.equal(found[0], found[1])


def test_the_agent_owns_its_weights_before_and_after() -> None:
    agent = make_agent("choice")
    before = {name: tensor.clone() for name, tensor in agent.state_dict().items()}
    net = DenseNet(agent)
    assert net.holds()
    assert all(torch.equal(tensor, before[name]) for name, tensor in agent.state_dict().items())
    x = torch.zeros(1, 5)

    def value(net: DenseNet) -> torch.Tensor:
        return net.values({"obs": x.numpy()}, {}, np.zeros(1, np.bool_))[VALUE]

    agent.load_state_dict({name: tensor + 1 for name, tensor in before.items()})  # written in place: seen at once
    torch.testing.assert_close(value(net), agent.values({"obs": x})[VALUE])
    assert net.holds()
    agent.critic_out.bias.data = torch.tensor([5.0])  # replaced: another network has to be made
    assert not net.holds()
    again = DenseNet(agent)
    torch.testing.assert_close(value(again), agent.values({"obs": x})[VALUE])
    assert again.holds()
    assert not net.holds()  # an agent has one network: the parameters are now the second one's


@pytest.mark.parametrize(
    "algo",
    [
        PPOConfig(n_epochs=2, batch_size=32, learning_rate=1e-3),
        A2CConfig(),
        A2CConfig(optimizer="adam"),
        ReinforceConfig(learning_rate=1e-3),
        ReinforceConfig(learning_rate=1e-3, baseline="mean"),
    ],
    ids=lambda algo: f"{algo.name} {algo.optimizer_name} {algo.trains_critic}",
)
def test_what_one_network_saved_the_other_continues(algo: AlgoSettings) -> None:
    """Two updates through save_state and load_state, on every pair of networks: always the same weights."""
    start = make_agent("choice")
    rollout = experience(start)
    results = {}
    for ways in ("torch torch", "dense dense", "dense torch", "torch dense"):
        weights, state = start.state_dict(), None
        for way in ways.split():
            agent = make_agent("choice")
            agent.load_state_dict(weights)
            learner = make_learner(NETS[way](agent), algo, n_envs=ENVS)
            if state is not None:
                learner.load_state(*state, optimizer=True, episodes=True)
            learner.update(rollout, 0.0)
            tensors, values = learner.save_state()
            weights, state = agent.state_dict(), ({name: tensor.clone() for name, tensor in tensors.items()}, values)
        results[ways] = weights
    expected = results.pop("torch torch")
    assert not all(torch.equal(tensor, start.state_dict()[name]) for name, tensor in expected.items())
    for ways, found in results.items():
        for name, tensor in expected.items():
            torch.testing.assert_close(found[name], tensor, atol=1e-5, rtol=0, msg=f"{ways}: {name}")


@pytest.mark.parametrize("way", NETS)
def test_another_optimizers_moments_are_refused(way: str) -> None:
    start = make_agent("choice")
    saved = make_learner(NETS[way](copy.deepcopy(start)), A2CConfig())
    saved.update(experience(start), 0.0)
    other = make_learner(NETS[way](start), A2CConfig(optimizer="adam"))
    with pytest.raises(UserError, match=r"square_avg, not exp_avg, exp_avg_sq. .* --reset-optimizer"):
        other.load_state(*saved.save_state(), optimizer=True, episodes=False)
    other.load_state(*saved.save_state(), optimizer=False, episodes=False)


def test_relu_at_zero_and_large_inputs_of_tanh() -> None:
    """tanh is a quotient of polynomials: it must saturate, not overflow."""
    agent = make_agent("choice")
    net = DenseNet(agent)
    x = torch.tensor([[0.0] * 5, [1e4] * 5, [-1e4] * 5, [1e30] * 5] * 64)
    batch = as_batch(x, action=torch.zeros(len(x), dtype=torch.int64))
    scored = net.score(net.prepare(batch))
    with torch.no_grad():
        expected = agent.evaluate(batch)
    torch.testing.assert_close(scored.logp, expected.logp, atol=1e-5, rtol=0)
    torch.testing.assert_close(scored.values[VALUE], expected.values[VALUE], atol=1e-5, rtol=0)


@pytest.mark.parametrize("kind", ["choice", "continuous", "category", "shared", "no layer"])
@pytest.mark.parametrize("baseline", ["none", "mean", "value"])
def test_reinforce_with_every_baseline(kind: str, baseline: str) -> None:
    target = "returns" if baseline == "none" else "advantages"
    config = ReinforceConfig(baseline=baseline, target=target, learning_rate=1e-2, ent_coef=0.02)
    assert_same(*update_both(kind, config))
