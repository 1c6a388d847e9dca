"""What a benchmark is made of: rows (a target and what is asked of it), from the command line or a plan file, and the
config each of them means."""

from __future__ import annotations

import hashlib
import json
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, BeforeValidator, Field, ValidationError

from gymnast import config as configs
from gymnast.config.fields import Count, Float, Positive, Section
from gymnast.config.files import read_file
from gymnast.config.problems import explain_errors
from gymnast.core.errors import UserError
from gymnast.core.seeds import parse_seeds, write_seeds
from gymnast.training.record import solved_threshold
from gymnast.verbs.speed.libraries import Baseline, baselines_for
from gymnast.verbs.train import changes_of, resolve_config

OURS = "gymnast"
TAG = "benchmark"  # of its runs
OUT = Path("benchmarks")  # where results go if nothing else is said
# One thread a process: what shares the machine does not wait for each other. `set` may say otherwise.
ALWAYS = ("train.threads=1",)
UNTIL_SOLVED = ("stop.on_solved=true",)
EQUAL_STEPS = (
    "stop.on_solved=false",
    "stop.seconds=null",
    "stop.plateau=null",
    "stop.judge=greedy",
    "eval.every=null",  # a 20th of the run
    "eval.episodes=20",
    "eval.policy=greedy",
    "eval.warmup=0",
    "eval.start_level=null",
)


def _seeds_text(value: Any) -> Any:
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value


def _good_seeds(text: str) -> str:
    parse_seeds(text)
    return text


Seeds = Annotated[str, BeforeValidator(_seeds_text), AfterValidator(_good_seeds)]
Names = Annotated[list[str], BeforeValidator(lambda value: [value] if isinstance(value, str) else value)]


class Row(Section):
    """A line of the tables: a target and what is asked of it."""

    target: str
    seeds: Seeds = "5"
    steps: Count | None = None
    target_score: Float | None = None  # mean score to reach; None: what counts as solved anyway
    within: Positive | None = None  # seconds of training
    against: Names = Field(default_factory=list)
    equal_steps: bool = False
    set: list[str] = Field(default_factory=list)
    before: Names = Field(default_factory=list)  # batches of seeds that were run before these, with changes in between

    @property
    def key(self) -> tuple[Any, ...]:
        """Rows that ask the same question, of however many seeds and libraries."""
        return (self.target, self.equal_steps, self.steps, self.target_score, *self.set)

    @property
    def label(self) -> str:
        """What tells it from other rows of the same env."""
        return " ".join([self.target, *self.set])

    def command(self, seeds: Sequence[int], out: Path = OUT) -> str:
        """That makes this row again, with results in `out`."""
        words = ["gymnast", "benchmark", self.target, "--seeds", write_seeds(seeds)]
        options = {"--steps": self.steps, "--target-score": self.target_score, "--within": self.within}
        for option, value in options.items():
            words += [] if value is None else [option, f"{value:.12g}"]
        words += ["--against", ",".join(self.against)] if self.against else []
        words += ["--equal-steps"] if self.equal_steps else []
        for setting in self.set:
            words += ["--set", setting]
        words += [] if out == OUT else ["--out", str(out)]
        return shlex.join(words)


class Plan(Section):
    rows: Annotated[list[Row], Field(min_length=1)]


def checked(model: type[BaseModel], data: Mapping[str, Any], label: str) -> Any:
    """The model, or one line for each mistake."""
    try:
        return model.model_validate(data)
    except ValidationError as error:
        raise configs.ConfigError(explain_errors(error, model, data, {}, label)[0]) from None


def read_plan(path: Path, targets: Sequence[str] = (), seeds: str | None = None) -> list[Row]:
    """The rows of a plan file; with targets (ENV or ENV:VARIANT), theirs alone."""
    rows: list[Row] = checked(Plan, read_file(path).data, str(path)).rows
    chosen = [row for row in rows if not targets or {row.target, row.target.partition(":")[0]} & {*targets}]
    for target in targets:
        if not any(target in (row.target, row.target.partition(":")[0]) for row in chosen):
            known = ", ".join(dict.fromkeys(row.target for row in rows))
            raise UserError(f"{target}: {path} has no row for it. It has: {known}.")
    return [row if seeds is None else row.model_copy(update={"seeds": seeds}) for row in chosen]


@dataclass(frozen=True)
class Task:
    """A row with the config it means."""

    row: Row
    config: configs.RunConfig
    threshold: float | None
    baselines: list[Baseline]
    facts: dict[str, Any]  # for run.json

    @property
    def fingerprint(self) -> str:
        """The same for the same training, whatever its seed: settings at their default do not count, so that a
        setting which comes to exist later changes nothing."""
        data = self.config.model_dump(mode="json", exclude_defaults=True)
        data["algo"] = {**data.get("algo", {}), "name": self.config.algo.name}
        for key in ("seed", "resources"):
            data.get("train", {}).pop(key, None)
        data.pop("log", None)
        text = json.dumps([data, self.threshold, self.row.equal_steps], sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:10]


def settle(rows: Sequence[Row], pythons: Mapping[str, str]) -> list[Task]:
    """Everything that can be wrong with any row is reported before the first run."""
    tasks, problems = [], []
    for row in rows:
        settings = [*ALWAYS, *(EQUAL_STEPS if row.equal_steps else UNTIL_SOLVED)]
        settings += [] if row.target_score is None else [f"stop.threshold={row.target_score!r}"]
        try:
            resolved = resolve_config(row.target, [*settings, *row.set], steps=row.steps)
            row = row.model_copy(update={"target": resolved.target})
            if resolved.config.eval.every == 0:  # null is not 0: it is chosen for the run
                raise UserError("eval.every: 0 evaluates nothing during training; a benchmark needs a number of steps.")
            threshold = solved_threshold(resolved.config, resolved.facts)
            baselines = baselines_for(resolved.config, row.against, pythons)
            for baseline in baselines:
                if not baseline.can_be_scored:
                    raise UserError(f"--against {baseline.name}: its scores cannot be read. Use `gymnast speed`.")
            facts = {"variant": resolved.variant, "tags": [TAG], "changed": changes_of(row.target, resolved)}
            tasks.append(Task(row, resolved.config, threshold, baselines, facts))
        except UserError as error:
            named = len(rows) == 1 or str(error).startswith(row.target.partition(":")[0])
            problems += [line if named else f"{row.target}: {line}" for line in str(error).splitlines()]
    if problems:
        raise configs.ConfigError(problems)
    return tasks
