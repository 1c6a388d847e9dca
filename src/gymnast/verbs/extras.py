"""The optional packages: what each brings, whether it is there, and the one command that adds it. Imports none."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from gymnast.core.errors import UserError, install_command, not_installed
from gymnast.core.machine import is_installed, package_versions
from gymnast.core.registry import SINKS

PICTURES = (".png", ".svg", ".pdf")


@dataclass(frozen=True)
class Extra:
    name: str
    module: str  # there if it can be imported
    distributions: tuple[str, ...]  # any of them has its version
    brings: str

    @property
    def installed(self) -> bool:
        return is_installed(self.module)

    @property
    def command(self) -> str | None:
        """That adds it; None: it is there."""
        return None if self.installed else install_command(self.name)

    @property
    def problem(self) -> str | None:
        """That it is not installed, with what adds it; None: it is there."""
        return None if self.installed else not_installed(self.module, extras=[self.name])

    @property
    def version(self) -> str | None:
        return version_of(*self.distributions) if self.installed else None


def version_of(*distributions: str) -> str | None:
    """The installed version of the first of these that is there."""
    return next(iter(package_versions(*distributions).values()), None)


EXTRAS = {
    extra.name: extra
    for extra in (
        Extra("classic", "pygame", ("pygame-ce", "pygame"), "pictures of classic control and toy text"),
        Extra("box2d", "Box2D", ("box2d", "box2d-py"), "LunarLander, BipedalWalker, CarRacing"),
        Extra("mujoco", "mujoco", ("mujoco",), "MuJoCo robots"),
        Extra("envpool", "envpool", ("envpool",), "envs stepped in C++, several times as fast"),
        Extra("atari", "ale_py", ("ale-py",), "Atari games"),
        Extra("vizdoom", "vizdoom", ("vizdoom",), "Doom"),
        Extra("retro", "stable_retro", ("stable-retro",), "console games"),
        Extra("minatar", "minatar", ("minatar",), "Atari in miniature"),
        Extra("plot", "matplotlib", ("matplotlib",), "pictures of charts as files"),
        Extra("video", "av", ("av",), "videos of agents"),
        Extra("minari", "minari", ("minari",), "datasets of what was played"),
        Extra("studio", "uvicorn", ("uvicorn",), "the web app: gymnast studio"),
        Extra("sweep", "optuna", ("optuna",), "searches for settings: gymnast sweep"),
        Extra("ray", "ray", ("ray",), "runs on a Ray cluster: --on ray"),
        Extra("modal", "modal", ("modal",), "runs on Modal: --on modal"),
        Extra("sb3", "stable_baselines3", ("stable-baselines3",), "comparisons with Stable-Baselines3"),
    )
}


def all_extras() -> dict[str, Extra]:
    """Those, and what trackers say of themselves."""
    from gymnast.sinks.trackers.sink import is_tracker

    kinds = [SINKS.get(name) for name in SINKS.names() if is_tracker(name)]
    trackers = [Extra(kind.extra, kind.package, (kind.package,), kind.brings) for kind in kinds if kind.extra]
    return EXTRAS | {extra.name: extra for extra in trackers}


def check_file(option: str, path: Path, kinds: Sequence[str]) -> None:
    """A file that is to be written, by its ending and its folder."""
    if path.suffix not in kinds:
        raise UserError(f"{option} {path}: must end in one of {', '.join(kinds)}.")
    if not path.parent.is_dir():
        raise UserError(f"{option} {path}: there is no folder {str(path.parent)!r}.")
    if path.exists() and not path.is_file():
        raise UserError(f"{option} {path}: is not a regular file; name another one.")


def check_picture(option: str, path: Path) -> None:
    """What can be wrong with a picture that matplotlib writes is reported before the work begins."""
    check_file(option, path, PICTURES)
    if problem := EXTRAS["plot"].problem:
        raise UserError(f"{option}: {problem}")
