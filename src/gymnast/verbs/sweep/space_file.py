"""A search space from a file: ours, or one that was written for W&B sweeps."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from gymnast import config as configs
from gymnast.config.files import YamlFile, read_file
from gymnast.config.problems import line
from gymnast.verbs.sweep.space import Forms

SAMPLERS = {"grid": "grid", "random": "random", "bayes": "tpe"}  # W&B's methods
RANGES = {
    "uniform": "uniform",
    "q_uniform": "uniform",
    "int_uniform": "int",
    "log_uniform_values": "log",
    "q_log_uniform_values": "log",
    "inv_log_uniform_values": "log",
}


def read_space(path: Path) -> tuple[Forms, str | None, list[str]]:
    """Ranges by key with their sources, the sampler a W&B file asks for, and what of it is not used."""
    file = read_file(path)
    if "parameters" not in file.data:
        return {key: (form, file.at(tuple(at))) for key, (form, at) in flat(file.data).items()}, None, []
    if not isinstance(file.data["parameters"], dict) or not file.data["parameters"]:
        raise configs.ConfigError([f"{file.at(('parameters',))}: parameters: must be a mapping that is not empty."])
    method = file.data.get("method")
    if method not in (None, *SAMPLERS):
        where = file.at(("method",))
        raise configs.ConfigError([line(where, "method", f"must be one of {', '.join(SAMPLERS)}.", method)])
    found: Forms = {}
    problems: list[str] = []
    read_parameters(file, file.data["parameters"], ("parameters",), "", found, problems)
    if problems:
        raise configs.ConfigError(problems)
    unused = [key for key in ("metric", "early_terminate", "run_cap") if key in file.data]
    notes = (
        [f"{path}: {', '.join(unused)}: not used; a sweep has its own score and its own rule to stop"] if unused else []
    )
    return found, SAMPLERS.get(str(method)), notes


def flat(data: dict[str, Any], above: tuple[str, ...] = ()) -> dict[str, tuple[Any, tuple[str, ...]]]:
    """`algo: {gamma: ...}` and `algo.gamma: ...` alike."""
    found: dict[str, tuple[Any, tuple[str, ...]]] = {}
    for key, value in data.items():
        path = (*above, str(key))
        found |= flat(value, path) if isinstance(value, dict) else {".".join(path): (value, path)}
    return found


def read_parameters(
    file: YamlFile,
    parameters: dict[str, Any],
    path: tuple[str, ...],
    prefix: str,
    found: Forms,
    problems: list[str],
) -> None:
    for name, spec in parameters.items():
        here, key = (*path, str(name)), f"{prefix}{name}"
        source = file.at(here)
        if isinstance(spec, dict) and isinstance(spec.get("parameters"), dict):
            read_parameters(file, spec["parameters"], (*here, "parameters"), f"{key}.", found, problems)
            continue
        form = range_of(spec) if isinstance(spec, dict) else None
        if form is None:
            known = ", ".join([*RANGES, "values", "value", "min and max"])
            problems.append(line(source, key, f"is not a parameter that is understood. Known: {known}.", spec))
        else:
            found[key] = form, source


def range_of(spec: dict[str, Any]) -> Any:
    """Our form of one of W&B's; None where there is none."""
    if "value" in spec:
        return [spec["value"]]
    if "values" in spec:
        return None if "probabilities" in spec else spec["values"]
    if "min" not in spec or "max" not in spec:
        return None
    low, high, distribution = spec["min"], spec["max"], spec.get("distribution")
    whole = isinstance(low, int) and isinstance(high, int)
    kind = RANGES.get(str(distribution)) if distribution is not None else "int" if whole else "uniform"
    if str(distribution).startswith("q_") and whole and spec.get("q", 1) == 1:  # W&B's way to search whole numbers
        kind = "logint" if kind == "log" else "int"
    return None if kind is None else f"{kind}({low}, {high})"
