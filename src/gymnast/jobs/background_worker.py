"""The process that `background.Worker` starts: it takes jobs until the other end is gone, and then so is this.

A line of JSON says what it is for; after that every job is a line of JSON and an agent's tensors.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import traceback
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import TYPE_CHECKING, Any

from gymnast.core.errors import EnvFailure, UserError

if TYPE_CHECKING:
    from torch import Tensor

    from gymnast.config import RunConfig

Job = dict[str, Any]
Work = Callable[[Job, "dict[str, Tensor]"], dict[str, Any]]


def end_with_parent() -> None:
    """Standard input ends when the process at its other end does, however that happens; in the middle of a job too."""

    def wait() -> None:
        while os.read(0, 4096):
            pass
        os._exit(0)

    threading.Thread(target=wait, daemon=True).start()


def make_work(task: dict[str, Any]) -> Work:
    """Builds all that jobs of a kind need: the imports are most of the time that a worker takes to be ready."""
    from gymnast import config as configs

    config = configs.validate(task["config"])
    return film_maker(config) if task["role"] == "film" else examiner(config, task["threshold"])


def examiner(config: RunConfig, threshold: float | None) -> Work:
    from gymnast.envs.make import make_vec
    from gymnast.envs.tabular.oracle import table_of
    from gymnast.judge.verdict import Court, EvalRequest, result_to_json
    from gymnast.runs.saved_agent import SavedAgent

    env = make_vec(config.env, config.eval_n_envs, "eval", threads=1)
    saved = SavedAgent.build(config, env)
    table = None if saved.agent.has_memory else table_of(config.env, env)
    court = Court(saved.net, env, table, config, threshold)

    def work(job: Job, tensors: dict[str, Tensor]) -> dict[str, Any]:
        saved.load(tensors)
        return result_to_json(court.examine(EvalRequest(**job["request"]), job["verdicts"]))

    return work


def film_maker(config: RunConfig) -> Work:
    from pathlib import Path

    from gymnast.play.player import command_seed
    from gymnast.play.stage import Stage
    from gymnast.runs.saved_agent import SavedAgent
    from gymnast.video.film import Film, shown_actions

    stage = Stage(config.env, 1)
    saved = SavedAgent.build(config, stage.engine)
    actions = shown_actions(config, stage)
    seed, greedy = command_seed(config.train.seed), config.stop.judge == "greedy"

    def work(job: Job, tensors: dict[str, Tensor]) -> dict[str, Any]:
        saved.load(tensors)
        about = {"step": job["step"], "policy": config.stop.judge, "seed": seed}
        with Film(Path(job["path"])) as film:
            (episode,) = film.add(stage.shots(saved.net, seed, greedy), stage, actions, about)
        return {"return": episode["return"], "length": episode["length"]}

    return work


def serve(connection: Connection) -> None:
    work = make_work(json.loads(connection.recv_bytes()))
    connection.send_bytes(b"{}")

    from safetensors.torch import load

    while True:
        job = json.loads(connection.recv_bytes())
        answer = work(job, load(connection.recv_bytes()))
        connection.send_bytes(json.dumps(answer).encode())


def main() -> None:
    end_with_parent()
    connection, niceness = Connection(int(sys.argv[1])), int(sys.argv[2])
    os.nice(niceness)
    try:
        serve(connection)
    except (EOFError, BrokenPipeError, ConnectionResetError):
        pass  # the parent is done with it
    except (UserError, EnvFailure) as error:
        connection.send_bytes(json.dumps({"failed": str(error).splitlines()[0]}).encode())
    except Exception:  # an env is foreign code
        line = traceback.format_exc().strip().splitlines()[-1]
        connection.send_bytes(json.dumps({"failed": line}).encode())


if __name__ == "__main__":
    main()
