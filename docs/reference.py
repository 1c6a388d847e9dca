"""Writes docs/metrics.md, docs/config.md and the tables of README.md, CONTRIBUTING.md and the algorithm pages.

Run: python docs/reference.py

`tests/unit/test_docs.py` fails when one of them is out of date.
"""

from __future__ import annotations

from pathlib import Path
from types import UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from gymnast.alerts.rules import RULES
from gymnast.config import RunConfig, list_presets, load, load_facts
from gymnast.config.algos import settings_of
from gymnast.core.registry import ALGOS
from gymnast.core.schedule import Schedule
from gymnast.metrics.catalogue import Metric, catalogue

ROOT = Path(__file__).resolve().parent.parent
MADE_BY = "<!-- Written by `python docs/reference.py`. Do not edit. -->\n"
SUBJECTS = {
    "time": "Counters, clock and where the time goes",
    "central": "Actors, with `train.layout: central`",
    "rollout": "What training saw",
    "eval": "Evaluation",
    "verdict": "The verdict on fresh episodes",
    "stage": "Scores in the stages of a curriculum",
    "forgetting": "What was forgotten of its earlier stages",
    "train": "The update",
    "objects": "Objects in pictures, in the row after which `agent.track` found them",
    "net": "The network, every `log.diagnostics` steps",
    "custom": "Numbers of your own, from Python",
}


def table(head: list[str], rows: list[list[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines) + "\n"


def metrics_page() -> str:
    parts = [
        MADE_BY,
        "# Metrics\n",
        "All metrics, in the order in which tables show them, as `src/gymnast/metrics/catalogue.yaml` defines them.",
        "A value outside its bounds is shown in red and means a bug or a broken run. A value outside `warn` can cause",
        "an [alert](alerts.md). `*` stands for any word. A run logs the metrics that apply to it.\n",
    ]
    groups: dict[str, list[Metric]] = {}
    for metric in catalogue():
        groups.setdefault(metric.group, []).append(metric)
    for group, metrics in groups.items():
        parts.append(f"## {group}: {SUBJECTS[group]}\n")
        rows = [
            [
                *(f"`{one.name}`", one.meaning, one.unit),
                *(between(one.low, one.high), between(one.warn_low, one.warn_high), one.better or ""),
            ]
            for one in metrics
        ]
        parts.append(table(["metric", "meaning", "unit", "bounds", "warn", "better"], rows))
    return "\n".join(parts)


def between(low: float | None, high: float | None) -> str:
    if low is None and high is None:
        return ""
    if high is None:
        return f">= {low:g}"
    return f"<= {high:g}" if low is None else f"{low:g} to {high:g}"


def rules_table() -> str:
    rows = []
    for rule in RULES:
        suspects = [f"`{one.key}`" + ("" if one.wrong == "switch" else f" too {one.wrong}") for one in rule.suspects]
        rows.append([f"`{rule.name}`", rule.severity, rule.message, ", ".join(suspects)])
    return table(["rule", "severity", "what is seen", "suspects"], rows)


def config_page() -> str:
    parts = [
        MADE_BY,
        "# Settings\n",
        "Every setting, its default in code, and its meaning. A preset may set another value:",
        "`gymnast config explain CartPole-v1` shows the values of a run and where they come from.\n",
    ]
    for section, info in RunConfig.model_fields.items():
        if section == "algo":
            for name, model in ((name, settings_of(name)) for name in ALGOS):
                parts += [f"## algo (name: {name})\n", settings_table(model, "algo.")]
        elif get_origin(info.annotation) is dict:
            (_, model), text = get_args(info.annotation), info.description or ""
            parts += [f"## {section}\n", f"{text}\n", settings_table(model, f"{section}.NAME.")]
        elif get_origin(info.annotation) is list:
            (item,) = get_args(info.annotation)
            parts += [f"## {section}\n", f"{info.description}\n", settings_table(item, f"{section}[].")]
        else:
            assert isinstance(info.annotation, type)
            parts += [f"## {section}\n", settings_table(info.annotation, f"{section}.")]
    return "\n".join(parts)


def settings_table(model: type[BaseModel], prefix: str) -> str:
    return table(["key", "values", "default", "meaning"], setting_rows(model, prefix))


def setting_rows(model: type[BaseModel], prefix: str) -> list[list[str]]:
    rows: list[list[str]] = []
    for name, info in model.model_fields.items():
        inner = [part for part in (info.annotation, *get_args(info.annotation)) if _is_model(part)]
        if inner and get_origin(info.annotation) is not list:
            if not _is_model(info.annotation):
                rows.append([f"`{prefix}{name}`", "the keys below, or null", "null", info.description or ""])
            rows += setting_rows(inner[0], f"{prefix}{name}.")
            continue
        rows.append([f"`{prefix}{name}`", values(info.annotation), default(info), info.description or ""])
    return rows


def _is_model(part: Any) -> bool:
    return isinstance(part, type) and issubclass(part, BaseModel)


def values(kind: Any) -> str:
    """The kind of value in words."""
    origin, parts = get_origin(kind), get_args(kind)
    if origin is Annotated:
        return values(parts[0])
    if origin is Literal:
        return ", ".join(str(part) for part in parts)
    if origin in (Union, UnionType):
        return " or ".join(values(part) for part in parts)
    if origin is list:
        return f"list of {values(parts[0])}"
    if origin is tuple:
        return f"[{', '.join(values(part) for part in parts)}]"
    words = {int: "whole number", float: "number", bool: "true, false", str: "name", Schedule: "schedule"}
    words |= {type(None): "null", dict: "mapping"}
    return words.get(origin or kind) or kind.kind.split()[-1]  # of a `Named`: "a wrapper", "an extension"


def default(info: FieldInfo) -> str:
    if info.is_required():
        return "(required)"
    value = info.get_default(call_default_factory=True)
    if isinstance(value, Schedule):
        value = value.to_form()
    value = list(value) if isinstance(value, tuple) else value
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    return f"{value:g}" if isinstance(value, float) else str(value).replace("'", "")


def presets_table() -> str:
    rows = []
    for preset in list_presets():
        facts = load_facts(preset.id)
        assert facts is not None
        solved = f"{facts.solved.threshold:g}" if facts.solved else ""
        solved += f" ({facts.solved.evidence})" if facts.solved and facts.solved.evidence else ""
        goals = [load(preset.id).config.stop.target, facts.optimum]
        numbers = [solved, *("" if goal is None else f"{goal:g}" for goal in goals)]
        rows.append([f"`{preset.id}`", ", ".join(preset.variants), preset.family, *numbers, facts.extra or ""])
    rows.sort(key=lambda row: row[2])
    return table(["env", "variants", "family", "solved at", "target", "optimum", "extra"], rows)


LEARNING = {
    "rl/collector.py": "steps the envs with the agent and writes what came of it into the rollout",
    "training/loop.py": "the order: collect, learn, judge, report, keep",
    "rl/learner.py": "targets: the learner's reward, advantages and returns; schedules; the plain policy gradient",
    "rl/returns.py": "generalised advantage estimation",
    "rl/rollout.py": "the streams of a rollout, and batches of them",
    "rl/algos/ppo.py": "the algorithm: epochs, minibatches, the loss and its compiled slopes",
    "agent/nets/dense_net.py": "forwards, backwards, the step (or `torch_net.py`, for agents it does not know)",
    "agent/nets/kernels.py": "the compiled loops, Adam among them",
}
SCREEN = {
    "cli/train.py": "options",
    "verbs/train.py": "a run from its config to its result",
    "config/load.py": "the settings in layers",
    "training/build.py": "envs, agent, learner and judge of a config",
    "training/record.py": "the run's folder around the loop",
    "envs/engines/cartpole/vec.py": "the envs of CartPole; every env has an engine",
    **LEARNING,
    "metrics/meter.py": "what happened between two rows",
    "training/rows.py": "a row, and to whom it goes",
    "sinks/__init__.py": "one call for all sinks",
    "sinks/console/console.py": "the live console",
    "sinks/console/panels.py": "its tables",
}


def path_table(files: dict[str, str]) -> str:
    source = ROOT / "src" / "gymnast"
    counts = {name: len((source / name).read_text(encoding="utf-8").splitlines()) for name in files}
    rows = [[f"`src/gymnast/{name}`", str(counts[name]), what] for name, what in files.items()]
    return table(["file", "lines", "what it does"], [*rows, [f"{len(files)} files", str(sum(counts.values())), ""]])


def renewed(page: Path | str, mark: str, content: str) -> str:
    """A page with the table between `<!-- mark -->` and the next `<!-- end of ... -->` replaced."""
    begin, end = f"<!-- {mark} -->\n", "<!-- end of "
    text = page if isinstance(page, str) else page.read_text(encoding="utf-8")
    before, _, rest = text.partition(begin)
    return f"{before}{begin}{content}{end}{rest.partition(end)[2]}"


def pages() -> dict[Path, str]:
    docs = ROOT / "docs"
    return {
        docs / "metrics.md": metrics_page(),
        docs / "config.md": config_page(),
        docs / "alerts.md": renewed(docs / "alerts.md", "rules", rules_table()),
        ROOT / "CONTRIBUTING.md": renewed(
            renewed(ROOT / "CONTRIBUTING.md", "learning path", path_table(LEARNING)), "screen path", path_table(SCREEN)
        ),
        ROOT / "README.md": renewed(ROOT / "README.md", "presets", presets_table()),
        **{
            docs / f"{name}.md": renewed(docs / f"{name}.md", f"settings {name}", settings_table(model, "algo."))
            for name, model in ((name, settings_of(name)) for name in ALGOS)
        },
    }


if __name__ == "__main__":
    for path, text in pages().items():
        path.write_text(text, encoding="utf-8")
