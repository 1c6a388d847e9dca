"""The page about a run: verdict, what to try next, curves, alerts, time, settings, versions, files."""

from __future__ import annotations

import math
import shlex
from collections.abc import Mapping
from typing import Any

from gymnast.alerts.alert import Alert
from gymnast.alerts.text import evidence_of, when
from gymnast.core.errors import reason_of
from gymnast.core.text import bar, duration, printable, setting, sparkline, utc
from gymnast.metrics.catalogue import catalogue
from gymnast.metrics.rows import STEP, is_late
from gymnast.report.actors import actor_costs
from gymnast.report.blocks import Block, Bold, Code, Heading, Items, Link, Mono, Page, Table, Video, say
from gymnast.report.charts.model import Chart, Curve, Level, Points, goals, thinned
from gymnast.report.files import files_of, videos_of
from gymnast.report.next_steps import next_steps
from gymnast.report.run_facts import EVALUATION, RETURN, RunFacts
from gymnast.report.verdict import RELATIVE, Verdict, goal_text, judge, meaning, task_lines, test_lines
from gymnast.runs.references import runs_dir_option

MOMENTS = 10  # rows of the table of numbers
COLUMNS = 8  # of it, at most
SAMPLE = ("eval/std_reward", "eval/episodes")
LEARNING = ("rollout/ep_len_mean", "train/policy_gradient_loss", "train/value_loss", "train/grad_norm")  # always drawn
FORGOTTEN = "the score at a stage's end minus the later one"
PHASES = {
    "env": "stepping envs",
    "send": "sending actions to actors",
    "receive": "reading what actors answer",
    "wait": "waiting for rollouts of actors",
    "act": "choosing actions",
    "copy": "filling rollouts",
    "returns": "returns and advantages",
    "update": "gradients",
    "eval": "evaluations and verdicts",
    "log": "metrics and checkpoints",
    "diagnostics": "histograms, layers, step tables",
}


def build_page(facts: RunFacts) -> Page:
    """A section that cannot be made, of a run with damaged files, is a line that says so."""
    verdict = judge(facts)
    sections = [
        _head,
        _verdict,
        _next,
        _curves,
        _stages,
        _alerts,
        _time,
        _actors,
        _settings,
        _made_with,
        _videos,
        _files,
    ]
    page: list[Block] = []
    for section in sections:
        try:
            page += section(facts, verdict)
        except Exception as error:  # the rest of the page says enough to be worth having
            page.append(say(Bold("Problem: "), f"this section cannot be made: {printable(reason_of(error))}"))
    return page


def _head(facts: RunFacts, verdict: Verdict) -> list[Block]:
    info = facts.info
    time = "" if facts.seconds is None else f" in {duration(facts.seconds)}"
    rate = f", {facts.env_steps / facts.seconds:,.0f} steps/s" if facts.seconds else ""
    page: list[Block] = [
        Heading(f"{verdict.headline}: {info.env}, {facts.algo}, seed {info.seed}", 1),
        say(
            "Run ",
            Mono(info.id),
            f", {info.status}: {facts.env_steps:,} of {facts.total_steps:,} steps{time}{rate}.",
            f" Stopped: {verdict.stopped}." if verdict.stopped else "",
            " Still being trained: this page is of the moment it was asked for." if facts.live else "",
        ),
    ]
    if info.parent:
        page.append(say("Started from ", Mono(info.parent), "; earlier metrics are that run's."))
    if info.resumed_at:
        page.append(say(f"Resumed at {', '.join(f'{step:,}' for step in info.resumed_at)} steps."))
    if facts.crash:
        page += [say("The last line of ", Link("log.txt", "log.txt"), ":"), Code((facts.crash,))]
    return [*page, *(say(Bold("Problem: "), problem) for problem in facts.problems)]


def _verdict(facts: RunFacts, verdict: Verdict) -> list[Block]:
    sizes = [abs(value) for value in (verdict.score, verdict.high, verdict.threshold) if value is not None]
    decimals = 2 if max(sizes, default=10.0) >= 10 else 3

    def amount(value: float | None, digits: int = decimals) -> str:
        return "" if value is None else f"{value:,.{digits}f}"

    interval = "" if verdict.low is None else f", 95 % interval {amount(verdict.low)} to {amount(verdict.high)}"
    exact = "" if verdict.regret is None else f", by the transition table; regret {amount(verdict.regret, 4)}"
    tasks = task_lines(facts.summary)
    lines: dict[str, str] = tasks | {
        "score": "" if verdict.score is None else amount(verdict.score) + interval + (f", {RELATIVE}" if tasks else ""),
        "agent": verdict.agent or "",
        "measured on": ", ".join(filter(None, (verdict.measured_on, verdict.policy))),
        **test_lines(facts.summary),
        "in stage": facts.stages[-1]["stage"] if facts.stages else "",
        "evaluated on": verdict.evaluated_on or "",
        "exact value": "" if verdict.exact_value is None else amount(verdict.exact_value, 4) + exact,
        "solved at": "" if verdict.threshold is None or tasks else f"{verdict.threshold:g}",
        "target": goal_text(verdict.target, verdict.on_target),
        "best possible": "" if verdict.optimum is None else f"{verdict.optimum:.6g}",
        f"best {verdict.best_kind or 'evaluation'}": amount(verdict.best_evaluation),
        "training return at the end": amount(verdict.training_return),
    }
    rows = tuple((name, text) for name, text in lines.items() if text)
    page: list[Block] = [Heading("Verdict")]
    page += [Table(("", verdict.headline.lower()), rows)] if rows else []
    return [*page, say(" ".join(meaning(verdict, facts)))] if meaning(verdict, facts) else page


def _next(facts: RunFacts, verdict: Verdict) -> list[Block]:
    lines = tuple((Mono(step.command), f" ({step.why})") for step in next_steps(facts))
    return [Heading("What to try next"), Items(lines)] if lines else []


def _curves(facts: RunFacts, verdict: Verdict) -> list[Block]:
    if not facts.rows:
        return [Heading("Curves"), say("No metrics were written: there is nothing to draw.")]
    returns = return_chart(facts)
    page: list[Block] = [Heading("Curves")]
    page.append(returns if returns.curves else say("No episode ended: there is no return to draw."))
    if any(not curve.joined for curve in returns.curves):
        page.append(
            say("Dots are evaluations, bars two standard errors of their mean; of a verdict its 95 % interval.")
        )
    names = facts.worth_a_look
    drawn = [*names, *(name for name in LEARNING if name in facts.latest and name not in names)]
    page += [
        Chart(name, (Curve(catalogue().get(name).meaning, facts.curve(name)),), in_text=False, small=True)
        for name in drawn
    ]
    trends = []
    for name in names:
        values = [value for _, value in facts.curve(name) if math.isfinite(value)]
        if values:
            text = catalogue().get(name).text
            numbers = (text(values[0]), text(min(values)), text(max(values)), text(values[-1]))
            trends.append((Mono(name), sparkline(values, min(24, len(values))), *numbers))
    if trends:
        titles = ("metric", "over the run", "first", "lowest", "highest", "last")
        page.append(Table(titles, tuple(trends), right=(2, 3, 4, 5), in_text=(1,)))
    return [*page, *_moments(facts, names)]


def _stages(facts: RunFacts, verdict: Verdict) -> list[Block]:
    """Scores in every stage over the run, and what was forgotten since each of them ended."""
    scores, forgotten = stage_charts(facts)
    if not scores.curves:
        return []
    episodes = f"{facts.config.eval.episodes} episodes" if facts.config else "an evaluation's episodes"
    page: list[Block] = [Heading("Stages"), say(f"Each score is the mean of {episodes}; forgotten is {FORGOTTEN}.")]
    if facts.stages:
        titles = ("stage", "from step", "steps", "score at its end", "last score", "forgotten")
        page.append(Table(titles, tuple(stage_cells(one) for one in facts.stages), right=(1, 2, 3, 4, 5)))
        if facts.config and (later := list(facts.config.stages)[len(facts.stages) :]):
            page.append(say(f"Not reached: {', '.join(later)}."))
    page.append(scores)
    page += [forgotten] if forgotten.curves else []
    return page


def stage_cells(stage: Mapping[str, Any]) -> tuple[str, ...]:
    counts = (f"{stage['began']:,}", f"{stage['steps']:,}")
    scores = (stage[name] for name in ("score_at_end", "score", "forgetting"))
    return (stage["stage"], *counts, *("" if score is None else f"{score:,.2f}" for score in scores))


def stage_charts(facts: RunFacts) -> tuple[Chart, Chart]:
    names = [] if facts.config is None else list(facts.config.stages)
    scores = [Curve(name, facts.curve(f"stage/{name}/mean_reward")) for name in names]
    forgotten = [Curve(name, facts.curve(f"forgetting/{name}")) for name in names]
    drawn = (tuple(curve for curve in curves if curve.points) for curves in (scores, forgotten))
    return Chart("score by stage", next(drawn)), Chart("forgotten", next(drawn), (Level(0.0, "nothing forgotten"),))


def return_chart(facts: RunFacts) -> Chart:
    """Training returns as a line, evaluations and the last verdict as dots with their bars, threshold and target."""
    errors = {step: 2 * std / math.sqrt(n) for (step, std), (_, n) in zip(*map(facts.curve, SAMPLE), strict=False) if n}
    scores = facts.curve(EVALUATION)
    evaluation = "evaluation" if facts.evaluated_on is None else f"evaluation on {facts.evaluated_on}"
    bars = [(step, mean - errors[step], mean + errors[step]) for step, mean in scores if step in errors]
    curves = [
        Curve("training", facts.curve(RETURN)),
        Curve(evaluation, scores, joined=False, band=bars),
        Curve("verdict", (last := facts.curve("verdict/mean")[-1:]), joined=False, band=_interval(facts, last)),
    ]
    return Chart("return", tuple(curve for curve in curves if curve.points), goals(facts.threshold, facts.goal))


def _interval(facts: RunFacts, at: Points) -> list[tuple[float, float, float]]:
    low, high = facts.latest.get("verdict/low"), facts.latest.get("verdict/high")
    return [] if low is None or high is None else [(step, low, high) for step, _ in at]


def _moments(facts: RunFacts, names: list[str]) -> list[Block]:
    """The same as numbers, at a few moments; an evaluation stands at the first of them that it was before."""
    shown = [name for name in (RETURN, EVALUATION, *names) if name in facts.latest][:COLUMNS]
    rows = [row for row in facts.rows if STEP in row]
    if not shown or len(rows) < 2:
        return []
    picked = [int(step) for step, _ in thinned([(row[STEP], 0.0) for row in rows if not is_late(row)], MOMENTS)]
    values: dict[str, float] = {}
    table = []
    for row in rows:
        values |= row
        if int(row[STEP]) in picked and not is_late(row):
            cells = (catalogue().get(name).text(values[name]) if name in values else "" for name in shown)
            table.append((f"{int(row[STEP]):,}", *cells))
            values = {}
    titles = ("steps", *(name.partition("/")[2] if name != EVALUATION else "eval" for name in shown))
    return [Table(titles, tuple(table), right=tuple(range(len(titles))))]


def _alerts(facts: RunFacts, verdict: Verdict) -> list[Block]:
    page: list[Block] = [Heading("Alerts")]
    if not facts.alerts:
        return [*page, say("None: no rule fired." if facts.watched else "No alerts recorded.")]
    causes: dict[tuple[str, str | None], list[Alert]] = {}
    for alert in facts.alerts:
        causes.setdefault((alert.cause, alert.command), []).append(alert)
    for (cause, command), alerts in causes.items():
        seen = [f" ({one.severity}): {one.message} {evidence_of(one)}; {when(one)}." for one in alerts]
        lines = tuple((Bold(one.rule), text) for one, text in zip(alerts, seen, strict=True))
        page += [Items(lines), say(Bold("Likely cause:"), f" {cause}")]
        page += [Code((command + runs_dir_option(facts.run.path.parent),))] if command else []
    return page


def _time(facts: RunFacts, verdict: Verdict) -> list[Block]:
    spent = facts.time_budget
    total = sum(spent.values())
    if not total:
        return []
    shares = {phase: seconds / total for phase, seconds in spent.items() if seconds > 0.005 * total}
    digits = 2 if total < 10 else 1
    rows = tuple(
        (phase, f"{spent[phase]:,.{digits}f}", f"{share:.0%}", bar(share, 20), PHASES.get(phase, ""))
        for phase, share in shares.items()
    )
    table = Table(("phase", "seconds", "share", "", "what"), rows, right=(1, 2))
    command = f"gymnast speed {shlex.quote(facts.target)}" if facts.target else ""
    advice = [say(Mono(command), " measures what would make it faster.")] if command else []
    return [Heading("Where the time went"), table, *advice]


def _actors(facts: RunFacts, verdict: Verdict) -> list[Block]:
    return actor_costs(facts.rows)


def _settings(facts: RunFacts, verdict: Verdict) -> list[Block]:
    whose = f"the preset {facts.preset}" if facts.preset else "the defaults for an env without a preset"
    if facts.changed is None:
        said = "There is no preset to compare them with"
    else:
        said = f"These differ from {whose}" if facts.changed else f"Same as {whose} except the seed"
    page: list[Block] = [
        Heading("Settings"),
        say(f"{said}; all settings are in ", Link("config.yaml", "config.yaml"), "."),
    ]
    rows = tuple((Mono(key), Mono(setting(usual)), Mono(setting(mine))) for key, usual, mine in facts.changed or ())
    return [*page, Table(("setting", "preset" if facts.preset else "default", "this run"), rows)] if rows else page


def _made_with(facts: RunFacts, verdict: Verdict) -> list[Block]:
    info = facts.info
    lines: Mapping[str, str] = {
        "command": shlex.join(info.command),
        "versions": ", ".join(f"{name} {version}" for name, version in info.versions.items()),
        "machine": ", ".join(part for part in (info.machine, info.host) if part),
        "created": utc(info.created),
        "last written": utc(info.updated),
    }
    rows = tuple((name, Mono(text) if name == "command" else text) for name, text in lines.items() if text)
    return [Heading("Made with"), Table(("", ""), rows)]


def _videos(facts: RunFacts, verdict: Verdict) -> list[Block]:
    videos = [Video(name, what) for name, what in videos_of(facts)]
    return [Heading("Videos"), *videos] if videos else []


def _files(facts: RunFacts, verdict: Verdict) -> list[Block]:
    rows = tuple((Link(name, name), what) for name, what in files_of(facts))
    return [Heading("Files"), Table(("file", "what"), rows)]
