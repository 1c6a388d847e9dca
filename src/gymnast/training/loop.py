"""THE loop. This file alone decides what happens in which order; nothing calls back into it."""

from __future__ import annotations

import math
import signal
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from gymnast.judge.background import Examiner
from gymnast.judge.evaluate import Verdict
from gymnast.judge.when import judge_best, judged_at_the_end, look_due, out_of_budget, take_report
from gymnast.metrics.catalogue import catalogue
from gymnast.play.step_table import rollout_steps, step_table
from gymnast.rl.collector import collect
from gymnast.rl.returns import gae
from gymnast.runs import checkpoint
from gymnast.training.diagnostics import diagnose, diagnosis_due
from gymnast.training.state import Frozen, Session, freeze, next_multiple, save_session
from gymnast.video.maker import VideoMaker

if TYPE_CHECKING:
    from gymnast.sinks import SinkGroup

Row = dict[str, float]
OBS_NUMBERS = 1_000_000  # of a leaf, that a row's mean and deviation are taken from
Observer = Callable[[Row], None]


@dataclass(frozen=True)
class Result:
    """How a run ended."""

    env_steps: int
    seconds: float
    fps: float
    stop_reason: str  # solved, steps, seconds, plateau or interrupted
    verdict: Verdict | None  # the last one; None where none was asked for, or the run was interrupted before any

    @property
    def solved(self) -> bool:
        return self.verdict is not None and self.verdict.solved


def train(
    session: Session,
    sinks: SinkGroup | None = None,
    checkpoints: Path | None = None,
    observer: Observer | None = None,
    videos: Path | None = None,
) -> Result:
    """Trains until a stop rule says so. `observer` is shown a copy of every row; it cannot change anything."""
    config, counters, meter, clock = session.config, session.counters, session.meter, session.clock
    started_at, elapsed_before = counters.env_steps, clock.elapsed
    verdict: Verdict | None = None
    clock.start(counters.env_steps, counters.updates)
    saved_at = clock.elapsed
    warn = warnings.warn if sinks is None else sinks.warn

    def tell(row: Row, record: dict[str, Any] | None = None) -> None:
        alerts = session.alerts.check(row)
        if sinks is not None:
            sinks.write(counters.env_steps, row)
            sinks.report(counters.env_steps, alerts, record)
        if observer is not None:
            observer(dict(row))

    def notice(text: str) -> None:
        if sinks is not None:
            sinks.notice(text)

    def made_video(step: int, path: Path) -> None:
        if sinks is not None:
            sinks.video(step, path)

    with (
        interrupts() as interrupted,
        Examiner(session, warn) as examiner,
        VideoMaker(session, videos, warn, notice, made_video) as maker,
    ):
        while True:
            # Collect: every env steps n_steps times, nothing is lost between two rollouts.
            session.now, episodes = collect(
                session.env,
                session.agent,
                session.rollout,
                session.now,
                session.starts,
                session.generator,
                clock.lap,
            )
            counters.env_steps += session.rollout.size
            counters.vec_steps += session.rollout.n_steps
            counters.frames += sum(episode.frames for episode in episodes)
            meter.episodes(episodes)

            # Learn.
            prepare_returns(session)
            clock.lap("returns")
            meter.add(session.learner.update(session.rollout, session.progress))
            counters.updates += 1
            if session.agent.normalizer is not None:  # it stands still while a rollout is collected and learned from
                session.agent.normalizer.update({key: obs.flatten(0, 1) for key, obs in session.rollout.obs.items()})
            clock.lap("update")

            # Judge: at once, or in the background a frozen copy of this moment, whose report comes some rounds later.
            stop: str | None = None
            new_best = False
            look = look_due(session)
            later = look is not None and examiner.later(session)
            for report, frozen in examiner.reports(session, None if later else look):
                values, best = take_report(session, report, frozen)
                verdict = report.verdict or verdict
                if frozen is None:
                    meter.put(values)
                    new_best = best
                else:
                    tell(late_row(session, values))
                    if best and checkpoints is not None:
                        save_frozen(session, frozen, checkpoints / "best.safetensors", values)
                if report.solved and config.stop.on_solved:
                    stop = "solved"
                if stop or out_of_budget(session) == "plateau":
                    break
            if stop is None and (stop := out_of_budget(session)) and judged_at_the_end(config):
                verdict, values = judge_best(session)
                meter.put(values)
            clock.lap("eval")

            # Tell. Diagnostics and alerts look at what is there and change nothing.
            row: Row | None = None
            evaluated = look is not None and look.evaluation is not None
            if counters.updates == 1:
                meter.put({"rollout/initial_entropy": -session.rollout.logp.mean()})
            record = diagnose(session) if diagnosis_due(session, ending=stop is not None) else None
            clock.lap("diagnostics")
            if counters.env_steps >= counters.next_row or evaluated or stop or record is not None:
                row = make_row(session)
                counters.next_row = next_multiple(counters.env_steps, config.log_every)
                tell(row, record)
            clock.lap("log")

            # Keep. An interruption comes last, so that a run which goes on later has missed nothing of this round.
            stop = stop or ("interrupted" if interrupted() else None)
            names = checkpoint_names(session, new_best, stop is not None, clock.elapsed - saved_at)
            if later and look is not None and stop in (None, "interrupted"):
                examiner.hand_over(session, freeze(session, look, moment(session) if row is None else row))
            if checkpoints is not None and names:
                begun = clock.elapsed
                save_checkpoint(session, checkpoints, names, moment(session) if row is None else row)
                saved_at = clock.elapsed
                if sinks is not None:
                    sinks.checkpoint(counters.env_steps, names, saved_at - begun)
            maker.update(session)
            clock.lap("log")

            if stop is not None:
                break
        seconds = clock.elapsed
        maker.finish(interrupted)

    fps = (counters.env_steps - started_at) / (seconds - elapsed_before)
    return Result(counters.env_steps, seconds, fps, stop, verdict)


def prepare_returns(session: Session) -> None:
    """The learner's reward (scaled, clipped, normalised; scores are recorded elsewhere) and its advantages."""
    rollout, settings = session.rollout, session.config.env.reward
    rollout.reward.mul_(settings.scale)
    cut: Tensor | None = None
    if settings.clip is not None:
        cut = rollout.reward.abs() > settings.clip
        rollout.reward.clamp_(-settings.clip, settings.clip)
    if session.agent.reward_normalizer is not None:
        scaled = session.agent.reward_normalizer.update_and_scale(rollout.reward, rollout.ended, session.reward_carry)
        rollout.reward.copy_(scaled)
        at_limit = rollout.reward.abs() >= session.config.agent.clip_reward
        cut = at_limit if cut is None else cut | at_limit
    if cut is not None:
        session.meter.add({"rollout/reward_cut_fraction": int(cut.count_nonzero()) / rollout.size})
    advantage, returns = gae(
        rollout.reward,
        rollout.value,
        rollout.last_value,
        rollout.final_value,
        rollout.terminated,
        rollout.truncated,
        session.config.algo.gamma,
        session.config.algo.gae_lambda,
    )
    rollout.advantage.copy_(advantage)
    rollout.returns.copy_(returns)


def make_row(session: Session) -> Row:
    """All there is to say about this moment, by the names of the metric catalogue."""
    counters, rollout, clock = session.counters, session.rollout, session.clock
    statistics = {
        "reward": rollout.reward.numpy(),
        "action": rollout.action.numpy(),
        "value": rollout.value.numpy(),
        "advantage": rollout.advantage.numpy(),
        "return": rollout.returns.numpy(),
        "obs": np.concatenate([sample(obs.numpy()) for obs in rollout.obs.values()]),
    }
    values: dict[str, Any] = {}
    for name, numbers in statistics.items():
        values[f"rollout/{name}_mean"], values[f"rollout/{name}_std"] = mean_and_spread(numbers)
    rewarded = int(rollout.reward.count_nonzero())
    values["rollout/reward_nonzero_fraction"] = rewarded / rollout.size
    if rewarded:
        values["rollout/samples_per_reward"] = rollout.size / rewarded
    if (std := session.agent.std()) is not None:
        values["train/std"] = std
    session.meter.put(
        values
        | {
            "time/total_timesteps": counters.env_steps,
            "time/vec_steps": counters.vec_steps,
            "time/frames": counters.frames,
            "time/updates": counters.updates,
            "time/progress": session.progress,
            "solved": float(counters.solved),
            **clock.report(counters.env_steps, counters.updates),
        }
    )
    return session.meter.row()


def late_row(session: Session, values: Row) -> Row:
    """A row for a report on an earlier moment alone: rows of training do not depend on when one arrives."""
    counters = session.counters
    now = {
        "time/total_timesteps": float(counters.env_steps),
        "time/vec_steps": float(counters.vec_steps),
        "time/updates": float(counters.updates),
        "time/progress": session.progress,
        "time/elapsed": session.clock.elapsed,
        "solved": float(counters.solved),
    }
    return catalogue().sort(now | values)


def moment(session: Session) -> Row:
    """What is known between two rows, for a checkpoint that cannot wait for the next one."""
    return session.meter.peek() | {
        "time/total_timesteps": float(session.counters.env_steps),
        "time/updates": float(session.counters.updates),
        "time/elapsed": session.clock.elapsed,
    }


def mean_and_spread(numbers: NDArray[Any]) -> tuple[float, float]:
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


def checkpoint_names(session: Session, new_best: bool, ending: bool, age: float) -> list[str]:
    """Which checkpoints this moment deserves."""
    counters, settings = session.counters, session.config.train
    names = ["best"] if new_best else []
    if settings.checkpoint_every and counters.env_steps >= counters.next_kept:
        names.append(f"step_{counters.env_steps}")
        counters.next_kept = next_multiple(counters.env_steps, settings.checkpoint_every)
    if names or ending or age >= settings.checkpoint_seconds:
        names.append("last")
    return names


def save_checkpoint(session: Session, folder: Path, names: list[str], row: Row) -> None:
    """`last` is overwritten all the time; those that stay get a table of the steps before them."""
    tensors, state = save_session(session)
    kept = any(name != "last" for name in names)
    table = step_table(session.agent, rollout_steps(session.rollout), session.labels).to_csv() if kept else None
    for name in names:
        checkpoint.save(folder / f"{name}.safetensors", tensors, state, row, table if name != "last" else None)


def save_frozen(session: Session, frozen: Frozen, path: Path, values: Row) -> None:
    """An earlier moment, with what is known of it by now: the file that would have been written then and there."""
    judged = ("verdicts", "next_verdict", "best_score", "best_at", "since_best", "solved")
    counters = frozen.state["counters"] | {name: getattr(session.counters, name) for name in judged}
    best = {f"best/{name}": tensor for name, tensor in frozen.agent.items()}
    row = frozen.row | values | {"solved": float(session.counters.solved)}
    state = frozen.state | {"counters": counters, "frozen": []}
    checkpoint.save(path, frozen.tensors | best, state, row, frozen.steps)


@contextmanager
def interrupts() -> Iterator[Callable[[], bool]]:
    """Turns the first Ctrl-C or SIGTERM into a flag, read once an update; a second one acts as it always does."""
    flag = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield flag.is_set
        return
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}

    def restore() -> None:
        for number, handler in before.items():
            signal.signal(number, handler)

    def on_signal(number: int, frame: FrameType | None) -> None:
        flag.set()
        restore()

    for number in before:
        signal.signal(number, on_signal)
    try:
        yield flag.is_set
    finally:
        restore()
