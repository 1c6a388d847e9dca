"""How a run ended or an agent scored, in a panel: `gymnast train|resume|eval` for people."""

from __future__ import annotations

from rich import box
from rich.console import Group, RenderableType
from rich.panel import Panel
from rich.text import Text

from gymnast.alerts.text import report
from gymnast.core.text import duration
from gymnast.report.verdict import stop_text
from gymnast.terminal.format import Cell, facts_grid, output, panel_width
from gymnast.verbs.eval import EvaluatedAgent
from gymnast.verbs.train import TrainedRun


def print_summary(result: TrainedRun | EvaluatedAgent) -> None:
    console = output()
    console.print(summary_panel(result), width=panel_width(console))


def summary_panel(result: TrainedRun | EvaluatedAgent) -> RenderableType:
    trained = result if isinstance(result, TrainedRun) else None
    if result.solved:
        headline, colour = "SOLVED", "green"
    elif trained and trained.stop_reason == "interrupted":
        headline, colour = "INTERRUPTED", "yellow"
    elif result.threshold is None:
        headline, colour = "DONE", "cyan"
    else:
        headline, colour = "NOT SOLVED", "yellow"
    title = Text().append(headline, style=f"bold {colour}").append(f"  {result.env}", style="bold default")
    if trained:
        title.append(f" · {trained.algo}", style="bold default").append(f" · seed {trained.seed}", style="default")
    facts = [*_score(result), *(_training(trained) if trained else []), ("run", _name(result))]
    parts: list[RenderableType] = [title, Text(), facts_grid(facts)]
    if trained and trained.alerts:
        parts += [Text(), *report(trained.alerts)]
    if result.next:
        parts += [Text(), Text("next", style="yellow")]
        for command, what in result.next:  # a line of its own: ready to be copied
            parts += [Text(command, style="bold cyan", overflow="fold"), Text(f"  {what}", style="dim")]
    return Panel(Group(*parts), border_style=colour, box=box.ROUNDED, padding=(0, 1))


def _score(result: TrainedRun | EvaluatedAgent) -> list[tuple[str, Cell]]:
    score, exact, episodes = Text(), Text(), ""
    if result.eval_mean is not None:
        score.append(f"{result.eval_mean:,.2f}", style="bold")
        score.append("  95% interval {:,.2f} to {:,.2f}".format(*result.interval) if result.interval else "")
        episodes = f"{result.episodes:,} fresh episodes, {result.policy}"
    if result.exact_value is not None:
        exact.append(f"{result.exact_value:,.4f}", style="bold")
        exact.append(f"  decides; optimum {result.optimum:,.4f}, regret {result.regret:,.4f}")
    return [("score", score), ("measured on", episodes), ("exact", exact), *_goals(result)]


def _goals(result: TrainedRun | EvaluatedAgent) -> list[tuple[str, Cell]]:
    goals: list[tuple[str, Cell]] = [("solved at", "" if result.threshold is None else f"{result.threshold:g}")]
    if isinstance(result, TrainedRun) and result.target is not None:
        goals.append(("target", f"{result.target:g}, {'reached' if result.on_target else 'not reached'}"))
    return goals


def _training(result: TrainedRun) -> list[tuple[str, Cell]]:
    training = Text(f"{result.env_steps:,} steps in {duration(result.seconds)}")
    training.append(f"  {result.fps:,.0f} steps/s", style="dim")
    agent = f"the best, at {result.best_at:,} steps" if result.best_at else ""
    if agent and result.last_score is not None and result.last_at != result.best_at:
        agent += f"; the last evaluation, at {result.last_at:,}: {result.last_score:,.2f}"
    return [("agent", agent), ("training", training), ("stopped", stop_text(result.stop_reason))]


def _name(result: TrainedRun | EvaluatedAgent) -> Text:
    checkpoint = "" if isinstance(result, TrainedRun) else f"/{result.checkpoint}"
    return Text(f"{result.run}{checkpoint}", style="bold")
