"""Envs in worker processes, several to a worker; arrays in shared memory, small messages through pipes.

Every worker runs a SyncEngine on its slice, so results are those of the sync engine, bit for bit. A worker that
crashes, dies or falls silent ends the run with what is known about it; nothing ever waits without a limit.
"""

from __future__ import annotations

import itertools
import math
import multiprocessing
import signal
import time
from multiprocessing import util
from multiprocessing.connection import Connection
from multiprocessing.reduction import ForkingPickler
from pickle import PicklingError
from typing import TYPE_CHECKING, Any, NoReturn

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from gymnast.core.errors import EnvFailure, UserError
from gymnast.core.machine import cores
from gymnast.envs.engines.base import Engine
from gymnast.envs.engines.buffers import Buffers
from gymnast.envs.engines.replay import require_keys
from gymnast.envs.engines.worker import work
from gymnast.envs.forbid import agent_labels
from gymnast.envs.spaces import ActionLayout, ObsLayout, mask_size
from gymnast.envs.types import StepBatch
from gymnast.jobs.child import STOP_SIGNALS
from gymnast.jobs.worker import how_it_ended

if TYPE_CHECKING:
    from gymnast.envs.make import EnvMaker

_START_SECONDS = 60.0  # imports and the env's construction come on top of a step's time limit
_CLOSE_SECONDS = 3.0  # for env.close(); a worker that needs longer is killed


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
        _refuse_unsendable(maker)
        probe = maker()  # an error of the config shows here, in the open, before any process starts
        layout, self._actions = ObsLayout(probe.observation_space), ActionLayout(probe.action_space)
        self.action_labels = agent_labels(probe)
        probe.close()
        self.obs_space = layout.obs_space
        self.action_space: gym.Space[Any] = self._actions.space
        # spawn: a fork would copy torch's locks. RawArray: memory without a name, so that none is left behind by a kill
        context = multiprocessing.get_context("spawn")
        blocks: list[Any] = []

        def shared(shape: tuple[int, ...], dtype: Any) -> NDArray[Any]:
            blocks.append(context.RawArray("B", math.prod(shape) * np.dtype(dtype).itemsize))
            return np.ndarray(shape, dtype, blocks[-1])

        masks = mask_size(self._actions.space) if maker.config.action_masks else None
        self._buffers = Buffers.allocate(layout, n_envs, masks, shared)
        self._taken = shared((n_envs, *self._actions.shape), self._actions.dtype)
        count = n_envs if maker.one_per_process else min(n_envs, threads or cores())
        self._slices = list(itertools.pairwise(n_envs * i // count for i in range(count + 1)))
        self._connections: list[Connection] = []
        self._processes: list[Any] = []
        # At the end of this process workers get SIGTERM, which they leave to it: they are killed before that.
        util.Finalize(self, _kill, (self._processes,), exitpriority=10)
        # A worker inherits what is blocked, so that no signal ends it before it knows what to do with one.
        blocked = signal.pthread_sigmask(signal.SIG_BLOCK, STOP_SIGNALS)
        try:
            for start, stop in self._slices:
                here, there = context.Pipe()
                task = (maker, n_envs, start, stop, there, blocks)
                process = context.Process(target=work, args=task, daemon=True, name=f"envs {start}-{stop - 1}")
                process.start()
                there.close()  # so that this end sees the end of a dead worker
                self._connections.append(here)
                self._processes.append(process)
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
        self._receive_all(_START_SECONDS + self._timeout, "starting")

    def reset(self, seed: int) -> StepBatch:
        self._ask_all("reset", [seed] * len(self._slices), self._timeout, "a reset")
        return self._buffers.batch([])

    def step(self, actions: NDArray[Any]) -> StepBatch:
        self._taken[:] = self._actions.batch(actions, self.n_envs)
        parts = self._ask_all("step", [None] * len(self._slices), self._timeout, "a step")
        return self._buffers.batch([record for part in parts for record in part])

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
        self._ask_all("load_state", parts, self._timeout * (1 + longest), "the replay of its episodes")
        return self._buffers.batch([])

    def close(self) -> None:
        for connection in self._connections:
            try:
                connection.send(None)
            except OSError:
                continue  # dead already
        deadline = time.monotonic() + _CLOSE_SECONDS
        for process in self._processes:
            process.join(max(0.0, deadline - time.monotonic()))
        self._end_processes()

    def _ask_all(self, command: str, arguments: list[Any], seconds: float, doing: str) -> list[Any]:
        if not self._connections:
            raise EnvFailure(f"{self.name}: the env workers are closed.")
        for index, (connection, argument) in enumerate(zip(self._connections, arguments, strict=True)):
            try:
                connection.send((command, argument))
            except OSError:
                self._report_death(index)
        return self._receive_all(seconds, doing)

    def _receive_all(self, seconds: float, doing: str) -> list[Any]:
        deadline = time.monotonic() + seconds
        results = []
        for index, connection in enumerate(self._connections):
            try:
                if not connection.poll(max(0.0, deadline - time.monotonic())):
                    who = self._who(index)
                    self._end_processes()
                    raise EnvFailure(
                        f"{self.name}: {who} did not finish {doing} within {seconds:g} s and was stopped. "
                        f"If the env is that slow, raise env.step_timeout (now {self._timeout:g})."
                    )
                kind, result = connection.recv()
            except (EOFError, OSError):
                self._report_death(index)
            if kind in ("failed", "mistake"):
                self._end_processes()
                raise (EnvFailure if kind == "failed" else UserError)(result)
            results.append(result)
        return results

    def _report_death(self, index: int) -> NoReturn:
        process, who = self._processes[index], self._who(index)
        if self._connections[index].poll(0):  # it may have said why before it ended
            try:
                kind, result = self._connections[index].recv()
            except (EOFError, OSError):
                kind, result = "silent", None
            if kind == "failed":
                self._end_processes()
                raise EnvFailure(result)
        process.join(_CLOSE_SECONDS)
        how = how_it_ended(process.exitcode)
        self._end_processes()
        raise EnvFailure(f"{self.name}: {who} {how}.")

    def _who(self, index: int) -> str:
        start, stop = self._slices[index]
        return f"the worker of envs {start} to {stop - 1} (process {self._processes[index].pid})"

    def _end_processes(self) -> None:
        """No gentleness: an env that hangs in native code does not hear SIGTERM."""
        for connection in self._connections:
            connection.close()
        _kill(self._processes)
        for process in self._processes:
            process.join(_CLOSE_SECONDS)
            if process.exitcode is not None:
                process.close()
        self._connections.clear()
        self._processes.clear()


def _kill(processes: list[Any]) -> None:
    for process in processes:
        process.kill()


def _refuse_unsendable(maker: EnvMaker) -> None:
    try:
        ForkingPickler.dumps(maker)
    except (AttributeError, TypeError, ValueError, PicklingError) as error:
        raise UserError(
            f"env.engine: process cannot send this env to a worker ({error}). "
            "Use a function or class at the top level of a module, or env.engine=sync."
        ) from error
