"""Collectors for envs in actors: all in lock step, or whichever are ready."""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter

import torch
from torch import Tensor

from gymnast.agent.nets import Net
from gymnast.core.errors import UserError
from gymnast.core.pulse import Pulse
from gymnast.envs.actors.pool import ActorVec
from gymnast.envs.types import EpisodeRecord, VecEnv
from gymnast.rl.central.inference import Inference
from gymnast.rl.central.unroll import Unroll
from gymnast.rl.collector import Collector, Lap, fill_final_values
from gymnast.rl.returns import IMPORTANCE
from gymnast.rl.rollout import Rollout

ALIVE = 0.1  # seconds between two looks at the time limit


class ActorCollector(Collector):
    @property
    def actors(self) -> ActorVec:
        return self.env.actors  # type: ignore[attr-defined]  # below shaping and callbacks, where there are any

    def measured(self) -> dict[str, float]:
        return self.actors.measured()

    def take_warnings(self) -> list[str]:
        lines = self.actors.warnings
        return [lines.pop(0) for _ in range(len(lines))]  # a thread may add others meanwhile


class ExactCollector(ActorCollector):
    """All actors in lock step: the usual loop, whose numbers do not depend on where envs are stepped."""

    def fill(self, rollout: Rollout, lap: Lap) -> list[EpisodeRecord]:
        self.actors.lap = lap  # of a step: send, env (the wait for all actors) and receive
        return super().fill(rollout, lap)


class AsyncCollector(ActorCollector):
    """Rollouts are collected in a thread, from actors that nobody waits for, and finished here.

    `fill` hands the newest weights to the inference thread and takes the next complete rollout from it.

    Values, those after the last row and those where episodes were cut included, are the learner's at that moment. So
    are the log-probabilities under `vtrace`: `importance` then has how likely the learner is to do what was done,
    relative to the policy that did it, at most 1. Without it PPO compares with the policy that did it.
    """

    def __init__(
        self,
        env: VecEnv,
        net: Net,
        seed: int,
        pulse: Pulse,
        make_rollout: Callable[[], Rollout],
        max_lag: int,
    ) -> None:
        self.max_lag = max_lag
        self.memory = [make_rollout() for _ in range(max_lag + 1)]
        self.inference: Inference | None = None
        self.found: dict[str, float] = {}
        super().__init__(env, net, seed, pulse)

    def restart(self, seed: int) -> None:
        self._stop()
        if self.env.n_envs != self.memory[0].n_envs:
            raise UserError(
                f"env.n_envs: async actors began with {self.memory[0].n_envs} envs. Keep it, or start again."
            )
        super().restart(seed)
        self.taken = 0  # rollouts

    def fill(self, rollout: Rollout, lap: Lap) -> list[EpisodeRecord]:
        if not isinstance(self.env, ActorVec):
            raise UserError("train.central.mode: async has no steps of all envs that callbacks could watch. Use exact.")
        inference = self._running()
        inference.publish(self.net.agent, self.taken)
        lap("copy")
        while (unroll := inference.wait(self.taken, ALIVE)) is None:
            self.pulse.done = inference.steps_in(self.taken)
            if perf_counter() >= self.pulse.cut_at:
                self.cut = True
                self._stop()
                return []
        lap("wait")
        unroll.exchange(rollout)
        lags = self.taken - unroll.version
        lag = {"central/policy_lag_mean": float(lags.mean()), "central/policy_lag_max": float(lags.max())}
        self.found = unroll.measured | lag
        episodes, cuts = unroll.episodes, unroll.cuts
        for name, value in self.net.values(unroll.last_obs, unroll.last_state, unroll.last_starts).items():
            rollout.last_values[name].copy_(value)
        unroll.begin()  # for the rollout after those that may be under way
        self.taken += 1
        fill_final_values(rollout, cuts, self.net)
        self._compare(rollout)
        lap("act")
        return episodes

    def measured(self) -> dict[str, float]:
        return self.found

    def close(self) -> None:
        self._stop()
        super().close()

    def save_state(self) -> dict[str, Tensor]:
        """Episodes under way are not in it: actors do not stand still."""
        if self.inference is None:
            rng = self.generator.get_state()
        else:
            with self.inference.changed:
                rng = self.generator.get_state()
        return {"rng": rng, "cut": torch.tensor(self.cut)}

    def _running(self) -> Inference:
        if self.inference is None:
            unrolls = [Unroll(rollout, self.now.obs, self.state) for rollout in self.memory]
            self.inference = Inference(self.actors, self.net, unrolls, self.generator, self.max_lag)
        return self.inference

    def _stop(self) -> None:
        if self.inference is not None:
            self.inference.close()
            self.inference = None

    def _compare(self, rollout: Rollout) -> None:
        """The learner's own view of every step, next to that of the policy that made it."""
        out = self.net.score(self.net.prepare(rollout.batch(["action"])))
        for name, value in out.values.items():
            rollout[name].copy_(rollout.by_step(value))
        logp = rollout.by_step(out.logp)
        ratio = (logp - rollout["logp"]).exp()
        self.found |= {"central/ratio_mean": float(ratio.mean()), "central/ratio_max": float(ratio.max())}
        if IMPORTANCE in rollout.streams:
            rollout[IMPORTANCE].copy_(ratio.clamp(max=1.0))
            rollout["logp"].copy_(logp)
