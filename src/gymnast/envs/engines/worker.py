"""One worker process: a SyncEngine on its slice of the vector, writing into shared memory.

Nothing here may import torch: a worker must start quickly and stay small.
"""

from __future__ import annotations

import multiprocessing
import tempfile
import traceback
from collections.abc import Sequence
from multiprocessing.connection import Connection
from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np

from gymnast.core.errors import EnvFailure, UserError
from gymnast.core.text import plain_warnings
from gymnast.envs.engines.buffers import Buffers
from gymnast.envs.engines.replay import heard_by
from gymnast.envs.engines.sync import SyncEngine
from gymnast.envs.spaces import ActionLayout, ObsLayout, mask_size
from gymnast.jobs.child import end_with_parent, leave_signals_to_parent

if TYPE_CHECKING:
    from gymnast.envs.make import EnvMaker


def work(maker: EnvMaker, n_envs: int, connection: Connection, blocks: Sequence[Any], temporary: str) -> None:
    """Steps some of n_envs: the first message says which, from start to stop. Answers commands until one is None or the
    other end is gone.

    `blocks`: the shared memory of the vector's buffers and, behind them, of its actions. `temporary`: the folder for
    temporary files.
    """
    leave_signals_to_parent()
    plain_warnings()
    if (parent := multiprocessing.parent_process()) is not None:
        end_with_parent(parent.sentinel)  # in the middle of an endless step, too
    tempfile.tempdir = temporary
    engine: SyncEngine | None = None
    try:
        probe = maker()
        layout, actions = ObsLayout(probe.observation_space), ActionLayout(probe.action_space)
        masks = mask_size(actions.space) if maker.config.action_masks else None
        memory = iter(blocks)
        buffers = Buffers.allocate(layout, n_envs, masks, lambda shape, dtype: np.ndarray(shape, dtype, next(memory)))
        if (rows := connection.recv()) is None:  # nobody needs it
            probe.close()
            return
        start, stop = rows
        taken = np.ndarray((n_envs, *actions.shape), actions.dtype, next(memory))[start:stop]
        ready = [probe]  # the env that showed the spaces is the first one of the slice
        engine = SyncEngine(
            lambda: ready.pop() if ready else maker(),
            stop - start,
            name=maker.title,
            action_masks=maker.config.action_masks,
            first_env=start,
            buffers=buffers.rows(start, stop),
        )
        connection.send(("done", None))
        while command := connection.recv():
            name, argument = command
            if name == "step":
                began = perf_counter()
                records = engine.step(taken).episodes
                answer: Any = records, perf_counter() - began
            elif name == "save_state":
                answer = engine.save_state()
            elif name == "replay":
                with heard_by(lambda: connection.send(("replayed", None))):
                    engine.load_state(argument)
                answer = None
            else:  # reset or load_state, whose arrays are in the shared memory
                getattr(engine, name)(argument)
                answer = None
            connection.send(("done", answer))
    except (EOFError, BrokenPipeError, ConnectionResetError):
        pass  # the parent is gone
    except UserError as error:
        connection.send(("mistake", str(error)))
    except EnvFailure as error:
        connection.send(("failed", str(error)))
    except Exception:  # an env's constructor is foreign code
        connection.send(("failed", f"{maker.title}: a worker failed.\n{traceback.format_exc().rstrip()}"))
    finally:
        if engine is not None:
            engine.close()
        connection.close()
