"""The optional packages: what each brings, whether it is there, and the one command that adds it. Imports none."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import metadata, util

from gymnast.core.errors import install_command


@dataclass(frozen=True)
class Extra:
    name: str
    module: str  # there if it can be imported
    distributions: tuple[str, ...]  # any of them has its version
    brings: str

    @property
    def installed(self) -> bool:
        spec = util.find_spec(self.module)
        return spec is not None and spec.origin is not None  # a bare folder of that name is no package

    @property
    def command(self) -> str:
        return install_command(self.name)

    @property
    def version(self) -> str | None:
        return version_of(*self.distributions) if self.installed else None


def version_of(*distributions: str) -> str | None:
    """The installed version of the first of these that is there."""
    for distribution in distributions:
        try:
            return metadata.version(distribution)
        except metadata.PackageNotFoundError:
            continue
    return None


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
        Extra("video", "av", ("av",), "films of agents"),
        Extra("wandb", "wandb", ("wandb",), "runs in Weights & Biases"),
        Extra("trackio", "trackio", ("trackio",), "runs in a local dashboard"),
        Extra("tensorboard", "tensorboard", ("tensorboard",), "runs in TensorBoard"),
        Extra("sb3", "stable_baselines3", ("stable-baselines3",), "comparisons with Stable-Baselines3"),
    )
}
