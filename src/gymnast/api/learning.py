"""What learn() does around the loop: budget, counters, episodes, the console, the run's folder."""

from __future__ import annotations

import inspect
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from gymnast import config as configs
from gymnast.api.sources import EnvSource
from gymnast.config import RunConfig
from gymnast.core.errors import UserError
from gymnast.envs.make import make_training_vec
from gymnast.metrics.clock import Clock
from gymnast.sinks import make_sinks
from gymnast.sinks.base import RunInfo
from gymnast.sinks.trackers.sink import is_tracker, require_sinks
from gymnast.training.build import make_judge, make_rollout
from gymnast.training.loop import Result, train
from gymnast.training.record import new_run, record
from gymnast.training.rows import Observer, Row
from gymnast.training.state import TrainState

if TYPE_CHECKING:
    from gymnast.api.model import Model


def as_observer(callback: Any) -> Observer | None:
    """A function of one row of metrics. Anything that expects to steer training is refused with the way out."""
    if callback is None:
        return None
    if not callable(callback) or hasattr(callback, "on_training_start"):
        raise UserError(
            f"callback: {type(callback).__name__} steers training from inside; here a callback only looks: a function "
            "of one row of metrics (a dict). Evaluation, checkpoints and stop rules are settings, "
            "like set={'eval.every': 5000, 'stop.threshold': 475}."
        )
    try:
        inspect.signature(callback).bind({})
    except TypeError:
        raise UserError(
            "callback: must take one argument, a row of metrics: lambda row: print(row['time/total_timesteps'])."
        ) from None
    except ValueError:  # a builtin that does not say what it takes
        pass
    observer: Observer = callback
    return observer


def learn(
    model: Model, total_timesteps: int, observer: Observer | None, log_interval: int | None, anew: bool, shown: bool
) -> None:
    session = model.session
    budget = _whole("total_timesteps", total_timesteps)
    moved = anew and session.counters.env_steps > 0
    if anew:
        session.forget_run()
    vec_env = model.get_env()
    if moved or vec_env.used:
        session.restart_episodes(_fresh_seed(session))
        vec_env.used = False
    session.config = session.judge.config = with_budget(model.config, session, budget, log_interval)
    require_sinks(session.config.log.sinks)
    if model.runs_dir is None and (trackers := [name for name in session.config.log.sinks if is_tracker(name)]):
        raise UserError(f"log.sinks: {', '.join(trackers)} needs a run's folder. Pass runs_dir='runs' to the model.")
    session.plan()

    def observe(row: Row) -> None:
        model.metrics = dict(row)
        if observer is not None:
            observer(row)

    vec_env.used = True  # until the loop has ended well: an env that failed half-way through a rollout starts anew
    if model.runs_dir is not None:
        history = None if anew else model.run
        parent = None if history is None else f"{history.id}/last"
        runs_dir = Path(model.runs_dir)
        model.run = new_run(session.config, model.variant, runs_dir, parent, history, program="python")
        model.result = record(session, model.run, quiet=not shown, observer=observe)
    else:
        model.result = in_memory(session, observe, shown)
    vec_env.used = False
    session.clock = Clock()  # the time until the next learn() is not training time
    session.clock.elapsed = model.result.seconds


def in_memory(session: TrainState, observer: Observer, shown: bool) -> Result:
    if not shown:
        return train(session, observer=observer)
    info = RunInfo(
        folder=None,
        start_step=session.counters.env_steps,
        threshold=session.judge.threshold,
        evaluated_on=session.config.evaluated_on,
        config=session.config.model_dump(mode="json"),
    )
    sinks = make_sinks(["console"], info, warnings.warn)
    try:
        return train(session, sinks, observer=observer)
    finally:
        sinks.close()


def with_budget(config: RunConfig, session: TrainState, steps: int, log_interval: int | None) -> RunConfig:
    """The config of this learn(): at least one rollout is collected, whatever the budget."""
    data = config.model_dump(mode="json")
    data["train"]["total_timesteps"] = session.counters.env_steps + max(steps, config.rollout_steps)
    if log_interval is not None:
        data["log"]["every"] = _whole("log_interval", log_interval) * config.rollout_steps
    return configs.validate(data)


def set_envs(session: TrainState, config: RunConfig, source: EnvSource, threshold: float | None, closes: bool) -> None:
    """Puts other envs under an agent that goes on learning; `closes`: the old ones are nobody else's."""
    env = make_training_vec(config, source.factory)
    judge = make_judge(config, threshold, session.net, env, source.factory)  # may refuse: nothing has changed yet
    before = session.judge.record  # each evaluation and verdict has its own episodes, in these envs too
    judge.record.evaluations, judge.record.verdicts = before.evaluations, before.verdicts
    if closes:
        session.env.close()
    session.judge.close()
    session.judge = judge
    session.config, session.factory, session.collector.env = config, source.factory, env
    session.rollout = make_rollout(config, session.learner)
    session.learner.reward_carry = session.learner.reward_carry.new_zeros(config.env.n_envs)
    session.restart_episodes(_fresh_seed(session))


def _fresh_seed(session: TrainState) -> int:
    """From the run's own random numbers: never the same twice, and saved with them."""
    return int(torch.randint(2**31, (1,), generator=session.collector.generator).item())


def _whole(name: str, value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int | float) or value != int(value) or value < 1:
        raise UserError(f"{name}: must be a whole number of at least 1, not {value!r}.")
    return int(value)
