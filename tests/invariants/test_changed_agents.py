"""What happens to a run whose agent, algorithm or env is changed under it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from torch import nn

import gymnast
from gymnast import config as configs
from gymnast.agent.agent import Agent
from gymnast.agent.nets import TorchNet
from gymnast.config import AgentConfig
from gymnast.core.errors import UserError
from gymnast.core.registry import EXTENSIONS
from gymnast.rl.extensions import Extension
from gymnast.runs.saved_agent import build_agent, init_agent_from
from gymnast.training.build import build
from gymnast.training.loop import train
from gymnast.training.state import restore, save_state
from gymnast.verbs.train import start


def small(env_id: str, **sections: Any) -> configs.RunConfig:
    data: dict[str, Any] = {"env": {"id": env_id, "n_envs": 2}, "agent": {"hidden": [8]}, "eval": {"every": 0}}
    data |= {"algo": {"name": "ppo", "n_steps": 16, "batch_size": 16, "n_epochs": 2}, "stop": {"on_solved": False}}
    data["train"] = {"total_timesteps": 64, "seed": 1}
    for section, values in sections.items():
        data[section] = (data.get(section, {}) | values) if section != "algo" else values
    return configs.validate(data)


@pytest.mark.parametrize("optimizer", [True, False])
def test_a_run_goes_on_with_another_algorithm(optimizer: bool) -> None:
    before = build(small("CartPole-v1"), None)
    train(before)
    after = build(small("CartPole-v1", algo={"name": "reinforce", "n_steps": 32}), None)
    restore(after, *save_state(before), optimizer=optimizer)
    after.config = after.judge.config = after.config.model_copy(
        update={"train": after.config.train.model_copy(update={"total_timesteps": 320})}
    )
    train(after)
    assert after.counters.env_steps == 320
    before.close(), after.close()


def test_a_layer_that_was_replaced_is_trained_from_its_own_start(tmp_path: Path) -> None:
    model = gymnast.PPO("CartPole-v1", n_steps=32, batch_size=32, seed=1).learn(64)
    model.policy.critic_out = nn.Linear(64, 1)
    model.save(tmp_path / "replaced")
    first = model.policy.critic_out.weight.detach().clone()
    model.learn(64)
    assert not torch.equal(first, model.policy.critic_out.weight)


def test_a_frozen_layers_last_gradient_does_not_count() -> None:
    """The norm that gradients are clipped to is that of what is trained."""
    model = gymnast.PPO("CartPole-v1", n_steps=32, batch_size=32, seed=1, memory="lstm").learn(64)
    model.policy.actor_body.requires_grad_(False)
    model.learn(64)
    assert model.policy.actor_body.layers[0].weight.grad is not None  # of the last step before it was frozen
    assert all(p.requires_grad for parameters in model.net.parts.values() for p in parameters)


def test_a_normaliser_is_taken_whole_or_not_at_all() -> None:
    donor = build(small("Acrobot-v1", agent={"hidden": [8], "normalize_obs": True}), None)
    train(donor)
    taker = build(small("CartPole-v1", agent={"hidden": [8], "normalize_obs": True}), None)
    taken, left = init_agent_from(taker.agent, donor.agent.state_dict())
    assert not [name for name in taken if "normalizer" in name]
    assert {"normalizer.moments.0.count", "normalizer.moments.0.mean", "normalizer.moments.0.var"} <= set(left)
    twin = build_agent(donor.config, donor.env)
    taken, left = init_agent_from(twin, donor.agent.state_dict())
    assert not left
    donor.close(), taker.close()


def test_statistics_of_pictures_of_another_size_are_left() -> None:
    cfg = AgentConfig(encoder="small_cnn", hidden=[], shared=True, normalize_pictures=True)
    sizes = [{"obs": gym.spaces.Box(0, 255, (1, side, side), np.uint8)} for side in (42, 64)]
    donor, taker = (Agent(space, gym.spaces.Discrete(2), cfg, 0.99) for space in sizes)
    taken, left = init_agent_from(taker, donor.state_dict())
    assert not [name for name in taken if ".norm." in name]
    assert len([name for name in left if ".norm." in name]) == 3  # mean, variance, number of rollouts


def test_the_scale_of_rewards_is_not_taken_to_another_env(tmp_path: Path) -> None:
    """Each env has its own, and the count of a long run would keep it for as long."""
    sizes = ["env.n_envs=4", "algo.n_steps=32", "algo.batch_size=32", "agent.hidden=[8]", "agent.normalize_reward=true"]
    settings = [*sizes, "eval.every=0", "stop.on_solved=false"]
    start("CartPole-v1", settings, tmp_path, steps=256, quiet=True, name="donor")
    for target, carried in (("CartPole-v1", True), ("Acrobot-v1", False)):
        result = start(target, settings, tmp_path, steps=256, init_from="donor", quiet=True)
        log = (tmp_path / result.to_json()["run"] / "log.txt").read_text()
        copied = log.partition("initialised from")[2].partition("\n")[0]
        assert "actor_body" in copied
        assert ("reward_normalizer.moments.var" in copied) is carried


def test_a_state_that_does_not_fit_the_observations_is_refused() -> None:
    model = gymnast.PPO("CartPole-v1", n_steps=32, batch_size=32, memory="gru")
    one, many = np.zeros(4, np.float32), np.zeros((8, 4), np.float32)
    _, state = model.predict(one)
    with pytest.raises(UserError, match="for 8 observations at a time"):
        model.predict(many, state=state)
    with pytest.raises(UserError, match="for 1 observations at a time"):
        model.predict(one, state=(one, one))
    with pytest.raises(UserError, match="has 3 entries for 1 observations"):
        model.predict(one, state=state, episode_start=[True] * 3)


def test_a_threshold_above_the_optimum_is_refused_with_a_memory_too() -> None:
    config = small("FrozenLake-v1", agent={"hidden": [8], "memory": "lstm"})
    with pytest.raises(UserError, match="above the best possible mean return"):
        build(config, 0.99)


class Looks(Extension):
    """A term of the loss that reads observations."""

    name = "looks"
    adds_loss = True
    seen: list[int] = []  # noqa: RUF012

    def loss(self, out: Any, batch: Any) -> Any:
        self.seen.append(len(batch.obs["obs"]))
        return 0.0 * out.logp.sum()


def test_a_loss_that_reads_observations_gets_them() -> None:
    if "looks" not in list(EXTENSIONS):
        EXTENSIONS.register("looks", Looks)
    algo = {"name": "ppo", "n_steps": 16, "batch_size": 16, "n_epochs": 2, "extensions": ["looks"]}
    state = build(small("CartPole-v1", algo=algo), None)
    assert isinstance(state.net, TorchNet)
    train(state)
    assert set(Looks.seen) == {16}
    state.close()
    with pytest.raises(UserError, match="listed twice"):
        small("CartPole-v1", algo=algo | {"extensions": ["looks", "looks"]})
