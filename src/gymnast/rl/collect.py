"""Stepping the envs with the agent, into a rollout."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from gymnast.agent import Agent
from gymnast.envs.types import EpisodeRecord, StepBatch, VecEnv
from gymnast.rl.rollout import Rollout

Lap = Callable[[str], None]


def to_tensors(obs: dict[str, NDArray[Any]], device: torch.device) -> dict[str, Tensor]:
    return {key: torch.from_numpy(array).to(device) for key, array in obs.items()}


def mask_tensor(batch: StepBatch, device: torch.device) -> Tensor | None:
    return None if batch.mask is None else torch.from_numpy(batch.mask).to(device)


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
    observations and of those a time limit cut off are computed in one batch each, at the end.
    """
    episodes: list[EpisodeRecord] = []
    cut: list[tuple[int, NDArray[np.intp], dict[str, NDArray[Any]]]] = []
    for t in range(rollout.n_steps):
        for key, buffer in rollout.obs.items():
            buffer[t].copy_(torch.from_numpy(now.obs[key]))
        if rollout.mask is not None and now.mask is not None:
            rollout.mask[t].copy_(torch.from_numpy(now.mask))
        rollout.starts[t].copy_(starts)
        lap("copy")
        acted = agent.act(
            {key: buffer[t].to(rollout.device) for key, buffer in rollout.obs.items()},
            None if rollout.mask is None else rollout.mask[t].to(rollout.device),
            generator=generator,
        )
        rollout.action[t].copy_(acted.action)
        rollout.logp[t].copy_(acted.logp)
        rollout.value[t].copy_(acted.value)
        actions = agent.head.to_env(rollout.action[t].numpy())
        lap("act")
        now = env.step(actions)
        lap("env")
        rollout.reward[t].copy_(torch.from_numpy(now.reward))
        rollout.terminated[t].copy_(torch.from_numpy(now.terminated))
        rollout.truncated[t].copy_(torch.from_numpy(now.truncated))
        torch.logical_or(rollout.terminated[t], rollout.truncated[t], out=starts)
        if now.episodes:
            episodes += now.episodes
            if now.truncated.any():  # the engine reuses its buffers: keep copies of what is needed later
                rows = np.flatnonzero(now.truncated)
                cut.append((t, rows, {key: array[rows] for key, array in now.final_obs.items()}))
    lap("copy")
    rollout.last_value.copy_(agent.value(to_tensors(now.obs, rollout.device)))
    rollout.final_value.zero_()
    if cut:
        final_obs = {key: np.concatenate([obs[key] for _, _, obs in cut]) for key in rollout.obs}
        steps = np.concatenate([np.full(len(rows), t) for t, rows, _ in cut])
        envs = np.concatenate([rows for _, rows, _ in cut])
        values = agent.value(to_tensors(final_obs, rollout.device)).to("cpu")
        rollout.final_value[torch.from_numpy(steps), torch.from_numpy(envs)] = values
    lap("act")
    return now, episodes
