"""THE loop. This file alone decides what happens in which order; nothing calls back into it."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from gymnast.core.pulse import DONE, BrokenOff
from gymnast.core.seeds import derive_seed
from gymnast.judge.judge import SOON
from gymnast.judge.verdict import Verdict
from gymnast.training.diagnostics import diagnose
from gymnast.training.keep import Keeper
from gymnast.training.rows import Observer, Reporter, Row, late_row, make_row, moment, price_line, stage_line
from gymnast.training.state import TrainState, snapshot
from gymnast.video.maker import VideoMaker

if TYPE_CHECKING:
    from gymnast.sinks import SinkGroup


@dataclass(frozen=True)
class Result:
    """How a run ended."""

    env_steps: int
    seconds: float
    fps: float
    stop_reason: str  # solved, target, steps, seconds, plateau, callback or interrupted
    solved: bool  # a verdict has shown that an agent of this run exceeds the threshold: the best one
    on_target: bool  # the same of stop.target
    verdict: Verdict | None  # the last one; None where none was asked for, or the run was interrupted before any


def train(
    state: TrainState,
    sinks: SinkGroup | None = None,
    checkpoints: Path | None = None,
    observer: Observer | None = None,
    videos: Path | None = None,
) -> Result:
    """Trains until a stop rule says so."""
    state.renew_net()
    config, counters, meter, clock, pulse = state.config, state.counters, state.meter, state.clock, state.pulse
    collector, learner, rollout, judge = state.collector, state.learner, state.rollout, state.judge
    started_at, elapsed_before = counters.env_steps, clock.elapsed
    verdict: Verdict | None = None
    if collector.cut:  # steps of a rollout that nothing was learned from lie between these episodes and the agent
        state.restart_episodes(derive_seed(config.train.seed, "cut", counters.updates))
    clock.start(counters.env_steps, counters.updates)
    pulse.start(counters.env_steps, elapsed_before, config.stop.seconds)
    reporter, keeper = Reporter(state, sinks, observer), Keeper(state, checkpoints)

    with pulse.listening(), state.judging(reporter.warn), closing(VideoMaker(state, videos, reporter)) as maker:
        while True:
            # Next stage, where the last round has ended one: its envs, from fresh episodes.
            if counters.advancing:
                state.advance()
                judge = state.judge
                reporter.notice(stage_line(state))

            resumed = counters.unjudged  # in the middle of a round: its rollout is there and learned from
            # Collect: every env steps n_steps times, nothing is lost between two rollouts. Nothing is learned from one
            # that the time limit cuts.
            if not resumed:
                pulse.begin("collecting", rollout.n_steps, rollout.n_envs, counters.env_steps)
                episodes = collector.fill(rollout, clock.lap)
                for line in collector.take_warnings():
                    reporter.warn(line)
            if not resumed and not collector.cut:
                counters.env_steps += rollout.size
                counters.vec_steps += rollout.n_steps
                counters.frames += sum(episode.frames for episode in episodes)
                meter.episodes(episodes)
                meter.put(collector.measured())
                judge.watch(episodes)

                # Learn.
                pulse.begin("learning", step=counters.env_steps)
                meter.add(learner.targets(rollout))
                clock.lap("returns")
                meter.add(learner.update(rollout, state.progress))
                meter.add(learner.after(rollout, pulse))
                counters.updates += 1
                clock.lap("update")

            # Judge: at once, or in the background a copy of this moment, whose result comes some rounds later. Ctrl-C
            # and the time limit break it off.
            stop: str | None = None
            new_best = False
            scores = meter.train_score(), meter.train_score(SOON)
            request, later = judge.begin(counters.env_steps, *scores, state.ending, again=resumed)
            try:
                while stop is None and (found := judge.poll(state.ending)) is not None:
                    result, copy = found
                    values, best = judge.take(result, copy)
                    verdict = result.verdict or verdict
                    if result.price is not None:
                        reporter.notice(price_line(result, config.stop.max_episodes))
                    if copy is None:
                        meter.put(values)
                        new_best = best
                    else:
                        reporter.row(late_row(state, values))
                        if best:
                            keeper.save_best(copy, values)
                    if config.stop.on_solved and result.verdict and result.verdict.shown and judge.is_done:
                        stop = "solved" if judge.target is None else "target"
                    if state.out_of_budget == "plateau":
                        break
                if stop is None and (stop := state.out_of_budget) and judge.judges_at_the_end:
                    verdict, values = judge.finish(counters.env_steps)
                    meter.put(values)
                if stop is None and state.stage_over:
                    meter.put(judge.end_stage(counters.env_steps))
                    counters.advancing = True
            except BrokenOff:
                stop = "interrupted" if pulse.stopping else "seconds"
            counters.unjudged = stop == "interrupted"
            pulse.begin("saving")
            clock.lap("eval")

            # Report. Diagnostics and alerts look at what is there and change nothing.
            row: Row | None = None
            if not counters.unjudged:
                if counters.updates == 1 and not collector.cut:
                    meter.put({"rollout/initial_entropy": -rollout["logp"].mean()})
                due = state.diagnoses.due(counters.env_steps, ending=stop is not None) and not collector.cut
                record = diagnose(state) if due else None
                clock.lap("diagnostics")
                evaluated = request is not None and request.evaluation is not None
                if state.rows.due(counters.env_steps) or evaluated or stop or counters.advancing or record is not None:
                    row = make_row(state)
                    state.rows.done(counters.env_steps)
                    reporter.row(row, record)
                clock.lap("log")

            # Keep. An interruption comes last, so that a run which goes on later has missed nothing of this round.
            stop = stop or ("interrupted" if pulse.stopping else "callback" if reporter.asked_to_stop else None)
            names = keeper.due(new_best, ending=stop is not None)
            if later and request is not None and stop in (None, "interrupted", "callback") and not counters.advancing:
                judge.hand_over(snapshot(state, request, moment(state) if row is None else row))
            keeper.save(names, row, reporter)
            maker.update(state)
            clock.lap("log")

            if stop is not None:
                break
        seconds = clock.elapsed
        pulse.begin(DONE)
        maker.finish(lambda: pulse.stopping)

    fps = (counters.env_steps - started_at) / (seconds - elapsed_before)
    return Result(counters.env_steps, seconds, fps, stop, judge.record.solved, judge.record.on_target, verdict)
