"""What to do with a run now: commands, each with a reason that this run gives."""

from __future__ import annotations

import math
import shlex
from typing import NamedTuple

from gymnast.alerts.alert import Alert
from gymnast.alerts.conditions import NO_RISE
from gymnast.alerts.text import kept_text, patch_text
from gymnast.config.files import is_preset, read_preset
from gymnast.config.layers import variant_names
from gymnast.core.machine import is_installed
from gymnast.core.statistics import rises
from gymnast.report.run_facts import EVALUATION, RETURN, UNFINISHED, RunFacts
from gymnast.runs.references import list_runs, runs_dir_option

ADVICE = 2  # changes that alerts advise
NAMED = 3  # alerts named for each
VIDEO = "av"  # the package that `gymnast video` needs
NEARLY = 0.1  # of what a run has gained, by which a threshold to aim at lies below its score
ENOUGH = 4  # scores to draw a line through


class NextStep(NamedTuple):
    command: str
    why: str


def next_steps(facts: RunFacts) -> list[NextStep]:
    token, where = facts.token, runs_dir_option(facts.run.path.parent)
    if facts.live:
        return [NextStep(f"gymnast runs show {token}{where}", "how far it is")]
    steps = [] if facts.solved else [*_goal(facts, where), *_advised(facts, where)]
    if facts.info.status in UNFINISHED and not facts.solved:
        steps = [*_again(facts, where), *steps]
    elif facts.solved:
        steps = [*(_again(facts, where) if facts.info.status == "killed" else ()), *_solved(facts, where)]
    else:
        steps += _unsolved(facts, where)
    if facts.run.checkpoints():
        steps.append(NextStep(f"gymnast eval {token}{where}", "score it on fresh episodes"))
    others = [run for run in list_runs(facts.run.path.parent) if run.env == facts.info.env and run.id != facts.info.id]
    others = [run for run in others if run.has_plain_score]
    if others and facts.info.has_plain_score:
        best = max(others, key=lambda run: float("-inf") if run.score is None else run.score)
        command = f"gymnast runs compare {token} {best.token}{where}"
        steps.append(NextStep(command, f"compare it with the best other run of {facts.info.env}"))
    return steps


def _advised(facts: RunFacts, where: str) -> list[NextStep]:
    """Each alert's change, the most urgent first; several alerts may advise the same."""
    commands: dict[str, list[Alert]] = {}
    for alert in facts.alerts:
        if alert.patch and alert.command:
            commands.setdefault(alert.command + where, []).append(alert)
    found = list(commands.items())[:ADVICE]
    return [NextStep(command, _why(alerts) + kept_text(alerts[0], facts.alerts)) for command, alerts in found]


def _why(alerts: list[Alert]) -> str:
    more = f" and {len(alerts) - NAMED} more" if len(alerts) > NAMED else ""
    rules = ", ".join(alert.rule for alert in alerts[:NAMED])
    return f"{rules}{more} advise{'s' * (len(alerts) == 1)} {patch_text(alerts[0])}"


def _again(facts: RunFacts, where: str) -> list[NextStep]:
    steps = []
    if facts.resumes_at is not None:
        steps.append(NextStep(f"gymnast resume {facts.token}{where}", f"go on at {facts.resumes_at}"))
    elif facts.info.command[:1] == ["gymnast"]:
        steps.append(NextStep(shlex.join(facts.info.command), "start again: it left no checkpoint"))
    if facts.info.status == "crashed" and facts.target:
        steps.append(NextStep(f"gymnast envs check {shlex.quote(facts.target)}", "step the env without an agent"))
    return steps


def _solved(facts: RunFacts, where: str) -> list[NextStep]:
    steps = []
    if not facts.videos and is_installed(VIDEO):
        steps.append(NextStep(f"gymnast video {facts.token}{where}", "watch what it does"))
    if facts.target and not facts.target.endswith((".yaml", ".yml")):
        steps.append(
            NextStep(
                f"gymnast benchmark {shlex.quote(facts.target)} --seeds 5", "see whether other seeds solve it, too"
            )
        )
    return steps


def _goal(facts: RunFacts, where: str) -> list[NextStep]:
    """Where returns did not move, a check of the env's rewards; else, where there is none, a threshold."""
    score = facts.latest.get(EVALUATION, facts.latest.get(RETURN))
    if score is None or not math.isfinite(score) or not facts.target:
        return []
    if not _has_moved(facts):
        # a preset's env has rewards, and an alert that advises something is more precise
        if any(alert.patch for alert in facts.alerts) or (is_preset(facts.info.env) and not facts.changed):
            return []
        audit = f"gymnast envs audit {shlex.quote(facts.target)}"
        return [NextStep(audit, "returns did not move: says whether there are rewards to learn from")]
    if facts.threshold is not None or not facts.info.has_plain_score or still_rising(facts):
        return []
    reached = score - NEARLY * max(score - facts.curve(RETURN)[0][1], 0.0)
    words = [*_typed(facts), "--set", f"stop.threshold={reached:.3g}"]
    why = "no threshold says when this env is solved: with one, a run ends when it is reached"
    return [NextStep(_with_runs_dir(words, where), why)]


def _has_moved(facts: RunFacts) -> bool:
    """Whether training returns rose by more than they vary, or ended all alike above the lowest."""
    scores, lows, highs, stds = (
        [value for _, value in facts.curve(f"rollout/ep_rew_{name}") if math.isfinite(value)]
        for name in ("mean", "min", "max", "std")
    )
    if not scores:
        return False
    perfect = lows[-1:] == highs[-1:] and min(lows, default=0.0) < max(highs, default=0.0) == lows[-1]
    return perfect or scores[-1] - scores[0] > NO_RISE * max(stds, default=0.0)


def _unsolved(facts: RunFacts, where: str) -> list[NextStep]:
    steps = []
    on = f"gymnast resume {facts.token} --steps {2 * facts.total_steps}{where}"
    rising = still_rising(facts)
    goes_on = facts.run.checkpoint_path("last").exists()  # none is saved once a training has diverged
    if rising and goes_on:
        steps.append(NextStep(on, f"{rising} were still rising at the end: train longer"))
    threshold = facts.threshold
    if threshold is not None and facts.latest.get(RETURN, threshold - 1) >= threshold:
        command = f"gymnast eval {facts.token} --stochastic{where}"
        steps.append(NextStep(command, "training episodes reach the threshold: score sampled actions"))
    if facts.changed and facts.preset:
        count = len(facts.changed)
        why = f"the preset as it is; {count} setting{'s' * (count > 1)} of this run differ{'s' * (count == 1)}"
        steps.append(NextStep(f"gymnast train {facts.preset} --seed {facts.info.seed}{where}", why))
    elif facts.target:
        steps.append(NextStep(_other_seed(facts, where), "try another seed"))
    if not rising and goes_on:
        steps.append(NextStep(on, "train longer from here"))
    if is_preset(facts.info.env):
        others = [name for name in variant_names(read_preset(facts.info.env)) if name != facts.info.variant]
        if others and not rising:
            command = f"gymnast train {facts.info.env}:{others[0]}{where}"
            steps.append(NextStep(command, "another variant of the preset"))
    return steps


def _other_seed(facts: RunFacts, where: str) -> str:
    """What was typed, settings included, with the next seed."""
    typed = _typed(facts)
    words = [word for before, word in zip(["", *typed], typed, strict=False) if "--seed" not in (before, word)]
    if "--set" not in words:
        words = ["gymnast", "train", facts.target or facts.info.env]
    return _with_runs_dir([*words, "--seed", str(facts.info.seed + 1)], where)


def _typed(facts: RunFacts) -> list[str]:
    """The command that trained; of a run from elsewhere, one that trains its target."""
    typed = facts.info.command
    return list(typed) if typed[:2] == ["gymnast", "train"] else ["gymnast", "train", facts.target or facts.info.env]


def _with_runs_dir(words: list[str], where: str) -> str:
    return shlex.join(words) + ("" if "--runs-dir" in words else where)


def still_rising(facts: RunFacts) -> str | None:
    """Scores that rose in the last half of the run by more than chance: evaluations, or training returns if few."""
    for name, metric in (("evaluations", EVALUATION), ("training returns", RETURN)):
        values = [value for _, value in facts.curve(metric) if math.isfinite(value)]
        late = values[len(values) // 2 :]
        if len(late) >= ENOUGH:
            return name if rises(late) else None
    return None
