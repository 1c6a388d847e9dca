"""Evaluation in a worker: an agent's tensors go there, a result comes back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gymnast import config as configs
from gymnast.envs.make import make_vec
from gymnast.envs.tabular.oracle import table_of
from gymnast.envs.tasks import TaskEnvs, task_spaces
from gymnast.judge.tasks import TaskCourt, task_floors, task_thresholds
from gymnast.judge.verdict import Allowance, Court, request_from_json, result_to_json
from gymnast.runs.saved_agent import SavedAgent

if TYPE_CHECKING:
    from gymnast.jobs.child import Channel


def evaluate_copies(channel: Channel, config: dict[str, Any], goals: dict[str, float], earlier: dict[str, Any]) -> None:
    """`earlier`: envs of the stages before this one, by name."""
    checked = configs.validate(config)
    if checked.tasks:
        envs = TaskEnvs(checked, task_spaces(checked), threads=1)
        saved = SavedAgent.build(checked, envs)
        answer(
            channel, saved, TaskCourt(saved.net, envs, checked, task_thresholds(checked), floors=task_floors(checked))
        )
        return
    env = make_vec(checked.eval_env, checked.eval_n_envs, "eval", threads=1)
    saved = SavedAgent.build(checked, env)
    table = None if saved.agent.has_memory else table_of(checked.eval_env, env)
    left = {name: configs.EnvConfig.model_validate(one) for name, one in earlier.items()}
    opened = {name: make_vec(one, checked.eval_n_envs, "eval", threads=1) for name, one in left.items()}
    floor = configs.lowest_return(checked.eval_env, checked.stop.lowest_return)
    answer(channel, saved, Court(saved.net, env, table, checked, goals, earlier=opened, floor=floor))


def answer(channel: Channel, saved: SavedAgent, court: Court | TaskCourt) -> None:
    channel.ready()
    for job, tensors in channel:
        saved.load(tensors)
        allowed = job["allowed"] and Allowance(**job["allowed"])
        channel.result(result_to_json(court.examine(request_from_json(job["request"]), allowed)))
