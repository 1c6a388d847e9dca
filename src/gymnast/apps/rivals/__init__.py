"""Other libraries to be measured against. Each has a runner, which uses nothing but that library's public interface,
and a translation of our config into its words. None of their code is here."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gymnast.apps.extras import EXTRAS
from gymnast.apps.rivals import sb3
from gymnast.errors import UserError, did_you_mean

if TYPE_CHECKING:
    from gymnast.config import RunConfig


@dataclass(frozen=True)
class Rival:
    name: str
    title: str
    runner: Path
    translate: Callable[[RunConfig], tuple[dict[str, Any], list[str]]]
    extra: str | None = None  # ours that installs it into our own interpreter


RIVALS = {
    rival.name: rival
    for rival in (
        Rival("sb3", "stable-baselines3", Path(__file__).with_name("run_sb3.py"), sb3.translate, extra="sb3"),
    )
}


@dataclass(frozen=True)
class Opponent:
    """A rival, the interpreter it runs in, and its job."""

    rival: Rival
    python: str
    job: dict[str, Any]
    notes: list[str]

    @property
    def name(self) -> str:
        return self.rival.name

    @property
    def command(self) -> list[str]:
        return [self.python, str(self.rival.runner)]


def opponents(config: RunConfig, names: Sequence[str], pythons: Mapping[str, str]) -> list[Opponent]:
    """Those the user named, in that order; whatever can be wrong with them is told before anything is measured."""
    for name in pythons:
        if name not in names:
            raise UserError(f"--python {name}=...: {name} is not among those of --against.")
    return [_opponent(config, name, pythons.get(name)) for name in dict.fromkeys(names)]


def _opponent(config: RunConfig, name: str, python: str | None) -> Opponent:
    if name not in RIVALS:
        hint = did_you_mean(name, RIVALS)
        raise UserError(f"--against {name}: there is no runner for it.{hint} Known: {', '.join(RIVALS)}.")
    rival = RIVALS[name]
    if python is None:
        extra = EXTRAS[rival.extra] if rival.extra else None
        if extra is None:
            raise UserError(f"--against {name}: say which interpreter has it: --python {name}=PATH.")
        if not extra.installed:
            raise UserError(
                f"--against {name}: {rival.title} is not installed. Run: {extra.command}, "
                f"or name an interpreter that has it: --python {name}=PATH."
            )
    elif shutil.which(os.path.expanduser(python)) is None:
        raise UserError(f"--python {name}={python}: no such program.")
    job, notes = rival.translate(config)
    return Opponent(rival, os.path.expanduser(python) if python else sys.executable, job, notes)


def parse_names(text: str | None) -> list[str]:
    return [name.strip() for name in (text or "").split(",") if name.strip()]


def parse_pythons(pairs: Sequence[str]) -> dict[str, str]:
    """{"sb3": "/path/python"} of ["sb3=/path/python"]."""
    found = {}
    for pair in pairs:
        name, equals, path = pair.partition("=")
        if not (name and equals and path):
            raise UserError(f"--python {pair}: write NAME=PATH, like sb3=.venv-sb3/bin/python.")
        found[name] = path
    return found
