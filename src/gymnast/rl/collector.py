"""Stepping the envs with the agent, into a rollout."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from gymnast.agent import Agent
from gymnast.agent.nets.dense_net import fast_net
from gymnast.envs.shaping.vec import check_sum
from gymnast.envs.types import EpisodeRecord, StepBatch, VecEnv
from gymnast.rl.rollout import Rollout

Lap = Callable[[str], None]


def to_tensors(obs: dict[str, NDArray[Any]], device: torch.device) -> dict[str, Tensor]:
    return {key: torch.from_numpy(array).to(device) for key, array in obs.items()}


def choose_actions(agent: Agent, now: StepBatch, generator: torch.Generator | None, step: int) -> NDArray[Any]:
    """What the agent does next, as the envs take it: sampled, or the likeliest where there is no generator."""
    net = fast_net(agent)
    if net is not None:
        chosen = np.empty((len(now.reward), *agent.head.shape), np.int64 if net.log_std is None else np.float32)
        net.act(now.obs[net.key], now.mask, generator, out=chosen)
        return agent.head.to_env(chosen)
    device = next(agent.parameters()).device
    mask = None if now.mask is None else torch.from_numpy(now.mask).to(device)
    obs = to_tensors(now.obs, device)
    acted = agent.act(obs, mask, deterministic=generator is None, generator=generator, step=step)
    return agent.head.to_env(acted.action.cpu().numpy())


def values_of(agent: Agent, obs: dict[str, Tensor]) -> Tensor:
    """Values of any number of observations."""
    net = fast_net(agent)
    return agent.value(obs) if net is None else torch.from_numpy(net.value(obs[net.key].numpy()))


def collect(
    env: VecEnv,
    agent: Agent,
    rollout: Rollout,
    now: StepBatch,
    starts: Tensor,
    generator: torch.Generator,
    lap: Lap,
) -> tuple[StepBatch, list[EpisodeRecord]]:
    """Fills the rollout from where the envs stand (`now`, the last step's result), nothing skipped, nothing twice.

    `starts` [N] says which envs stand at an episode's beginning; it is advanced in place. Values of the last
    observations and of those a time limit cut off are computed in one batch each, at the end; where a fast network
    acts, so are the values and log-probabilities of all the others.
    """
    net = fast_net(agent)
    episodes: list[EpisodeRecord] = []
    cut: list[tuple[int, NDArray[np.intp], dict[str, NDArray[Any]]]] = []
    # The rollout's own memory as arrays: a small copy costs a tenth of what it costs between tensors.
    all_obs = {key: buffer.numpy() for key, buffer in rollout.obs.items()}
    mask = None if rollout.mask is None else rollout.mask.numpy()
    action, reward, starting = rollout.action.numpy(), rollout.reward.numpy(), starts.numpy()
    terminated, truncated, all_starts = rollout.terminated.numpy(), rollout.truncated.numpy(), rollout.starts.numpy()
    for t in range(rollout.n_steps):
        for key, array in all_obs.items():
            if array.ndim == 5:  # pictures change their layout on the way, at which torch is twice as fast
                rollout.obs[key][t].copy_(torch.from_numpy(now.obs[key]))
            else:
                array[t] = now.obs[key]
        if mask is not None and now.mask is not None:
            mask[t] = now.mask
        all_starts[t] = starting
        lap("copy")
        if net is not None:
            net.act(all_obs[net.key][t], None if mask is None else mask[t], generator, out=action[t])
        else:
            acted = agent.act(
                {key: buffer[t].to(rollout.device) for key, buffer in rollout.obs.items()},
                None if rollout.mask is None else rollout.mask[t].to(rollout.device),
                generator=generator,
                step=t,
            )
            rollout.action[t].copy_(acted.action)
            rollout.logp[t].copy_(acted.logp)
            rollout.value[t].copy_(acted.value)
        actions = agent.head.to_env(action[t])
        lap("act")
        now = env.step(actions)
        check_sum(now)
        lap("env")
        reward[t], terminated[t], truncated[t] = now.reward, now.terminated, now.truncated
        np.logical_or(now.terminated, now.truncated, out=starting)
        if now.episodes:
            episodes += now.episodes
            if now.truncated.any():  # the engine reuses its buffers: keep copies of what is needed later
                rows = np.flatnonzero(now.truncated)
                cut.append((t, rows, {key: array[rows] for key, array in now.final_obs.items()}))
    lap("copy")
    if net is not None:
        net.score_rollout(all_obs[net.key], action, mask, rollout.logp.numpy(), rollout.value.numpy())
    rollout.last_value.copy_(values_of(agent, to_tensors(now.obs, rollout.device)))
    rollout.final_value.zero_()
    if cut:
        final_obs = {key: np.concatenate([obs[key] for _, _, obs in cut]) for key in rollout.obs}
        steps = np.concatenate([np.full(len(rows), t) for t, rows, _ in cut])
        envs = np.concatenate([rows for _, rows, _ in cut])
        values = values_of(agent, to_tensors(final_obs, rollout.device)).to("cpu")
        rollout.final_value[torch.from_numpy(steps), torch.from_numpy(envs)] = values
    lap("act")
    return now, episodes
