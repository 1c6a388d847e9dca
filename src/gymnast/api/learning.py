"""What learn() does around the loop: budget, counters, episodes, the console, the run's folder."""

from __future__ import annotations

import glob
import sys
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from gymnast import config as configs
from gymnast.api.callbacks import Callbacks
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


def learn(
    model: Model,
    total_timesteps: int,
    callback: Any,
    log_interval: int | None,
    tb_log_name: str | None,
    restart: bool,
    shown: bool,
) -> None:
    session = model.session
    budget = whole("total_timesteps", total_timesteps)
    name = model.algo.upper() if tb_log_name is None else tb_log_name
    if not isinstance(name, str):
        raise UserError(f"learn(tb_log_name={name!r}): must be a name. reset_num_timesteps comes after it.")
    moved = restart and session.counters.env_steps > 0
    if restart:
        session.forget_run()
    vec_env = model.own_env()
    given = model.source is not None and model.source.vector is not None  # nobody knows who has moved it since
    if moved or given or vec_env.used:
        session.restart_episodes(_fresh_seed(session))
        vec_env.used = False
    session.config = session.judge.config = with_budget(model.config, session, budget, log_interval)
    require_sinks(session.config.log.sinks)
    if model.runs_dir is None and (trackers := [name for name in session.config.log.sinks if is_tracker(name)]):
        raise UserError(f"log.sinks: {', '.join(trackers)} needs a run's folder. Pass runs_dir='runs' to the model.")
    session.plan()
    total = session.config.train.total_timesteps
    arguments = {"total_timesteps": total, "tb_log_name": name, "log_interval": log_interval}
    callbacks = model.callbacks = Callbacks(model, callback, arguments | {"reset_num_timesteps": restart})

    def observe(row: Row) -> bool:
        model.metrics = dict(row)
        model.pass_on(row)
        return callbacks(row)

    vec_env.used = True  # until the loop has ended well: an env that failed half-way through a rollout starts again
    with callbacks.watching():
        if model.runs_dir is not None:
            history = None if restart else model.run
            parent = None if history is None else f"{history.id}/last"
            runs_dir = Path(model.runs_dir)
            model.run = new_run(session.config, model.variant, runs_dir, parent, history, ["python", *sys.argv[1:]])
            model.result = record(session, model.run, quiet=not shown, observer=observe)
        else:
            folder = None if model.tensorboard_log is None else event_folder(Path(model.tensorboard_log), name, restart)
            model.result = in_memory(session, observe, shown, folder)
    vec_env.used, model.continues = False, True
    session.clock = Clock()  # the time until the next learn() is not training time
    session.clock.elapsed = model.result.seconds


def in_memory(session: TrainState, observer: Observer, shown: bool, folder: Path | None) -> Result:
    """Without a run's folder: rows are shown, or not, and written as TensorBoard's events where there is a folder."""
    names = [*(["console"] if shown else []), *([] if folder is None else ["tensorboard"])]
    if not names:
        return train(session, observer=observer)
    require_sinks(names)
    info = RunInfo(
        folder=folder,
        start_step=session.counters.env_steps,
        threshold=session.judge.threshold,
        evaluated_on=session.config.evaluated_on,
        config=session.config.model_dump(mode="json"),
    )
    sinks = make_sinks(names, info, warnings.warn)
    try:
        return train(session, sinks, observer=observer)
    finally:
        sinks.close()


def event_folder(parent: Path, name: str, restart: bool) -> Path:
    """PPO_1 and so on, as stable-baselines3 counts them: a run that goes on writes where it wrote before."""
    numbers = [path.name.removeprefix(f"{name}_") for path in parent.glob(f"{glob.escape(name)}_*")]
    last = max((int(number) for number in numbers if number.isdecimal()), default=0)
    folder = parent / f"{name}_{last + 1 if restart or not last else last}"
    folder.mkdir(parents=True, exist_ok=True)
    return folder.resolve()


def with_budget(config: RunConfig, session: TrainState, steps: int, log_interval: int | None) -> RunConfig:
    """The config of this learn(): at least one rollout is collected, whatever the budget."""
    data = config.model_dump(mode="json")
    data["train"]["total_timesteps"] = session.counters.env_steps + max(steps, config.rollout_steps)
    if log_interval is not None:
        data["log"]["every"] = whole("log_interval", log_interval) * config.rollout_steps
    return configs.validate(data)


def set_envs(session: TrainState, config: RunConfig, source: EnvSource, threshold: float | None, closes: bool) -> None:
    """Puts other envs under an agent that goes on learning; `closes`: the old ones are nobody else's."""
    env = make_training_vec(config, source.factory)
    # may refuse: nothing has changed yet
    judge = make_judge(config, threshold, session.net, env, source.factory, session.pulse)
    before = session.judge.record  # each evaluation and verdict has its own episodes, in these envs too
    judge.record.evaluations, judge.record.verdicts = before.evaluations, before.verdicts
    if closes:
        session.collector.close()
    session.judge.close()
    session.judge = judge
    session.config, session.factory, session.collector.env = config, source.factory, env
    session.rollout, session.counters.unjudged = make_rollout(config, session.learner), False
    session.learner.reward_carry = session.learner.reward_carry.new_zeros(config.env.n_envs)
    session.restart_episodes(_fresh_seed(session))


def _fresh_seed(session: TrainState) -> int:
    """From the run's own random numbers: never the same twice, and saved with them."""
    return int(torch.randint(2**31, (1,), generator=session.collector.generator).item())


def whole(name: str, value: Any, least: int = 1) -> int:
    if isinstance(value, bool) or not isinstance(value, int | float) or value != int(value) or value < least:
        raise UserError(f"{name}: must be a whole number of at least {least}, not {value!r}.")
    return int(value)
