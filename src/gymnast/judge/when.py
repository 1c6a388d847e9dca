"""When the agent is looked at, what is made of a report, and when a run has had enough."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from torch import Tensor

from gymnast.judge.evaluate import Verdict
from gymnast.judge.verdict import Look, Report, examine, judge
from gymnast.training.state import Frozen, Session, next_multiple

if TYPE_CHECKING:
    from gymnast.config import RunConfig

Row = dict[str, float]


def out_of_budget(session: Session) -> str | None:
    """The stop rule that applies now, other than solved."""
    stop, counters = session.config.stop, session.counters
    if counters.env_steps >= session.config.train.total_timesteps:
        return "steps"
    if stop.seconds is not None and session.clock.lapped >= stop.seconds:
        return "seconds"
    if stop.plateau is not None and counters.since_best >= stop.plateau.evals:
        return "plateau"
    return None


def judged_at_the_end(config: RunConfig) -> bool:
    """A run that neither evaluates nor asks whether it is solved does not pay for a verdict either."""
    return config.eval_every > 0 or config.stop.on_solved


def look_due(session: Session) -> Look | None:
    """The look that is due at this moment, if any, now counted as taken."""
    counters, config = session.counters, session.config
    train_score = session.meter.train_score()
    number = None
    if evaluation_due(session, train_score):
        number = counters.evaluations
        counters.evaluations += 1
        counters.next_evaluation = next_multiple(counters.env_steps, config.eval_every)
    watched, threshold = train_score if config.stop.watch == "train" else None, session.threshold
    reached = watched is not None and threshold is not None and watched >= threshold
    calls = reached and verdict_allowed(session)
    if calls:
        postpone_verdicts(session, counters.env_steps)
    return Look(counters.env_steps, number, calls) if number is not None or calls else None


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


def verdict_allowed(session: Session, look: Look | None = None) -> bool:
    """Not after one that said solved, and not twice between two evaluations."""
    counters = session.counters
    step = counters.env_steps if look is None else look.step
    return not counters.solved and (step >= counters.next_verdict or (look is not None and look.calls))


def postpone_verdicts(session: Session, step: int) -> None:
    """One was called for at that step: no other before the next evaluation is due."""
    every = session.config.eval_every or session.config.rollout_steps
    session.counters.next_verdict = max(session.counters.next_verdict, next_multiple(step, every))


def examine_now(session: Session, look: Look, weights: dict[str, Tensor] | None = None) -> Report:
    """Takes a look here, at the agent as it is or at an earlier copy of it."""
    verdicts = session.counters.verdicts if verdict_allowed(session, look) else None
    with earlier(session, weights):
        return examine(
            session.agent, session.eval_env, session.table, session.config, session.threshold, look, verdicts
        )


def judge_best(session: Session) -> tuple[Verdict, Row]:
    """The best agent of the run, which is the one a user will take."""
    counters = session.counters
    with earlier(session, session.best_agent):
        verdict = judge(
            session.agent, session.eval_env, session.table, session.config, session.threshold, counters.verdicts
        )
    row = take_verdict(session, verdict, counters.env_steps if session.best_agent is None else counters.best_at)
    postpone_verdicts(session, counters.env_steps)
    return verdict, row


@contextmanager
def earlier(session: Session, weights: dict[str, Tensor] | None) -> Iterator[None]:
    """The agent as it was; None: as it is."""
    current = {name: tensor.clone() for name, tensor in session.agent.state_dict().items()}
    if weights is not None:
        session.agent.load_state_dict(weights)
    try:
        yield
    finally:
        if weights is not None:
            session.agent.load_state_dict(current)


def take_report(session: Session, report: Report, frozen: Frozen | None) -> tuple[Row, bool]:
    """Books a report on an earlier moment, or on this one: what there is to tell, and whether it is the best so far."""
    weights = session.agent.state_dict() if frozen is None else frozen.agent
    counters, config, step = session.counters, session.config, report.look.step
    row: Row = {}
    new_best = False
    if report.policy is not None and report.score is not None:
        score, scores = report.score, report.scores[report.policy]
        margin = config.stop.plateau.min_delta if config.stop.plateau else 0.0
        improved = counters.best_score is None or score > counters.best_score + margin
        counters.since_best = 0 if improved else counters.since_best + 1
        # Of two equal samples the later agent is the likelier better one; of two equal exact values neither is.
        new_best = improved_on(counters.best_score, score, report.exact is not None)
        if new_best:
            keep_as_best(session, score, step, weights)
        row |= {
            "eval/step": float(step),
            "eval/mean_reward": scores.mean,
            "eval/std_reward": scores.std,
            "eval/mean_ep_length": float(scores.lengths.mean()),
            "eval/episodes": float(scores.episodes),
            "eval/seconds": report.seconds,
            "eval/best_mean_reward": score if counters.best_score is None else counters.best_score,
        }
        if report.exact is not None:
            row |= {"eval/exact_value": report.exact.value, "eval/regret": report.exact.regret}
        if "stochastic" in report.scores:
            row["eval/stochastic_mean_reward"] = report.scores["stochastic"].mean
            row["eval/stochastic_std_reward"] = report.scores["stochastic"].std
    if report.verdict is not None:
        row |= take_verdict(session, report.verdict, step)
        postpone_verdicts(session, step)
        if report.solved:
            keep_as_best(session, report.verdict.score, step, weights)
            new_best = True
    return row, new_best


def improved_on(best: float | None, score: float, is_exact: bool) -> bool:
    return best is None or score > best or (score == best and not is_exact)


def take_verdict(session: Session, verdict: Verdict, step: int) -> Row:
    """Books a verdict on the agent of that step; returns what there is to tell."""
    counters, scores = session.counters, verdict.evaluation
    counters.verdicts = verdict.attempts
    counters.solved = counters.solved or verdict.solved
    low, high = scores.interval()
    row = {
        "verdict/step": float(step),
        "verdict/mean": scores.mean,
        "verdict/low": low,
        "verdict/high": high,
        "verdict/episodes": float(scores.episodes),
        "verdict/attempts": float(verdict.attempts),
    }
    if verdict.exact is not None:
        row |= {"verdict/exact_value": verdict.exact.value, "verdict/regret": verdict.exact.regret}
    return row if verdict.threshold is None else row | {"verdict/threshold": verdict.threshold}


def keep_as_best(session: Session, score: float, step: int, weights: dict[str, Tensor]) -> None:
    session.counters.best_score, session.counters.best_at = score, step
    session.best_agent = {name: tensor.detach().clone() for name, tensor in weights.items()}
