"""What a sweep varies: settings, each with a range and a scale, and how a number of it becomes part of a config."""

from __future__ import annotations

import copy
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from gymnast import config as configs
from gymnast.config.files import parse_value
from gymnast.config.problems import explain_errors, line
from gymnast.core.schedule import Schedule
from gymnast.core.text import setting

if TYPE_CHECKING:
    from optuna.distributions import BaseDistribution

DIGITS = 4  # of a sampled number: more would claim a precision that no sweep has
FORMS = "Write log(1e-4, 1e-2), uniform(0.1, 0.4), int(2, 20), logint(2, 20), oneminus(0.9, 0.999) or a list [a, b, c]."
RANGE = re.compile(r"\s*(\w+)\s*\(([^,()]+),([^,()]+)\)\s*")
KINDS = ("log", "uniform", "int", "logint", "oneminus")
FIXED = ("eval", "stop", "log", "stages", "tasks")  # sections that decide how a score is measured, not how one trains
FIXED_KEYS = ("train.seed", "train.total_timesteps", "env.id")
NUMBER = (int, float)

Forms = dict[str, tuple[Any, str]]  # by key: a range as it is written, and where


@dataclass(frozen=True)
class Dimension:
    """A setting that is varied. `oneminus`: 1 - x is drawn on a logarithmic scale, as suits discounts."""

    key: str
    kind: str  # one of KINDS, or "choice"
    low: float = 0.0
    high: float = 0.0
    choices: tuple[Any, ...] = ()
    source: str = "--search"

    @property
    def name(self) -> str:
        """Under which a sampler knows it."""
        return f"1 - {self.key}" if self.kind == "oneminus" else self.key

    @property
    def text(self) -> str:
        if self.kind == "choice":
            return setting(list(self.choices))
        return f"{self.kind}({self.low:g}, {self.high:g})"

    def distribution(self) -> BaseDistribution:
        from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution

        if self.kind == "choice":
            return CategoricalDistribution([setting(choice) for choice in self.choices])  # lists are no choices there
        if self.kind in ("int", "logint"):
            return IntDistribution(int(self.low), int(self.high), log=self.kind == "logint")
        if self.kind == "oneminus":
            return FloatDistribution(1.0 - self.high, 1.0 - self.low, log=True)
        return FloatDistribution(self.low, self.high, log=self.kind == "log")

    def value(self, drawn: Any) -> Any:
        """The setting that a sampler's number stands for."""
        if self.kind == "choice":
            return next(choice for choice in self.choices if setting(choice) == drawn)
        if self.kind in ("int", "logint"):
            return int(drawn)
        rounded = float(f"{drawn:.{DIGITS}g}")
        if self.kind == "oneminus":
            rounded = round(1.0 - rounded, DIGITS + 4)
        return min(max(rounded, self.low), self.high)

    def drawn(self, value: Any) -> Any | None:
        """The sampler's number for a setting; None where the range does not have it."""
        if self.kind == "choice":
            return setting(value) if setting(value) in [setting(choice) for choice in self.choices] else None
        if isinstance(value, bool) or not isinstance(value, NUMBER) or not self.low <= value <= self.high:
            return None
        return 1.0 - value if self.kind == "oneminus" else value

    def nearest(self, value: Any) -> Any | None:
        """The sampler's number for the value of the range that is nearest to a setting; None where no value is near."""
        if self.kind != "choice" and isinstance(value, NUMBER) and not isinstance(value, bool):
            value = min(max(value, self.low), self.high)
            value = round(value) if self.kind in ("int", "logint") else value
        return self.drawn(value)

    @property
    def ends(self) -> tuple[Any, ...]:
        """Values that the config must accept before anything starts."""
        if self.kind == "choice":
            return self.choices
        whole = self.kind in ("int", "logint")
        return (int(self.low), int(self.high)) if whole else (self.low, self.high)


def parse_search(texts: Sequence[str]) -> Forms:
    """--search KEY=RANGE: what stands for each key, and its source."""
    found: Forms = {}
    problems = []
    for text in texts:
        key, equals, raw = text.partition("=")
        if not equals or not key.strip() or not raw.strip():
            problems.append(f"--search {text}: write KEY=RANGE, like algo.learning_rate=log(1e-4,1e-2).")
            continue
        try:
            found[key.strip()] = (raw if RANGE.fullmatch(raw) else parse_value(raw)), "--search"
        except configs.ConfigError:
            problems.append(f"--search {text}: {raw!r} is not a range. {FORMS}")
    if problems:
        raise configs.ConfigError(problems)
    return found


def parse_range(key: str, form: Any, source: str) -> Dimension | str:
    """A dimension, or the line that says what is wrong with it."""
    if isinstance(form, list):
        if not form:
            return line(source, key, f"the list is empty. {FORMS}", form)
        repeated = [value for index, value in enumerate(form) if value in form[:index]]
        return (
            line(source, key, "names a value twice.", form)
            if repeated
            else Dimension(key, "choice", choices=tuple(form), source=source)
        )
    match = RANGE.fullmatch(form) if isinstance(form, str) else None
    if match is None or match[1] not in KINDS:
        return line(source, key, f"is not a range. {FORMS}", form)
    kind, ends = match[1], []
    for text in match.groups()[1:]:
        try:
            ends.append(float(text))
        except ValueError:
            return line(source, key, f"{text.strip()!r} is not a number. {FORMS}", form)
    return checked(Dimension(key, kind, ends[0], ends[1], source=source), form)


def checked(found: Dimension, form: Any) -> Dimension | str:
    """The dimension, or why it has nothing to draw from."""
    low, high, kind = found.low, found.high, found.kind
    problem = None
    if not (math.isfinite(low) and math.isfinite(high)):
        problem = "must have finite ends."
    elif low >= high:
        problem = f"the range is empty: {low:g} is not less than {high:g}."
    elif kind in ("log", "logint") and low <= 0:
        problem = f"a logarithmic range must begin above 0; use uniform or int, or a list with {low:g} in it."
    elif kind == "logint" and low < 1:
        problem = "must begin at 1 or more."
    elif kind in ("int", "logint") and not (low.is_integer() and high.is_integer()):
        problem = "must have whole numbers as ends."
    elif kind == "oneminus" and not (low >= 0 and high < 1):
        problem = "must lie between 0 and 1, 1 excluded: 1 - x is drawn on a logarithmic scale."
    return line(found.source, found.key, problem, form) if problem else found


def make_space(forms: Forms, base: configs.RunConfig) -> list[Dimension]:
    """Everything that is wrong with a search space at once, before anything starts."""
    space, problems = [], []
    for key, (form, source) in forms.items():
        found = parse_range(key, form, source)
        if isinstance(found, str):
            problems.append(found)
        elif key.partition(".")[0] in FIXED or key in FIXED_KEYS:
            problems.append(line(source, key, "decides how a score is measured, so it cannot be searched. Use --set."))
        else:
            space.append(found)
    searched = {dimension.key for dimension in space}
    for dimension in space:
        problems += refused(dimension, base, searched)
    if problems:
        raise configs.ConfigError(problems)
    if not space:
        raise configs.ConfigError(["the search space is empty. Name a range with --search, e.g. --search "
                                   "algo.learning_rate=log(1e-4,1e-2)."])  # fmt: skip
    return space


def refused(dimension: Dimension, base: configs.RunConfig, searched: set[str]) -> list[str]:
    """Values that the config refuses whatever the other searched settings are."""
    for value in dimension.ends:
        data = with_values(base, {dimension.key: value})
        try:
            configs.RunConfig.model_validate(data)
        except ValidationError as error:
            rules = [rule for item in error.errors() for rule in item.get("ctx", {}).get("problems", [])]
            others = searched - {dimension.key}
            if rules and all(others & set(rule.keys) for rule in rules):
                continue  # another searched setting may make it fit
            if any(item["type"] == "extra_forbidden" for item in error.errors()):  # no value would do
                return unknown(dimension, base)
            return explain_errors(error, configs.RunConfig, data, {dimension.key: dimension.source})[0]
    return []


def unknown(dimension: Dimension, base: configs.RunConfig) -> list[str]:
    """The line about a key that does not exist, with all of its range."""
    data = with_values(base, {dimension.key: dimension.text})
    try:
        configs.RunConfig.model_validate(data)
    except ValidationError as error:
        return explain_errors(error, configs.RunConfig, data, {dimension.key: dimension.source})[0]
    raise AssertionError(f"{dimension.key} is a key")


def with_values(base: configs.RunConfig, values: Mapping[str, Any]) -> dict[str, Any]:
    """The config with these settings, not yet validated. A number keeps the form of a schedule: lin_3e-4 set to 1e-3
    is lin_1e-3."""
    data = copy.deepcopy(base.model_dump(mode="json"))
    schedules = {f"algo.{name}": schedule for name, schedule in base.algo.schedules().items()}
    for key, value in values.items():
        *parents, leaf = key.split(".")
        into = data
        for parent in parents:
            if not isinstance(into.get(parent), dict):
                into[parent] = {}
            into = into[parent]
        scaled = isinstance(value, NUMBER) and not isinstance(value, bool) and key in schedules
        into[leaf] = rescaled(schedules[key], value).to_form() if scaled else value
    return data


def found_at(data: Mapping[str, Any], key: str) -> Any:
    """A setting of `with_values`, as a file has it."""
    found: Any = data
    for part in key.split("."):
        found = found[part]
    return found


def rescaled(schedule: Schedule, highest: float) -> Schedule:
    """The same schedule with another highest value."""
    if schedule.highest <= 0 or schedule.is_constant:
        return Schedule.constant(highest)

    def scale(value: float) -> float:
        return highest if value == schedule.highest else float(f"{value * highest / schedule.highest:.12g}")

    knots = tuple((at, scale(value)) for at, value in schedule.knots)
    return Schedule(knots, schedule.shape, None if schedule.floor is None else scale(schedule.floor))


def value_at(config: configs.RunConfig, key: str) -> Any:
    """A setting as the number that a range would hold."""
    found: Any = config
    for part in key.split("."):
        found = found.get(part) if isinstance(found, dict) else getattr(found, part, None)
    return found.highest if isinstance(found, Schedule) else found
