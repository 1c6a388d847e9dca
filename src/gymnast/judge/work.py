"""Evaluation in a worker: an agent's tensors go there, a report comes back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gymnast import config as configs
from gymnast.core.devices import pick_device
from gymnast.envs.make import make_vec
from gymnast.envs.tabular.oracle import find_table
from gymnast.judge.verdict import Look, examine, report_to_json
from gymnast.training.state import build_agent, choose_threads, is_small, load_agent

if TYPE_CHECKING:
    from gymnast.jobs.child import Channel


def evaluate_copies(channel: Channel, config: dict[str, Any], threshold: float | None) -> None:
    checked = configs.validate(config)
    choose_threads(checked)  # as in the training process, so that every number is the same
    env = make_vec(checked.env, checked.eval_n_envs, "eval", threads=1)
    table = find_table(checked.env) if is_small(env) else None
    agent = build_agent(checked, env, pick_device(checked.train.device))
    channel.ready()
    for job, tensors in channel:
        load_agent(agent, tensors)
        report = examine(agent, env, table, checked, threshold, Look(**job["look"]), job["verdicts"])
        channel.result(report_to_json(report))
