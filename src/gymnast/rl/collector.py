"""Stepping the envs with the agent, into a rollout."""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from gymnast.agent.batch import OBS
from gymnast.agent.nets import Net
from gymnast.core.pulse import Pulse
from gymnast.core.seeds import derive_seed
from gymnast.envs.shaping.vec import check_sum
from gymnast.envs.types import EpisodeRecord, StepBatch, VecEnv
from gymnast.rl.rollout import Rollout

Lap = Callable[[str], None]


class Collector:
    """Owns the envs and all that lasts between two rollouts: the last step, which envs start an episode, what the agent
    remembers, and the random numbers that actions are sampled with."""

    def __init__(self, env: VecEnv, net: Net, seed: int, pulse: Pulse | None = None) -> None:
        self.env, self.net, self.pulse = env, net, pulse or Pulse()
        self.generator = torch.Generator().manual_seed(derive_seed(seed, "actions"))
        self.now: StepBatch
        self.restart(derive_seed(seed, "train"))

    def restart(self, seed: int) -> None:
        """Every env starts a new episode; the agent forgets."""
        self.cut = False  # the time was up before the last rollout was full
        self.now = self.env.reset(seed)
        self.starts = np.ones(self.env.n_envs, np.bool_)
        self.state = self.net.agent.initial_state(self.env.n_envs)

    def fill(self, rollout: Rollout, lap: Lap) -> list[EpisodeRecord]:
        """Fills the rollout from where the envs stand, nothing skipped, nothing twice; returns finished episodes. Where
        the run's time is up on the way, it is left half filled, and `cut` says so.

        Values of the last observations and of those a time limit cut off are computed in one batch each, at the end;
        so are all values and log-probabilities, where the network has not computed them while acting.
        """
        net, now, starts, pulse = self.net, self.now, self.starts, self.pulse
        head = net.agent.head
        state = head.renew(self.state)
        episodes: list[EpisodeRecord] = []
        cuts: list[Cut] = []
        scored = True
        # The rollout's own memory as arrays: a small copy costs a tenth of what it costs between tensors.
        rows = {name: stream.numpy() for name, stream in rollout.streams.items()}
        obs = {name[len(OBS) :]: array for name, array in rows.items() if name.startswith(OBS)}
        mask = rows.get("mask")
        for t in range(rollout.n_steps):
            pulse.done = t
            if perf_counter() >= pulse.cut_at:
                self.cut = True
                break
            seen = net.agent.watch(now.obs)
            lap("act")
            for key, array in obs.items():
                if array.ndim == 5:  # pictures change their layout on the way, at which torch is twice as fast
                    rollout[OBS + key][t].copy_(torch.from_numpy(seen[key]))
                else:
                    array[t] = seen[key]
            if mask is not None and now.mask is not None:
                mask[t] = now.mask
            rows["starts"][t] = starts
            if rollout.sequence_length and t % rollout.sequence_length == 0:
                for name, states in rollout.states.items():
                    states[t // rollout.sequence_length].copy_(state[name])
            lap("copy")
            here = {key: array[t] for key, array in obs.items()}
            choice = net.act(here, state, starts, None if mask is None else mask[t], self.generator)
            action = rows["action"][t]
            action[:] = choice.action
            state = choice.state
            if choice.logp is None or choice.values is None:
                scored = False
            else:
                rollout["logp"][t].copy_(choice.logp)
                for name, value in choice.values.items():
                    rollout[name][t].copy_(value)
            actions = head.to_env(action)
            lap("act")
            now = self.env.step(actions)
            check_sum(now)
            lap("env")
            rows["reward"][t], rows["terminated"][t], rows["truncated"][t] = now.reward, now.terminated, now.truncated
            np.logical_or(now.terminated, now.truncated, out=starts)
            if now.episodes:
                episodes += now.episodes
                if now.truncated.any():
                    cuts.append(Cut.of(t, now, state))
        lap("copy")
        self.now, self.state = now, state
        if self.cut:
            return episodes
        if not scored:
            self._score(rollout)
        for name, value in net.values(now.obs, state, starts).items():
            rollout.last_values[name].copy_(value)
        fill_final_values(rollout, cuts, net)
        lap("act")
        return episodes

    def measured(self) -> dict[str, float]:
        """What the last rollout cost, where that is more than the clock sees: metrics by name."""
        return {}

    def take_warnings(self) -> list[str]:
        """What users must know of the envs, once."""
        return []

    def close(self) -> None:
        self.env.close()

    def _score(self, rollout: Rollout) -> None:
        out = self.net.score(self.net.prepare(rollout.batch(["action"])))
        rollout["logp"].copy_(out.logp.view(rollout["logp"].shape))
        for name, value in out.values.items():
            rollout[name].copy_(value.view(rollout[name].shape))

    def save_state(self) -> dict[str, Tensor]:
        tensors = {f"env/{name}": torch.from_numpy(array) for name, array in self.env.save_state().items()}
        tensors |= {f"state/{name}": rows.cpu() for name, rows in self.state.items()}
        tensors |= {"starts": torch.from_numpy(self.starts), "cut": torch.tensor(self.cut)}
        return tensors | {"rng": self.generator.get_state()}

    def load_state(self, tensors: dict[str, Tensor], episodes: bool) -> None:
        """`episodes`: whether those under way go on; otherwise the caller restarts."""
        self.generator.set_state(tensors["rng"])
        self.cut = bool(tensors["cut"])
        if not episodes:
            return
        env = {key.removeprefix("env/"): t.numpy() for key, t in tensors.items() if key.startswith("env/")}
        self.now = self.env.load_state(env)
        self.starts[:] = tensors["starts"].numpy()
        self.state = {name: tensors[f"state/{name}"].to(rows.device) for name, rows in self.state.items()}


class Cut(NamedTuple):
    """Envs whose episode a time limit cut at a step: what the agent saw and remembered there, for its value."""

    step: int
    envs: NDArray[np.intp]
    obs: dict[str, NDArray[Any]]
    state: dict[str, Tensor]

    @classmethod
    def of(cls, step: int, now: StepBatch, state: dict[str, Tensor]) -> Cut:
        envs = np.flatnonzero(now.truncated)
        obs = {key: array[envs] for key, array in now.final_obs.items()}  # copies: buffers are reused
        return cls(step, envs, obs, {name: kept[envs] for name, kept in state.items()})


def fill_final_values(rollout: Rollout, cuts: list[Cut], net: Net) -> None:
    """0 but for the steps at which an episode was cut."""
    for name in rollout.last_values:
        rollout[f"final_{name}"].zero_()
    if not cuts:
        return
    obs = {key: np.concatenate([cut.obs[key] for cut in cuts]) for key in cuts[0].obs}
    state = {name: torch.cat([cut.state[name] for cut in cuts]) for name in cuts[0].state}
    envs = np.concatenate([cut.envs for cut in cuts])
    steps = np.repeat([cut.step for cut in cuts], [len(cut.envs) for cut in cuts])
    for name, value in net.values(obs, state, np.zeros(len(envs), np.bool_)).items():
        rollout[f"final_{name}"][steps, envs] = value
