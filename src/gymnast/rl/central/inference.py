"""The thread that chooses actions for whichever actors are ready, while the learner learns."""

from __future__ import annotations

import copy
import threading
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from gymnast.agent.agent import Agent
from gymnast.agent.batch import OBS, Batch
from gymnast.agent.nets import Net
from gymnast.agent.nets.base import Choice
from gymnast.envs.actors.pool import ActorVec, Arrival
from gymnast.envs.types import Obs
from gymnast.metrics.clock import Clock
from gymnast.rl.central.unroll import State, Unroll

LOOK_UP = 0.01  # seconds until a thread that waits for actors sees that the learner has moved on


class Inference:
    """Keeps what lasts between two steps of an env, by its place in the vector: where it is in which rollout, what the
    agent remembers of it, whether it begins an episode. Weights are a copy of the learner's, made between two updates.

    Rollout r is learned from in update r. An actor steps in it once at least r - max_lag updates were made, so no step
    is older than max_lag updates when it is learned from.
    """

    def __init__(
        self, actors: ActorVec, net: Net, unrolls: list[Unroll], generator: torch.Generator, max_lag: int
    ) -> None:
        self.actors, self.unrolls, self.generator, self.max_lag = actors, unrolls, generator, max_lag
        self.agent = copy.deepcopy(net.agent)
        self.net: Net = type(net)(self.agent)  # type: ignore[call-arg]
        self.now = actors.buffers.batch([])
        self.state: State = self.agent.initial_state(actors.n_envs)
        self.starts = np.ones(actors.n_envs, np.bool_)
        self.envs = [slice(*rows) for rows in actors.slices]
        self.index, self.t = (
            [0] * len(self.envs),
            [0] * len(self.envs),
        )  # of each actor: its rollout, and its step there
        self.waiting = list(range(len(self.envs)))  # actors whose envs need actions
        self.before: dict[int, State] = {}  # what was remembered when the step under way was chosen
        self.version = self.batches = self.rows = 0
        self.clock = Clock()
        self.changed = threading.Condition()  # guards weights, version and which rollouts are complete
        self.closing = False
        self.error: BaseException | None = None
        self.thread = threading.Thread(target=self._run, name="inference", daemon=True)

    # The learner's side

    def publish(self, agent: Agent, version: int) -> None:
        """Actions are chosen by these weights from here on."""
        with self.changed:
            self.agent.load_state_dict(agent.state_dict())
            self.version = version
            self.changed.notify_all()
        if not self.thread.is_alive() and self.error is None:
            self.clock.start(0, 0)
            self.actors.lap = self.clock.lap
            self.thread.start()

    def wait(self, index: int, seconds: float) -> Unroll | None:
        """That rollout once it is complete; None after so many seconds. What ended the thread is raised."""
        unroll = self.unrolls[index % len(self.unrolls)]
        with self.changed:
            self.changed.wait_for(lambda: unroll.complete or self.error is not None, seconds)
        if self.error is not None:
            raise self.error
        return unroll if unroll.complete else None

    def steps_in(self, index: int) -> int:
        """How many steps its envs have made in that rollout, in the mean."""
        n_steps = self.unrolls[0].rollout.n_steps
        made = [t if i == index else n_steps * (i > index) for i, t in zip(self.index, self.t, strict=True)]
        return sum(made) // len(made)

    def close(self) -> None:
        with self.changed:
            self.closing = True
            self.changed.notify_all()
        if self.thread.is_alive():
            self.thread.join()

    # The thread's side

    def _run(self) -> None:
        try:
            while not self.closing:
                self._round()
        except BaseException as error:  # whatever it is, the learner raises it
            with self.changed:
                self.error = error
                self.changed.notify_all()

    def _round(self) -> None:
        """Actions for all that need some and may have them, then a look at who has made a step."""
        with self.changed:
            able = self._able()
            if not able and len(self.waiting) == len(self.envs):
                self.changed.wait_for(lambda: self.closing or self._able())
                self.clock.lap("blocked")
                return
            chosen = self._act(able) if able else []
        for actor, actions in zip(able, chosen, strict=True):
            self.waiting.remove(actor)
            self.actors.send(actor, actions)
        self.clock.lap("send")
        for arrival in self.actors.receive(LOOK_UP):
            self._arrive(arrival)
        self.clock.lap("copy")

    def _able(self) -> list[int]:
        return sorted(actor for actor in self.waiting if self.index[actor] <= self.version + self.max_lag)

    def _act(self, able: list[int]) -> list[NDArray[Any]]:
        """One batch for all of them. What was seen and chosen goes into the rollout of each. Returns actions."""
        net, head = self.net, self.agent.head
        groups = [np.arange(self.envs[actor].start, self.envs[actor].stop) for actor in able]
        envs = np.concatenate(groups)
        obs = {key: array[envs] for key, array in self.now.obs.items()}
        mask = None if self.now.mask is None else self.now.mask[envs]
        starts = self.starts[envs]
        before = {name: rows[envs] for name, rows in self.state.items()}
        if before:
            fresh = np.repeat([self.t[actor] == 0 for actor in able], [len(group) for group in groups])
            before = head.renew(before, torch.from_numpy(fresh))
        self.clock.lap("copy")
        choice = net.act(obs, before, starts, mask, self.generator)
        logp = self._logp(obs, choice, mask)
        actions = head.to_env(choice.action)
        self.clock.lap("act")
        for name, rows in choice.state.items():
            self.state[name][envs] = rows
        columns = {"starts": starts, "action": choice.action, "logp": logp} | ({} if mask is None else {"mask": mask})
        end, parts = 0, []
        for actor, group in zip(able, groups, strict=True):
            some, end = slice(end, end + len(group)), end + len(group)
            unroll, t = self.unrolls[self.index[actor] % len(self.unrolls)], self.t[actor]
            self.before[actor] = {name: rows[some] for name, rows in before.items()}
            seen = {key: array[some] for key, array in obs.items()}
            own = {name: column[some] for name, column in columns.items()}
            unroll.write_choice(t, self.envs[actor], seen, own, self.before[actor])
            unroll.version[t, self.envs[actor]] = self.version
            parts.append(actions[some])
        self.batches += 1
        self.rows += len(envs)
        self.clock.lap("copy")
        return parts

    def _logp(self, obs: Obs, choice: Choice, mask: NDArray[np.bool_] | None) -> NDArray[Any]:
        """By the weights of this moment: a rollout's steps may have several."""
        if choice.logp is not None:
            return choice.logp.numpy()
        columns = {OBS + key: torch.from_numpy(array) for key, array in obs.items()}
        columns["action"] = torch.from_numpy(choice.action)
        if mask is not None:
            columns["mask"] = torch.from_numpy(mask)
        return self.net.score(self.net.prepare(Batch(columns))).logp.numpy()

    def _arrive(self, arrival: Arrival) -> None:
        """A step was made, or its actor was replaced: then the step is lost, and its place is written again."""
        actor, envs = arrival.actor, self.envs[arrival.actor]
        unroll, t = self.unrolls[self.index[actor] % len(self.unrolls)], self.t[actor]
        self.waiting.append(actor)
        if arrival.episodes is None:
            unroll.cut_before(t, envs, self.before[actor])
            self.starts[envs] = True
            return
        state = {name: rows[envs] for name, rows in self.state.items()}
        unroll.write_result(t, envs, self.now, state, arrival.episodes)
        np.logical_or(self.now.terminated[envs], self.now.truncated[envs], out=self.starts[envs])
        self.t[actor] = t + 1
        if self.t[actor] == unroll.rollout.n_steps:
            self.index[actor], self.t[actor] = self.index[actor] + 1, 0
            unroll.write_end(envs, self.now, state, self.starts)
            if not unroll.missing:
                unroll.measured = self._measured()
                with self.changed:
                    unroll.complete = True
                    self.changed.notify_all()

    def _measured(self) -> dict[str, float]:
        """Since the last time: this thread's time budget, the size of its batches, and the calls of actors."""
        shares = {name: share for name, share in self.clock.report(0, 0).items() if name.startswith("time/share/")}
        mean, self.batches, self.rows = self.rows / max(1, self.batches), 0, 0
        own = {f"central/{name.removeprefix('time/')}": share for name, share in shares.items()}
        return own | {"central/batch": mean} | self.actors.measured()
