"""One worker of the process engine: a SyncEngine on its slice of the vector, writing into shared memory.

Nothing here may import torch: a worker must start quickly and stay small.
"""

from __future__ import annotations

import multiprocessing
import signal
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any

import gymnasium as gym
import numpy as np

from gymnast.core.errors import EnvFailure, UserError
from gymnast.envs.engines.buffers import Buffers
from gymnast.envs.engines.sync import SyncEngine
from gymnast.envs.spaces import ActionLayout, ObsLayout, mask_size
from gymnast.jobs.child import end_with_parent


@dataclass(frozen=True)
class Task:
    """What a worker needs to know at its start."""

    make_env: Callable[[], gym.Env[Any, Any]]
    name: str
    action_masks: bool
    n_envs: int  # of the whole vector
    start: int  # its own slice: from start to stop
    stop: int


def shared_arrays(
    observation_space: gym.Space[Any], actions: ActionLayout, n_envs: int, action_masks: bool, block: Any
) -> tuple[Buffers, np.ndarray[Any, np.dtype[Any]]]:
    """The vector's buffers and, behind them, its actions, in one block of shared memory."""
    layout, masks = ObsLayout(observation_space), mask_size(actions.space) if action_masks else None
    buffers = Buffers.allocate(layout, n_envs, masks, block)
    shape = (n_envs, *actions.shape)
    offset = Buffers.size_of(layout, n_envs, masks)
    taken = np.frombuffer(block, actions.dtype, int(np.prod(shape)), offset).reshape(shape)
    return buffers, taken


def work(task: Task, connection: Connection, block: Any) -> None:
    """Answers commands until one says close or the other end is gone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent, which then closes its workers
    if (parent := multiprocessing.parent_process()) is not None:
        end_with_parent(parent.sentinel)  # in the middle of an endless step, too
    engine: SyncEngine | None = None
    try:
        probe = task.make_env()
        buffers, actions = shared_arrays(
            probe.observation_space, ActionLayout(probe.action_space), task.n_envs, task.action_masks, block
        )
        ready = [probe]  # the env that showed the spaces is the first one of the slice
        engine = SyncEngine(
            lambda: ready.pop() if ready else task.make_env(),
            task.stop - task.start,
            name=task.name,
            action_masks=task.action_masks,
            first_env=task.start,
            buffers=buffers.rows(task.start, task.stop),
        )
        connection.send(("ready", None))
        while True:
            command, argument = connection.recv()
            if command == "close":
                break
            if command == "step":
                connection.send(("done", engine.step(actions[task.start : task.stop]).episodes))
            elif command == "reset":
                engine.reset(argument)
                connection.send(("done", None))
            elif command == "save":
                connection.send(("done", engine.save_state()))
            elif command == "load":
                engine.load_state(argument)
                connection.send(("done", None))
    except (EOFError, BrokenPipeError, ConnectionResetError):
        pass  # the parent is gone
    except UserError as error:
        connection.send(("mistake", str(error)))
    except EnvFailure as error:
        connection.send(("failed", str(error)))
    except Exception:  # an env's constructor is foreign code
        connection.send(("failed", f"{task.name}: a worker failed.\n{traceback.format_exc().rstrip()}"))
    finally:
        if engine is not None:
            engine.close()
        connection.close()
