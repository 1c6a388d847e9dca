"""Rows of metrics: made of what a run is at a moment, given to sinks, alerts and whoever watches."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from gymnast.metrics.catalogue import catalogue
from gymnast.sinks import SinkGroup

if TYPE_CHECKING:
    from gymnast.judge.verdict import EvalResult
    from gymnast.training.state import TrainState

Row = dict[str, float]
Observer = Callable[[Row], Any]  # False: training shall end
OBS_NUMBERS = 1_000_000  # of a leaf, that a row's mean and standard deviation are taken from


class Reporter:
    """Everything the loop says goes through here. `observer` sees a copy of every row; it may ask training to stop, by
    returning False, and can change nothing else."""

    def __init__(self, state: TrainState, sinks: SinkGroup | None, observer: Observer | None) -> None:
        if sinks is None:
            sinks = SinkGroup([], lambda text: warnings.warn(text, stacklevel=3))
        self._state, self._sinks, self._observer = state, sinks, observer
        self.warn, self.notice, self.video = sinks.warn, sinks.notice, sinks.video
        self.asked_to_stop = False
        sinks.follow(state.pulse)

    def row(self, row: Row, record: Mapping[str, Any] | None = None) -> None:
        """A row, the alerts that follow from it, and diagnostics where there are any."""
        step = self._state.counters.env_steps
        alerts = self._state.alerts.check(row)
        self._sinks.write(step, row)
        self._sinks.report(step, alerts, record)
        if self._observer is not None:
            self.asked_to_stop |= self._observer(dict(row)) is False

    def checkpoint(self, names: list[str], seconds: float) -> None:
        self._sinks.checkpoint(self._state.counters.env_steps, names, seconds)


def make_row(state: TrainState) -> Row:
    """All there is to say about this moment, by the names of the metric catalogue."""
    counters, rollout = state.counters, state.rollout
    if state.collector.cut:  # nothing new was learned: there is only what evaluations found
        state.meter.put(_position(state) | {"time/elapsed": state.clock.elapsed})
        return state.meter.row()
    statistics = {name: rollout[name].numpy() for name in ("reward", "action", "value", "advantage")}
    statistics["return"] = rollout["returns"].numpy()
    statistics["obs"] = np.concatenate([sample(obs.numpy()) for obs in rollout.obs.values()])
    values: dict[str, Any] = {}
    for name, numbers in statistics.items():
        values[f"rollout/{name}_mean"], values[f"rollout/{name}_std"] = mean_and_std(numbers)
    rewarded = int(rollout["reward"].count_nonzero())
    values["rollout/reward_nonzero_fraction"] = rewarded / rollout.size
    if rewarded:
        values["rollout/samples_per_reward"] = rollout.size / rewarded
    if (std := state.agent.std()) is not None:
        values["train/std"] = std
    rates = state.clock.report(counters.env_steps, counters.updates)
    state.meter.put(values | _position(state) | {"time/frames": counters.frames} | rates)
    return state.meter.row()


def late_row(state: TrainState, values: Row) -> Row:
    """A row for a result on an earlier moment alone: rows of training do not depend on when one arrives."""
    return catalogue().sort(_position(state) | {"time/elapsed": state.clock.elapsed} | values)


def moment(state: TrainState) -> Row:
    """What is known between two rows, for a checkpoint that cannot wait for the next one."""
    known = {name: _position(state)[name] for name in ("time/total_timesteps", "time/updates")}
    return state.meter.peek() | known | {"time/elapsed": state.clock.elapsed}


def price_line(result: EvalResult, most: int) -> str:
    """Why there is no verdict on an agent whose evaluation reaches a goal."""
    assert result.price is not None
    return (
        f"no verdict on the agent of step {result.request.step:,}: its evaluation is so little above the goal that a "
        f"verdict would take {number_of(result.price)} episodes or more (stop.max_episodes: {most:,}); training goes on"
    )


def number_of(price: float) -> str:
    """1,400: no more digits than a guess has."""
    return "endlessly many" if not math.isfinite(price) or price > 1e6 else f"{float(f'{price:.2g}'):,.0f}"


def stage_line(state: TrainState) -> str:
    """Which stage begins."""
    stages, here = list(state.config.stages), state.counters.stage
    return f"stage {here + 1} of {len(stages)}: {stages[here]}, from step {state.counters.stage_began:,} on"


def _position(state: TrainState) -> Row:
    counters = state.counters
    position = {
        "time/total_timesteps": float(counters.env_steps),
        "time/vec_steps": float(counters.vec_steps),
        "time/updates": float(counters.updates),
        "time/progress": state.progress,
        "solved": float(state.judge.record.solved),
    } | ({"on_target": float(state.judge.record.on_target)} if state.judge.target is not None else {})
    return position | {"time/stage": counters.stage + 1.0} if state.config.stages else position


def mean_and_std(numbers: NDArray[Any]) -> tuple[float, float]:
    """In float64, whatever they come in; half the time of NumPy's own for few numbers."""
    values = numbers.astype(np.float64).ravel()
    mean = float(values.sum()) / len(values)
    values -= mean
    return mean, math.sqrt(float(values.dot(values)) / len(values))


def sample(obs: NDArray[Any]) -> NDArray[np.float32]:
    """Numbers of a leaf for its statistics: all of them, or those of evenly spaced rows where they are pictures."""
    rows = obs.reshape(-1, *obs.shape[2:])
    most = max(1, OBS_NUMBERS // max(1, rows[0].size))
    return rows[:: -(-len(rows) // most)].astype(np.float32).ravel()
