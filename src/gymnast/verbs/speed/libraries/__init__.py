"""Other libraries to be measured against. Each has a translation of our config into its words and either a runner,
which uses nothing but that library's public interface, or a command line of its own. None of their code is here."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gymnast.core.errors import UserError, did_you_mean
from gymnast.jobs.worker import Job, Worker
from gymnast.verbs.extras import EXTRAS
from gymnast.verbs.speed.libraries import cleanrl as cleanrl_command
from gymnast.verbs.speed.libraries import sample_factory as sample_factory_command
from gymnast.verbs.speed.libraries import sb3
from gymnast.verbs.speed.libraries.command import Command, Commands

if TYPE_CHECKING:
    from gymnast.config import RunConfig


@dataclass(frozen=True)
class Rival:
    name: str
    title: str
    translate: Callable[[RunConfig], tuple[dict[str, Any] | Command, list[str]]]
    runner: Path | None = None  # what a job in JSON is sent to; a command needs none
    extra: str | None = None  # ours that installs it into our own interpreter
    pip: tuple[str, ...] = ()  # what to install, one after the other, into one of its own

    def how_to_get(self, python: str) -> str:
        return " && ".join(f"{python} -m pip install {what}" for what in self.pip)


RIVALS = {
    rival.name: rival
    for rival in (
        Rival("sb3", "stable-baselines3", sb3.translate, Path(__file__).with_name("run_sb3.py"), extra="sb3"),
        Rival(
            "cleanrl",
            "CleanRL",
            cleanrl_command.translate,
            pip=(
                "torch gymnasium==0.29.1 tyro tensorboard",
                # the package index has only a much older one; this one asks for older Pythons than it needs
                "--no-deps --ignore-requires-python git+https://github.com/vwxyzjn/cleanrl",
            ),
        ),
        Rival("sample-factory", "Sample Factory", sample_factory_command.translate, pip=("sample-factory",)),
    )
}


@dataclass(frozen=True)
class Opponent:
    """A rival, the interpreter it runs in, and its job."""

    rival: Rival
    python: str
    job: dict[str, Any] | Command
    notes: list[str]

    @property
    def name(self) -> str:
        return self.rival.name

    @property
    def can_be_scored(self) -> bool:
        """While it trains."""
        return not isinstance(self.job, Command)

    def start(self, mode: str) -> Worker | Commands:
        """In one of `windows`, `once` and `solve`."""
        if isinstance(self.job, Command):
            return Commands(self.name, self.python, self.job, self.rival.how_to_get(self.python))
        return Worker(self.run(mode), name=self.name)

    def run(self, mode: str, **arguments: Any) -> Job:
        """What the runner is to do, for a library that has one."""
        return Job(f"{self.rival.runner}:{mode}", {"spec": self.job, **arguments}, self.python)


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
            own = f".venv-{name}"
            raise UserError(
                f"--against {name}: say which interpreter has {rival.title}: --python {name}=PATH. To make one: "
                f"python -m venv {own} && {rival.how_to_get(f'{own}/bin/python')}"
            )
        if not extra.installed:
            raise UserError(
                f"--against {name}: {rival.title} is not installed. Run: {extra.command}, "
                f"or name an interpreter that has it: --python {name}=PATH."
            )
    found = shutil.which(os.path.expanduser(python or sys.executable))
    if found is None:
        raise UserError(f"--python {name}={python}: no such program.")
    job, notes = rival.translate(config)
    return Opponent(rival, os.path.abspath(found), job, notes)


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
