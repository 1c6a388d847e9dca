"""The end of a run whose process was killed between its last checkpoint and its end: what it would have done itself."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing, suppress
from typing import TYPE_CHECKING, Any

from gymnast.runs.checkpoint import Checkpoint
from gymnast.runs.folder import Run
from gymnast.sinks import SinkGroup
from gymnast.sinks.base import Sink
from gymnast.sinks.jsonl import JsonlSink, read_metrics
from gymnast.training.build import build
from gymnast.training.record import report, summary_of
from gymnast.training.rows import Reporter
from gymnast.training.state import restore
from gymnast.video.maker import VideoMaker

if TYPE_CHECKING:
    from gymnast.training.state import TrainState

Say = Callable[[str], None]


class Notices(Sink):
    """What videos have to say, for the log and for whoever waits for them."""

    def __init__(self, note: Say) -> None:
        self._note = note

    def notice(self, text: str) -> None:
        self._note(text)


def finish_run(run: Run, saved: Checkpoint, updated: str | None = None, say: Say = lambda text: None) -> None:
    """Summary, with the verdict of the last row that has one; the videos that are missing; the report. Nothing is
    trained or evaluated. `updated`: when the run was last changed as its checkpoint was read."""

    def note(text: str) -> None:
        with suppress(OSError):
            run.log(text)
        say(text)

    session = build(saved.config, saved.threshold)
    try:
        restore(session, saved.tensors, saved.state)
        run.start(updated)  # from here on nobody else may change its files
        step = session.counters.env_steps
        JsonlSink.truncate(run.metrics_path, step)
        JsonlSink.truncate(run.diagnostics_path, step)
        note(f"{run.id} had nothing left to train at {step:,} steps: its summary, videos and report are made")
        ended = summary_at_the_end(run, session, saved.state.get("stop_reason"))
        try:
            make_missing_videos(run, session, note)
        finally:  # Ctrl-C does without videos
            run.finish("finished", ended)
            report(run)
    finally:
        session.close()


def summary_at_the_end(run: Run, session: TrainState, reason: str | None) -> dict[str, Any]:
    """`reason`: why it stopped; None: its checkpoint is of an earlier version, which did not say."""
    rows = read_metrics(run.metrics_path)
    said = next((row for row in reversed(rows) if "verdict/mean" in row), None)
    record, stop = session.judge.record, session.config.stop
    stopped = stop.on_solved and (record.on_target or (record.solved and stop.target is None))
    seconds, steps = session.clock.elapsed, session.counters.env_steps
    ended = {
        "seconds": round(seconds, 3),
        "fps": round(steps / seconds, 1) if seconds else 0.0,
        "solved": record.solved,
        "on_target": record.on_target,
        "interval": None,
        "episodes": 0,
        "distinct": 0,
        "fresh": None,
        "exact_value": None,
        "optimum": None,
        "regret": None,
        "stop_reason": reason or (("solved" if stop.target is None else "target") if stopped else "steps"),
    }
    return summary_of(session, None) | ended | ({} if said is None else verdict_of(said))


def verdict_of(row: dict[str, float]) -> dict[str, Any]:
    mean, value, regret = row["verdict/mean"], row.get("verdict/exact_value"), row.get("verdict/regret")
    return {
        "eval_mean": mean,
        "score": mean,
        "interval": [row["verdict/low"], row["verdict/high"]],
        "episodes": int(row["verdict/episodes"]),
        "distinct": int(row.get("verdict/distinct", 0)),
        "fresh": bool(row.get("verdict/fresh", 1)),
        "exact_value": value,
        "regret": regret,
        "optimum": None if value is None or regret is None else value + regret,
    }


def make_missing_videos(run: Run, session: TrainState, note: Say) -> None:
    reporter = Reporter(session, SinkGroup([Notices(note)], note), None)
    with session.pulse.listening(), closing(VideoMaker(session, run.videos_dir, reporter)) as maker:
        maker.update(session)
        maker.finish(lambda: session.pulse.stopping)
