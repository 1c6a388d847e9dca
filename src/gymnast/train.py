"""THE loop. This file alone decides what happens in which order; nothing calls back into it."""

from __future__ import annotations

import math
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from gymnast import checkpoint
from gymnast.diagnostics import diagnose, diagnosis_due
from gymnast.evaluate import Evaluation, Verdict, evaluate
from gymnast.exact import exact_score
from gymnast.rl.collect import collect
from gymnast.rl.returns import gae
from gymnast.rl.table import rollout_steps, step_table
from gymnast.runtime import derive_seed
from gymnast.session import Session, next_multiple, save_session

if TYPE_CHECKING:
    from gymnast.config import RunConfig
    from gymnast.metrics.sinks import SinkGroup

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
) -> Result:
    """Trains until a stop rule says so. `observer` is shown a copy of every row; it cannot change anything."""
    config, counters, meter, clock = session.config, session.counters, session.meter, session.clock
    started_at, elapsed_before = counters.env_steps, clock.elapsed
    verdict: Verdict | None = None
    clock.start(counters.env_steps, counters.updates)
    saved_at = clock.elapsed
    with interrupts() as interrupted:
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

            # Judge.
            stop: str | None = None
            train_score = meter.train_score()
            evaluated = evaluation_due(session, train_score)
            eval_score, new_best = evaluate_agent(session) if evaluated else (None, False)
            if verdict_due(session, eval_score, train_score):
                verdict = judge(session)
                if verdict.solved:
                    keep_as_best(session, verdict.score)
                    new_best = counters.solved = True
                    stop = "solved" if config.stop.on_solved else None
            if stop is None and (stop := out_of_budget(session)) and judged_at_the_end(config):
                verdict = judge_best(session)
                counters.solved = counters.solved or verdict.solved
            clock.lap("eval")

            # Tell. Diagnostics and alerts look at what is there and change nothing.
            row: Row | None = None
            if counters.updates == 1:
                meter.put({"rollout/initial_entropy": -session.rollout.logp.mean()})
            record = diagnose(session) if diagnosis_due(session, ending=stop is not None) else None
            clock.lap("diagnostics")
            if counters.env_steps >= counters.next_row or evaluated or stop or record is not None:
                row = make_row(session)
                alerts = session.alerts.check(row)
                counters.next_row = next_multiple(counters.env_steps, config.log_every)
                if sinks is not None:
                    sinks.write(counters.env_steps, row)
                    sinks.tell(counters.env_steps, alerts, record)
                if observer is not None:
                    observer(dict(row))
            clock.lap("log")

            # Keep. An interruption comes last, so that a run which goes on later has missed nothing of this round.
            stop = stop or ("interrupted" if interrupted() else None)
            if checkpoints is not None:
                names = checkpoint_names(session, new_best, stop is not None, clock.elapsed - saved_at)
                if names:
                    begun = clock.elapsed
                    save_checkpoint(session, checkpoints, names, moment(session) if row is None else row)
                    saved_at = clock.elapsed
                    if sinks is not None:
                        sinks.checkpoint(counters.env_steps, names, saved_at - begun)
            clock.lap("log")

            if stop is not None:
                break

    steps, seconds = counters.env_steps - started_at, clock.elapsed - elapsed_before
    return Result(counters.env_steps, clock.elapsed, steps / seconds, stop, verdict)


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


def out_of_budget(session: Session) -> str | None:
    """The stop rule that applies now, other than solved."""
    stop, counters = session.config.stop, session.counters
    if counters.env_steps >= session.config.train.total_timesteps:
        return "steps"
    if stop.seconds is not None and session.clock.elapsed >= stop.seconds:
        return "seconds"
    if stop.plateau is not None and counters.since_best >= stop.plateau.evals:
        return "plateau"
    return None


def judged_at_the_end(config: RunConfig) -> bool:
    """A run that neither evaluates nor asks whether it is solved does not pay for a verdict either."""
    return config.eval_every > 0 or config.stop.on_solved


def evaluation_due(session: Session, train_score: float | None) -> bool:
    """By env steps, not before the training return has reached `eval.start_level`; and always at the end."""
    settings = session.config.eval
    if session.config.eval_every == 0:
        return False
    if out_of_budget(session):
        return True
    if session.counters.env_steps < session.counters.next_evaluation:
        return False
    return settings.start_level is None or (train_score is not None and train_score >= settings.start_level)


def evaluate_agent(session: Session) -> tuple[float, bool]:
    """Scores the agent, greedy, stochastic or both; returns the score and whether it is the best so far.

    Where the env's transitions are a table, the score that decides is the exact value: it needs no luck.
    """
    config, counters = session.config, session.counters
    seed = derive_seed(config.train.seed, "eval", counters.evaluations)
    before = session.clock.elapsed
    scores: dict[str, Evaluation] = {}
    for policy in ("greedy", "stochastic"):
        if config.eval.policy in (policy, "both"):
            scores[policy] = evaluate(
                session.agent, session.eval_env, config.eval.episodes, seed, deterministic=policy == "greedy"
            )
    counters.evaluations += 1
    counters.next_evaluation = next_multiple(counters.env_steps, config.eval_every)
    judged = config.stop.judge if config.stop.judge in scores else next(iter(scores))
    score = scores[judged]
    exact = None if session.table is None else exact_score(session.agent, session.table, judged == "greedy")
    decisive = score.mean if exact is None else exact.value
    margin = config.stop.plateau.min_delta if config.stop.plateau else 0.0
    improved = counters.best_score is None or decisive > counters.best_score + margin
    counters.since_best = 0 if improved else counters.since_best + 1
    new_best = counters.best_score is None or decisive >= counters.best_score
    if new_best:
        keep_as_best(session, decisive)
    session.meter.put(
        {
            "eval/mean_reward": score.mean,
            "eval/std_reward": score.std,
            "eval/mean_ep_length": float(score.lengths.mean()),
            "eval/episodes": float(score.episodes),
            "eval/seconds": session.clock.elapsed - before,
            "eval/best_mean_reward": decisive if counters.best_score is None else counters.best_score,
        }
    )
    if exact is not None:
        session.meter.put({"eval/exact_value": exact.value, "eval/regret": exact.regret})
    if "stochastic" in scores:
        session.meter.put(
            {
                "eval/stochastic_mean_reward": scores["stochastic"].mean,
                "eval/stochastic_std_reward": scores["stochastic"].std,
            }
        )
    return decisive, new_best


def keep_as_best(session: Session, score: float) -> None:
    session.counters.best_score, session.counters.best_at = score, session.counters.env_steps
    session.best_agent = {name: tensor.detach().clone() for name, tensor in session.agent.state_dict().items()}


def verdict_due(session: Session, eval_score: float | None, train_score: float | None) -> bool:
    """When the watched score has reached the threshold: time to check on fresh episodes."""
    counters = session.counters
    score = eval_score if session.config.stop.watch == "eval" else train_score
    if session.threshold is None or score is None or counters.solved:
        return False
    return score >= session.threshold and counters.env_steps >= counters.next_verdict


def judge(session: Session) -> Verdict:
    """The agent as it is now, on episodes that no decision was based on."""
    config, counters = session.config, session.counters
    seed = derive_seed(config.train.seed, "verdict", counters.verdicts)
    counters.verdicts += 1
    counters.next_verdict = next_multiple(counters.env_steps, config.eval_every or config.rollout_steps)
    greedy = config.stop.judge == "greedy"
    scores = evaluate(session.agent, session.eval_env, config.stop.episodes, seed, deterministic=greedy)
    exact = exact_score(session.agent, session.table, greedy) if session.table is not None else None
    verdict = Verdict(scores, session.threshold, config.stop.judge, counters.verdicts, exact)
    low, high = scores.interval()
    values = {
        "verdict/mean": scores.mean,
        "verdict/low": low,
        "verdict/high": high,
        "verdict/episodes": float(scores.episodes),
        "verdict/attempts": float(counters.verdicts),
    }
    if exact is not None:
        values |= {"verdict/exact_value": exact.value, "verdict/regret": exact.regret}
    session.meter.put(values if session.threshold is None else values | {"verdict/threshold": session.threshold})
    return verdict


def judge_best(session: Session) -> Verdict:
    """The best agent of the run, which is the one a user will take."""
    current = {name: tensor.clone() for name, tensor in session.agent.state_dict().items()}
    if session.best_agent is not None:
        session.agent.load_state_dict(session.best_agent)
    verdict = judge(session)
    session.agent.load_state_dict(current)
    return verdict


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
