"""From a command's options to a plan. Whatever is wrong with them is reported before anything starts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gymnast import config as configs
from gymnast.config.files import is_preset
from gymnast.core.errors import UserError
from gymnast.runs.references import CHECKPOINT_NAME, CHECKPOINT_SUFFIX, resolve_checkpoint
from gymnast.verbs.sweep.plan import EVALUATIONS, SAMPLERS, Plan
from gymnast.verbs.sweep.space import Dimension, Forms, make_space, parse_search
from gymnast.verbs.sweep.space_file import read_space
from gymnast.verbs.train import resolve_config

NO_FILE: tuple[Forms, str | None, list[str]] = {}, None, []


@dataclass(frozen=True)
class Base:
    """The config that a sweep starts from."""

    name: str
    config: configs.RunConfig
    search: dict[str, Any]  # what is worth varying in it
    given: tuple[str, ...]
    init_from: Path | None = None


def base_of(target: str | None, start: str | None, overrides: Sequence[str], steps: int | None, runs_dir: Path) -> Base:
    if (target is None) == (start is None):
        raise UserError("name an ENV or a config file, or a run with --from: one of them.")
    if start is not None:
        base = base_of_run(start, overrides, steps, runs_dir)
    else:
        resolved = resolve_config(str(target), overrides, steps=steps)
        base = Base(resolved.target, resolved.config, resolved.search, tuple(overrides))
    least = 4 * EVALUATIONS
    if base.config.train.total_timesteps < least:
        raise UserError(f"--steps {base.config.train.total_timesteps}: a sweep needs {least} steps or more.")
    if base.config.stages:
        raise UserError(f"{base.name}: scores of different stages cannot be compared. Sweep a config without stages.")
    return base


def base_of_run(ref: str, overrides: Sequence[str], steps: int | None, runs_dir: Path) -> Base:
    """The config of a run; where a checkpoint of it is named, every training starts with that agent."""
    from gymnast.runs import checkpoint

    run, path = resolve_checkpoint(ref, runs_dir)
    saved = checkpoint.load(path)
    config = configs.override(saved.config, overrides, steps)
    shared = f"{config.env.id}:{config.algo.name}" if is_preset(config.env.id) else None
    try:
        search = configs.load(shared or config.env.id).search
    except configs.ConfigError:  # its preset has no variant of that name
        search = configs.load(f"CartPole-v1:{config.algo.name}").search
    named = CHECKPOINT_NAME.fullmatch(ref.rpartition("/")[2]) or ref.endswith(CHECKPOINT_SUFFIX)
    name, init_from = (f"{run.id}/{path.stem}", path.resolve()) if named else (run.id, None)
    return Base(name, config, search, tuple(overrides), init_from)


def make_plan(
    base: Base,
    *,
    search: Sequence[str],
    space: Path | None,
    sampler: str | None,
    seed: int,
    seeds: int,
    against: str | None,
) -> tuple[Plan, list[str]]:
    """And what of a W&B file is not used."""
    forms, wanted, notes = read_space(space) if space is not None else NO_FILE
    forms = forms | parse_search(search)
    if not forms:
        forms = {key: (form, f"search of {base.name}") for key, form in base.search.items()}
    found = make_space(forms, base.config)
    sampler = sampler or wanted or "tpe"
    refuse_sampler(found, sampler)
    other = None
    if against is not None:
        resolved = resolve_config(against, [], steps=base.config.train.total_timesteps)
        other = resolved.target, resolved.config
    shipped = preset_of(base.config)
    return Plan(base.name, base.config, found, sampler, seed, seeds, base.init_from, other, base.given, shipped), notes


def preset_of(config: configs.RunConfig) -> configs.RunConfig | None:
    """What is shipped for the env and the algorithm of a config."""
    if not is_preset(config.env.id):
        return None
    shipped = configs.load(config.env.id).config
    return shipped if shipped.algo.name == config.algo.name else None


def refuse_sampler(space: Sequence[Dimension], sampler: str) -> None:
    if sampler not in SAMPLERS:
        raise UserError(f"--sampler {sampler}: must be one of {', '.join(SAMPLERS)}.")
    ranges = [dim for dim in space if dim.kind != "choice"]
    if sampler == "grid" and ranges:
        lines = [f"{dim.source}: {dim.key} = {dim.text}: a grid needs a list, like [a, b, c]." for dim in ranges]
        raise configs.ConfigError(lines)
