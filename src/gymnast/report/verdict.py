"""What a run came to: solved or not, how surely, and how it ended."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from gymnast import config as configs
from gymnast.report.run_facts import BEST, EVALUATION, RETURN, RunFacts

STOPS = {
    "solved": "a verdict on fresh episodes says solved",
    "target": "a verdict on fresh episodes says that the target is reached",
    "callback": "a callback asked for it",
    "steps": "the step budget is used up",
    "seconds": "the time budget is used up",
    "plateau": "evaluations no longer improve",
    "interrupted": "by the user; `resume` goes on from the last checkpoint",
}


@dataclass(frozen=True)
class Verdict:
    """None: there is none."""

    headline: str  # SOLVED, NOT SOLVED, NOT JUDGED, DONE, STILL TRAINING, INTERRUPTED, KILLED or CRASHED
    solved: bool | None
    threshold: float | None
    target: float | None = None
    on_target: bool | None = None
    score: float | None = None  # of fresh episodes
    low: float | None = None  # the 95 % interval of its mean
    high: float | None = None
    episodes: int | None = None
    measured_on: str = ""  # how many episodes these were
    policy: str | None = None
    agent: str | None = None  # that the score is of
    evaluated_on: str | None = None  # the env of the scores, where it is not the one of training
    exact_value: float | None = None  # by the env's transition table
    optimum: float | None = None
    regret: float | None = None
    best_evaluation: float | None = None
    best_kind: str | None = None  # what that number is: an evaluation's mean, an exact value or the mean of a verdict
    training_return: float | None = None
    stopped: str | None = None


RELATIVE = "the worst task, relative to its threshold"  # what the score of a run with several tasks is


def task_lines(summary: Mapping[str, Any]) -> dict[str, str]:
    """How each of several tasks ended, in its env's own reward."""
    lines: dict[str, str] = {}
    for name, task in (summary.get("tasks") or {}).items():
        if task["score"] is None:
            continue
        said = f"{task['score']:,.2f}"
        if task["interval"]:
            said += "  95% interval {:,.2f} to {:,.2f}".format(*task["interval"])
        said += (
            f"  {task['episodes']} episodes, {'solved' if task['solved'] else 'not solved'} at {task['threshold']:g}"
        )
        lines[f"task {name}"] = said
    return lines


def episodes_text(summary: Mapping[str, Any]) -> str:
    """100 fresh episodes, 28 of them distinct"""
    episodes, distinct = summary["episodes"], summary.get("distinct")
    kind = f"episode{'s' * (episodes != 1)}"
    said = f"{episodes:,} {kind} of the verdict" if summary.get("fresh") is False else f"{episodes:,} fresh {kind}"
    if not distinct or distinct >= episodes or summary.get("exact_value") is not None:
        return said  # where the exact value is known, nothing depends on them
    return f"{said}, all of them the same" if distinct == 1 else f"{said}, {distinct:,} of them distinct"


def test_lines(summary: Mapping[str, Any]) -> dict[str, str]:
    """What the test came to, and what it assumes."""
    tasks = {f" of {name}": task.get("test") for name, task in (summary.get("tasks") or {}).items()}
    lines: dict[str, str] = {}
    for name, test in (tasks or {"": summary.get("test")}).items():
        if test is not None:
            result = "show a mean above" if test["shown"] else "do not show a mean above"
            said = f"{_which(test, summary)}, with a mean of {test['mean']:,.2f}, {result} {test['goal']:g}"
            lines |= {f"test{name}": said, f"assumes{' for' * bool(name)}{name[3:]}": assumption_text(test)}
    return lines


def _which(test: Mapping[str, Any], summary: Mapping[str, Any]) -> str:
    """Which episodes the test was made on: of a run, others than those of the score."""
    number, plural = f"{test['episodes']:,}", "s" * (test["episodes"] != 1)
    if summary.get("stop_reason") is not None and summary.get("fresh") is not False:
        return f"{number} other episode{plural}"
    if test["episodes"] == summary["episodes"]:
        return f"these {number} episode{plural}"
    return f"the first {number} episode{plural}"


def assumption_text(test: Mapping[str, Any]) -> str:
    """Which returns a test assumes, and what its episodes could not show."""
    lowest = f"every return is at least {test['lowest_return']:,.4g}"
    if test["lowest_return_known"]:
        return f"{lowest}, the lowest that the env allows"
    guess = f"{lowest}, a guess from the returns so far: set stop.lowest_return if you know it"
    rare = 1 / test["unseen_failure_rate"]
    if rare < 10:  # so few episodes exclude nothing
        return guess
    return f"{guess}. Failures rarer than 1 in {rare:,.0f} episodes were not tested"


def judge(facts: RunFacts) -> Verdict:
    latest, summary = facts.latest, facts.summary
    low, high = summary.get("interval") or (latest.get("verdict/low"), latest.get("verdict/high"))
    exact, regret = latest.get("verdict/exact_value"), latest.get("verdict/regret")
    config, headline = facts.config, _headline(facts)
    stopped = summary.get("stop_reason")
    episodes = summary.get("episodes") or latest.get("verdict/episodes")
    return Verdict(
        headline=headline,
        solved=None if headline == "NOT JUDGED" else facts.solved,
        threshold=facts.threshold,
        target=facts.goal,
        on_target=facts.on_target,
        score=_first(summary.get("eval_mean"), latest.get("verdict/mean")),
        low=low,
        high=high,
        episodes=None if episodes is None else int(episodes),
        measured_on=episodes_text({**summary, "episodes": int(episodes)}) if episodes else "",
        policy=None if config is None else config.stop.judge,
        agent=agent_text(summary) or None,
        evaluated_on=facts.evaluated_on,
        exact_value=_first(summary.get("exact_value"), exact),
        optimum=_first(
            summary.get("optimum"), None if exact is None or regret is None else exact + regret, _best(facts)
        ),
        regret=_first(summary.get("regret"), regret),
        best_evaluation=latest.get(BEST),
        best_kind=facts.best_kind,
        training_return=latest.get(RETURN),
        stopped=None if stopped is None else stop_text(stopped),
    )


def stop_text(reason: str) -> str:
    return STOPS.get(reason, reason)


def goal_text(goal: float | None, reached: bool | None) -> str:
    return "" if goal is None else f"{goal:g}, {'reached' if reached else 'not reached'}"


def agent_text(summary: Mapping[str, Any]) -> str:
    """Which agent the score is of, and what the last one is worth."""
    best_at, last_at, last = (summary.get(key) for key in ("best_at", "last_at", "last_score"))
    if not best_at:
        return ""
    agent = f"the best, at {best_at:,} steps"
    if last is not None and last_at != best_at:
        agent += f"; the last evaluation, at {last_at:,}: {last:,.2f}"
    return agent


def _first(*values: Any) -> Any:
    return next((value for value in values if value is not None), None)


def _best(facts: RunFacts) -> float | None:
    """The best possible mean return as the preset states it, where it holds for the env of this run."""
    config = facts.config
    known = None if config is None or config.tasks else configs.scored_facts(config, facts.env_facts)
    return (
        None if known is None or config is None or not known.hold_for(config.in_stage(-1).eval_env) else known.optimum
    )


def _headline(facts: RunFacts) -> str:
    status = facts.info.status
    if status == "running":
        return "STILL TRAINING"
    if facts.solved:
        return "SOLVED"
    if status in ("interrupted", "killed", "crashed"):
        return status.upper()
    if facts.threshold is None:
        return "DONE"
    judged = facts.summary.get("eval_mean") is not None or "verdict/mean" in facts.latest
    return "NOT SOLVED" if judged else "NOT JUDGED"


def meaning(verdict: Verdict, facts: RunFacts) -> list[str]:
    """What the numbers say, and what they do not."""
    said = []
    threshold, score, low, high = verdict.threshold, verdict.score, verdict.low, verdict.high
    goal = "the threshold of every task" if facts.summary.get("tasks") else f"the threshold of {threshold or 0:g}"
    if score is None:
        said.append(_without_a_verdict(verdict, facts))
    elif threshold is None:
        said.append("No threshold is known for this env: the score is for comparing.")
    elif verdict.exact_value is not None:
        side = "at or above" if verdict.exact_value >= threshold else "below"
        said.append(f"The exact value decides: it is {side} the threshold of {threshold:g}.")
    elif verdict.solved:
        said.append(
            f"A test showed a mean above {goal}, with an error of at most 5 % of runs. "
            + (
                "The score is that of the test's own episodes, since the run went on after it."
                if facts.summary.get("fresh") is False
                else "The score comes from other episodes."
            )
        )
    elif low is not None and high is not None:
        if high < threshold:
            said.append(f"The whole interval lies below {goal}: evaluating more episodes would not change that.")
        else:
            said.append(f"That the mean is above {goal} could not be shown.")
    if verdict.target is not None:
        said.append(f"Target: {goal_text(verdict.target, verdict.on_target)}.")
    training = None if verdict.evaluated_on else verdict.training_return
    if verdict.solved is False and threshold is not None and training is not None and training >= threshold:
        said.append("Training episodes reach the threshold: sampled actions may do better than the greedy ones.")
    if facts.info.status == "killed":
        said.append("Its process ended without a word: what came after the last checkpoint is lost.")
    return said


def _without_a_verdict(verdict: Verdict, facts: RunFacts) -> str:
    if not facts.rows:
        return "No metrics yet."
    if verdict.best_evaluation is None:
        return "Never evaluated: only training returns are known, and these are of changing agents that explore."
    steps = facts.curve(EVALUATION)
    kind = "" if verdict.best_kind == "evaluation" else f" ({verdict.best_kind})"
    best = f"the best {verdict.best_evaluation:,.2f}{kind}"
    return f"No verdict yet: {len(steps)} evaluation{'s' * (len(steps) > 1)}, {best}."
