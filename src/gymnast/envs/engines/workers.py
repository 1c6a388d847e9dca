"""Processes that step slices of a vector of envs, in memory that they share with this one.

They are started, asked and ended one by one; who uses them decides what follows when one dies.
"""

from __future__ import annotations

import itertools
import math
import multiprocessing
import signal
import tempfile
import time
from contextlib import suppress
from multiprocessing import resource_tracker, util
from multiprocessing.connection import Connection
from multiprocessing.reduction import ForkingPickler
from pickle import PicklingError
from typing import TYPE_CHECKING, Any

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from gymnast.core.errors import UserError
from gymnast.envs.engines.buffers import Buffers
from gymnast.envs.engines.worker import work
from gymnast.envs.forbid import agent_labels
from gymnast.envs.spaces import ActionLayout, ObsLayout, mask_size
from gymnast.jobs.child import STOP_SIGNALS

if TYPE_CHECKING:
    from gymnast.envs.make import EnvMaker

START_SECONDS = 60.0  # imports and the env's construction come on top of a step's time limit
SPARE = -1  # the place of a worker that has none yet
CLOSE_SECONDS = 3.0  # for env.close(); a worker that needs longer is killed


def even_slices(n_envs: int, count: int) -> list[tuple[int, int]]:
    return list(itertools.pairwise(n_envs * i // count for i in range(count + 1)))


class Workers:
    """`buffers` and `taken`: what workers write their steps into and read their actions from."""

    def __init__(self, maker: EnvMaker, n_envs: int, count: int) -> None:
        self.maker, self.n_envs, self.slices = maker, n_envs, even_slices(n_envs, count)
        refuse_unsendable(maker)
        probe = maker()  # an error of the config shows here, in the open, before any process starts
        self.obs_space: gym.Space[Any] = probe.observation_space
        self.action_space: gym.Space[Any] = probe.action_space
        self.action_labels = agent_labels(probe)
        probe.close()
        layout, actions = ObsLayout(self.obs_space), ActionLayout(self.action_space)
        # spawn: a fork would copy torch's locks. RawArray: memory without a name, so that none is left behind by a kill
        self._context = multiprocessing.get_context("spawn")
        self._blocks: list[Any] = []
        # of all workers, so that what their envs put there does not stay when they are killed
        self._temporary = tempfile.TemporaryDirectory(prefix="gymnast-envs-", ignore_cleanup_errors=True)
        masks = mask_size(actions.space) if maker.config.action_masks else None
        self.buffers = Buffers.allocate(layout, n_envs, masks, self._shared)
        self.taken = self._shared((n_envs, *actions.shape), actions.dtype)
        self.connections: dict[int, Connection] = {}
        self.processes: dict[int, Any] = {}
        # At the end of this process workers get SIGTERM, which they leave to it: they are killed before that.
        util.Finalize(self, _kill, (self.processes,), exitpriority=10)

    def _shared(self, shape: tuple[int, ...], dtype: Any) -> NDArray[Any]:
        self._blocks.append(self._context.RawArray("B", math.prod(shape) * np.dtype(dtype).itemsize))
        return np.ndarray(shape, dtype, self._blocks[-1])

    def start(self, index: int) -> None:
        """It answers once its envs are made. A spare worker takes the place at once, where there is one."""
        if SPARE in self.processes and not self.processes[SPARE].is_alive():
            self.kill(SPARE)
        if SPARE not in self.processes:
            self.add_spare()
        self.connections[index], self.processes[index] = self.connections.pop(SPARE), self.processes.pop(SPARE)
        with suppress(OSError):  # who waits for its answer will find it dead
            self.connections[index].send(self.slices[index])

    def add_spare(self) -> None:
        """A worker that has made its first env and waits for its place."""
        here, there = self._context.Pipe()
        task = (self.maker, self.n_envs, there, self._blocks, self._temporary.name)
        process = self._context.Process(target=work, args=task, daemon=True, name="envs")
        resource_tracker.ensure_running()  # else start() starts it, which unblocks signals
        # A worker inherits what is blocked, so that no signal ends it before it knows what to do with one.
        blocked = signal.pthread_sigmask(signal.SIG_BLOCK, STOP_SIGNALS)
        try:
            process.start()
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
        there.close()  # so that this end sees the end of a dead worker
        self.connections[SPARE], self.processes[SPARE] = here, process

    def kill(self, index: int) -> int | None:
        """No gentleness: an env that hangs in native code does not hear SIGTERM. Returns its exit code."""
        self.connections.pop(index).close()
        process = self.processes.pop(index)
        process.kill()
        process.join(CLOSE_SECONDS)
        code = process.exitcode
        if code is not None:
            process.close()
        return code

    def who(self, index: int) -> str:
        start, stop = self.slices[index]
        return f"the worker of envs {start} to {stop - 1} (process {self.processes[index].pid})"

    def close(self) -> None:
        """Every env is closed by its worker; one that takes too long is killed."""
        for connection in self.connections.values():
            try:
                connection.send(None)
            except OSError:
                continue  # dead already
        deadline = time.monotonic() + CLOSE_SECONDS
        for process in self.processes.values():
            process.join(max(0.0, deadline - time.monotonic()))
        self.kill_all()
        self._temporary.cleanup()

    def kill_all(self) -> None:
        _kill(self.processes)
        for index in list(self.processes):
            self.kill(index)


def _kill(processes: dict[int, Any]) -> None:
    for process in processes.values():
        process.kill()


def refuse_unsendable(maker: EnvMaker) -> None:
    try:
        ForkingPickler.dumps(maker)
    except (AttributeError, TypeError, ValueError, PicklingError) as error:
        raise UserError(
            f"env.engine: process cannot send this env to a worker ({error}). "
            "Use a function or class at the top level of a module, or env.engine=sync."
        ) from error
