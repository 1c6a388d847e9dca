"""Other libraries to compare with. Each has a translation of our config into its words and either a runner, which uses
nothing but that library's public interface, or a command line of its own. None of their code is here."""

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
from gymnast.verbs.speed.libraries import cleanrl, purejaxrl, sample_factory, sb3
from gymnast.verbs.speed.libraries.command import RUNNERS, Command, Commands

if TYPE_CHECKING:
    from gymnast.config import RunConfig


@dataclass(frozen=True)
class Library:
    name: str
    title: str
    translate: Callable[[RunConfig], tuple[dict[str, Any] | Command, list[str]]]
    runner: Path | None = None  # gets a job in JSON; a command needs none
    extra: str | None = None  # ours that installs it into our own interpreter
    pip: tuple[str, ...] = ()  # what to install, one after the other, into one of its own
    modules: str = "."  # where its modules are, in a checkout of its repository
    clone: str | None = None  # what to clone where it is no package: the user must name a checkout

    def how_to_get(self, python: str) -> str:
        steps = [f"{python} -m pip install {what}" for what in self.pip]
        return " && ".join([*steps, *([f"git clone {self.clone}"] if self.clone else [])])


LIBRARIES = {
    library.name: library
    for library in (
        Library("sb3", "stable-baselines3", sb3.translate, RUNNERS / "run_sb3.py", extra="sb3"),
        Library(
            "cleanrl",
            "CleanRL",
            cleanrl.translate,
            pip=(
                "torch gymnasium==0.29.1 tyro tensorboard",
                # the package index has only a much older one; this one asks for older Pythons than it needs
                "--no-deps --ignore-requires-python git+https://github.com/vwxyzjn/cleanrl",
            ),
        ),
        Library("sample-factory", "Sample Factory", sample_factory.translate, pip=("sample-factory",)),
        Library(
            "purejaxrl",
            "PureJaxRL",
            purejaxrl.translate,
            pip=('jax flax optax distrax brax navix "gymnax<1"',),  # its env steps return five values, not six
            modules="purejaxrl",
            clone="https://github.com/luchris429/purejaxrl",
        ),
    )
}


@dataclass(frozen=True)
class Baseline:
    """A library, the interpreter it runs in, and its job."""

    library: Library
    python: str
    job: dict[str, Any] | Command
    notes: list[str]
    modules: Path | None = None  # in a checkout of its repository

    @property
    def name(self) -> str:
        return self.library.name

    @property
    def can_be_scored(self) -> bool:
        """While it trains."""
        return not isinstance(self.job, Command)

    def start(self, mode: str) -> Worker | Commands:
        """In one of `windows` and `once`."""
        if isinstance(self.job, Command):
            return Commands(self.name, self.python, self.job, self.library.how_to_get(self.python), self.modules)
        return Worker(self.run(mode), name=self.name)

    def run(self, mode: str, **arguments: Any) -> Job:
        """What the runner is to do, for a library that has one; it also knows `benchmark`."""
        return Job(f"{self.library.runner}:{mode}", {"spec": self.job, **arguments}, self.python)


def baselines_for(
    config: RunConfig, names: Sequence[str], pythons: Mapping[str, str], repos: Mapping[str, str] | None = None
) -> list[Baseline]:
    """Those the user named, in that order; whatever can be wrong with them is reported before anything is measured."""
    repos = repos or {}
    for option, paths in (("--python", pythons), ("--repo", repos)):
        for name in paths:
            if name not in names:
                raise UserError(f"{option} {name}=...: {name} is not among those of --against.")
    return [_baseline(config, name, pythons.get(name), repos.get(name)) for name in dict.fromkeys(names)]


def _baseline(config: RunConfig, name: str, python: str | None, repo: str | None) -> Baseline:
    if name not in LIBRARIES:
        hint = did_you_mean(name, LIBRARIES)
        raise UserError(f"--against {name}: no such library is known.{hint} Known: {', '.join(LIBRARIES)}.")
    library = LIBRARIES[name]
    needed = [f"--python {name}=PATH, an interpreter that has it"] if python is None and library.extra is None else []
    needed += [f"--repo {name}=DIR, a checkout of its repository"] if repo is None and library.clone else []
    if needed:
        own = f".venv-{name}"
        get = f"python -m venv {own} && {library.how_to_get(f'{own}/bin/python')}"
        raise UserError(f"--against {name}: add {' and '.join(needed)}. To get {library.title}: {get}")
    found = _interpreter(library, python)
    modules = None if repo is None else (Path(repo).expanduser() / library.modules).absolute()
    if modules is not None and not modules.is_dir():
        raise UserError(f"--repo {name}={repo}: there is no folder {modules}. Name a checkout of {library.title}.")
    job, notes = library.translate(config)
    return Baseline(library, found, job, notes, modules)


def _interpreter(library: Library, python: str | None) -> str:
    if python is None and library.extra and not (extra := EXTRAS[library.extra]).installed:
        raise UserError(
            f"--against {library.name}: name an interpreter that has it, --python {library.name}=PATH, or install it "
            f"here: {extra.problem}"
        )
    found = shutil.which(os.path.expanduser(python or sys.executable))
    if found is None:
        raise UserError(f"--python {library.name}={python}: no such program.")
    return os.path.abspath(found)


def parse_names(text: str | None) -> list[str]:
    return [name.strip() for name in (text or "").split(",") if name.strip()]


def parse_paths(option: str, pairs: Sequence[str]) -> dict[str, str]:
    """{"sb3": "/path/python"} of ["sb3=/path/python"]."""
    found = {}
    for pair in pairs:
        name, equals, path = pair.partition("=")
        if not (name and equals and path):
            example = "sb3=.venv-sb3/bin/python" if option == "--python" else "cleanrl=path/to/cleanrl"
            raise UserError(f"{option} {pair}: write NAME=PATH, like {example}.")
        found[name] = path
    return found
