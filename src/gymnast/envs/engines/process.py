"""Envs in worker processes, several to a worker; arrays in shared memory, small messages through pipes.

Every worker runs a SyncEngine on its slice, so results are those of the sync engine, bit for bit. A worker that
crashes, dies or falls silent ends the run with what is known about it; nothing ever waits without a limit.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, NoReturn

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from gymnast.core.errors import EnvFailure, UserError
from gymnast.core.machine import cores
from gymnast.envs.engines.base import Engine
from gymnast.envs.engines.replay import replayed, require_keys
from gymnast.envs.engines.workers import CLOSE_SECONDS, START_SECONDS, Workers
from gymnast.envs.spaces import ActionLayout, ObsLayout
from gymnast.envs.types import StepBatch
from gymnast.jobs.worker import how_it_ended

if TYPE_CHECKING:
    from gymnast.envs.make import EnvMaker

LONGEST_WAIT = 86_400.0  # seconds; a pipe cannot wait for the weeks that long episodes to replay would ask for


class ProcessEngine(Engine):
    engine = "process"
    exact_resume = True
    priority = 10

    @classmethod
    def obstacle(cls, maker: EnvMaker) -> str | None:
        return "it cannot show pictures." if maker.render_mode is not None else None

    @classmethod
    def pays(cls, maker: EnvMaker, n_envs: int) -> str | None:
        if maker.one_per_process:
            return f"a process may hold one {maker.config.id} only"
        if n_envs > 1 and maker.suite.is_slow(maker.config.id):
            return f"{maker.config.id} is slow to step, and each core steps some of them"
        return None

    def __init__(self, maker: EnvMaker, n_envs: int, threads: int | None) -> None:
        self.n_envs, self.name, self._timeout = n_envs, maker.title, maker.config.step_timeout
        count = n_envs if maker.one_per_process else min(n_envs, threads or cores())
        self._workers = workers = Workers(maker, n_envs, count)
        self._actions = ActionLayout(workers.action_space)
        self.obs_space, self.action_labels = ObsLayout(workers.obs_space).obs_space, workers.action_labels
        self.action_space: gym.Space[Any] = self._actions.space
        self._buffers, self._slices = workers.buffers, workers.slices
        for index in range(count):
            workers.start(index)
        self._receive_all(START_SECONDS + self._timeout, "starting")

    @property
    def _processes(self) -> list[Any]:
        return list(self._workers.processes.values())

    def reset(self, seed: int) -> StepBatch:
        self._ask_all("reset", [seed] * len(self._slices), self._timeout, "a reset")
        return self._buffers.batch([])

    def step(self, actions: NDArray[Any]) -> StepBatch:
        self._workers.taken[:] = self._actions.batch(actions, self.n_envs)
        parts = self._ask_all("step", [None] * len(self._slices), self._timeout, "a step")
        return self._buffers.batch([record for part, _ in parts for record in part])

    def save_state(self) -> dict[str, NDArray[Any]]:
        """The same arrays as the sync engine's."""
        parts = self._ask_all("save_state", [None] * len(self._slices), self._timeout, "saving its state")
        state = {key: np.concatenate([part[key] for part in parts]) for key in parts[0]}
        return state | {"seed": parts[0]["seed"]}

    def load_state(self, state: dict[str, NDArray[Any]]) -> StepBatch:
        require_keys(state, {"seed", "episode", "length", "actions"}, self.n_envs, self.engine)
        ends = np.concatenate(([0], np.cumsum(state["length"])))
        parts = []
        for start, stop in self._slices:
            part = {key: array[start:stop] for key, array in state.items() if key not in ("seed", "actions")}
            parts.append(part | {"seed": state["seed"], "actions": state["actions"][ends[start] : ends[stop]]})
        longest = max(int(part["length"].sum()) for part in parts)  # the most steps one worker has to replay
        self._ask_all("replay", parts, self._timeout * (1 + longest), "the replay of its episodes")
        return self._buffers.batch([])

    def close(self) -> None:
        self._workers.close()

    def _ask_all(self, command: str, arguments: list[Any], seconds: float, doing: str) -> list[Any]:
        if not self._workers.connections:
            raise EnvFailure(f"{self.name}: the env workers are closed.")
        for index, argument in enumerate(arguments):
            try:
                self._workers.connections[index].send((command, argument))
            except OSError:
                self._report_death(index)
        return self._receive_all(seconds, doing)

    def _receive_all(self, seconds: float, doing: str) -> list[Any]:
        seconds = min(seconds, LONGEST_WAIT)
        deadline = time.monotonic() + seconds
        results = []
        for index, connection in self._workers.connections.items():
            kind = "replayed"
            while kind == "replayed":
                try:
                    if not connection.poll(max(0.0, deadline - time.monotonic())):
                        who = self._workers.who(index)
                        self._workers.kill_all()
                        raise EnvFailure(
                            f"{self.name}: {who} did not finish {doing} within {seconds:g} s and was stopped. "
                            f"If the env is that slow, raise env.step_timeout (now {self._timeout:g})."
                        )
                    kind, result = connection.recv()
                except (EOFError, OSError):
                    self._report_death(index)
                if kind == "replayed":
                    replayed()
            if kind in ("failed", "mistake"):
                self._workers.kill_all()
                raise (EnvFailure if kind == "failed" else UserError)(result)
            results.append(result)
        return results

    def _report_death(self, index: int) -> NoReturn:
        workers = self._workers
        process, who = workers.processes[index], workers.who(index)
        if workers.connections[index].poll(0):  # it may have said why before it ended
            try:
                kind, result = workers.connections[index].recv()
            except (EOFError, OSError):
                kind, result = "silent", None
            if kind == "failed":
                workers.kill_all()
                raise EnvFailure(result)
        process.join(CLOSE_SECONDS)
        how = how_it_ended(process.exitcode)
        workers.kill_all()
        raise EnvFailure(f"{self.name}: {who} {how}.")
