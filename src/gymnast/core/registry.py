"""Names the config may use, and where each one lives. Targets are imported when they are first asked for."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from typing import Any

from gymnast.core.errors import UserError, did_you_mean


class Registry:
    """Maps a name to "module:attribute" or to an object; unknown names and duplicates are refused with the fix."""

    def __init__(self, kind: str, entries: dict[str, Any], hints: dict[str, str] | None = None) -> None:
        self.kind = kind
        self._entries = dict(entries)
        self._hints = hints or {}

    def __iter__(self) -> Iterator[str]:
        """In the order of registration."""
        return iter(self._entries)

    def names(self) -> list[str]:
        return sorted(self._entries)

    def register(self, name: str, target: Any) -> None:
        if name in self._entries:
            raise UserError(f"{self.kind} {name!r} is registered already; choose another name.")
        self._entries[name] = target

    def problem(self, name: str) -> str | None:
        """Why `name` cannot be used, or None."""
        if name in self._entries:
            return None
        advice = f" {self._hints[name]}" if name in self._hints else did_you_mean(name, self._entries)
        return f"unknown {self.kind} {name!r}.{advice} Known: {', '.join(self.names())}."

    def get(self, name: str) -> Any:
        if problem := self.problem(name):
            raise UserError(problem)
        target = self._entries[name]
        if isinstance(target, str):
            module, attribute = target.split(":")
            target = self._entries[name] = getattr(importlib.import_module(module), attribute)
        return target


WRAPPERS = Registry(
    "wrapper",
    {
        "frame_stack": "gymnast.envs.wrappers.frame_stack:FrameStack",
        "frame_skip": "gymnast.envs.wrappers.actions:FrameSkip",
        "time_limit": "gymnast.envs.wrappers.time_limit:TimeLimit",
        "sticky_actions": "gymnast.envs.wrappers.actions:StickyActions",
        "observation_noise": "gymnast.envs.wrappers.observations:ObservationNoise",
        "action_noise": "gymnast.envs.wrappers.actions:ActionNoise",
        "flatten": "gymnast.envs.wrappers.observations:Flatten",
        "one_hot": "gymnast.envs.wrappers.observations:OneHot",
        "action_remap": "gymnast.envs.wrappers.actions:ActionRemap",
        "action_repeat": "gymnast.envs.wrappers.actions:ActionRepeat",
        "grayscale": "gymnast.envs.wrappers.pictures:Grayscale",
        "resize": "gymnast.envs.wrappers.pictures:Resize",
        "observation_keys": "gymnast.envs.wrappers.observations:ObservationKeys",
        "drop_components": "gymnast.envs.wrappers.observations:DropComponents",
        "rescale_observation": "gymnast.envs.wrappers.observations:RescaleObservation",
    },
    hints={
        "embedding": "A learned embedding is part of the agent: set agent.discrete_encoding=embedding.",
        "discrete_encoding": "Use the wrapper one_hot, or set agent.discrete_encoding to one_hot or embedding.",
        "reward_scale": "Rewards are scaled on the learner's side: set env.reward.scale.",
        "reward_clip": "Rewards are clipped on the learner's side: set env.reward.clip.",
        "normalize_obs": "Normalisation that learns its numbers is part of the agent: set agent.normalize_obs=true. "
        "With fixed numbers: the wrapper rescale_observation.",
        "normalize_reward": "Normalisation is part of the agent: set agent.normalize_reward=true. "
        "By a fixed number: set env.reward.scale.",
    },
)
# By env id: what `env.shaping` can weigh. Registered ids only; an env without any has no entry.
SHAPERS = Registry(
    "shaper",
    {
        "CartPole-v1": "gymnast.envs.shaping.components:CARTPOLE",
        "MountainCar-v0": "gymnast.envs.shaping.components:MOUNTAIN_CAR",
        "LunarLander-v3": "gymnast.envs.shaping.components:LUNAR_LANDER",
        "LunarLanderContinuous-v3": "gymnast.envs.shaping.components:LUNAR_LANDER",
        "gymnast/RandomisedLunarLander-v0": "gymnast.envs.shaping.components:LUNAR_LANDER",
    },
)
# By how its ids begin; an id belongs to the longest beginning that fits.
SUITES = Registry(
    "suite",
    {
        "": "gymnast.envs.suites.gymnasium:GymnasiumSuite",
        "ALE/": "gymnast.envs.suites.atari.suite:AtariSuite",
        "MinAtar/": "gymnast.envs.suites.minatar:MinAtarSuite",
        "Retro/": "gymnast.envs.suites.retro.suite:RetroSuite",
        "Vizdoom": "gymnast.envs.suites.vizdoom.suite:DoomSuite",
        "gymnast/": "gymnast.envs.suites.own.suite:OwnSuite",
    },
)
ENGINES = Registry(
    "engine",
    {
        "sync": "gymnast.envs.engines.sync:SyncEngine",
        "process": "gymnast.envs.engines.process:ProcessEngine",
        "cartpole": "gymnast.envs.engines.cartpole.engine:CartPoleEngine",
        "envpool": "gymnast.envs.engines.envpool:EnvPoolEngine",
        "ale": "gymnast.envs.engines.ale:AleEngine",
    },
)
ENCODERS = Registry(
    "encoder",
    {
        "mlp": "gymnast.agent.bodies.mlp:MLPEncoder",
        "nature_cnn": "gymnast.agent.bodies.cnn:NatureCNN",
        "small_cnn": "gymnast.agent.bodies.cnn:SmallCNN",
        "impala_cnn": "gymnast.agent.bodies.cnn:ImpalaCNN",
        "board_cnn": "gymnast.agent.bodies.cnn:BoardCNN",
    },
    hints={"cnn": "Did you mean 'nature_cnn' (pictures from 36 x 36) or 'small_cnn' (from 8 x 8)?"},
)
ALGOS = Registry(
    "algorithm",
    {
        "ppo": "gymnast.rl.algos.ppo:PPO",
        "a2c": "gymnast.rl.algos.a2c:A2C",
        "reinforce": "gymnast.rl.algos.reinforce:Reinforce",
    },
)
EXTENSIONS = Registry("extension", {})  # objects that an algorithm calls at four points: see `rl/extensions`
SINKS = Registry(
    "sink",
    {
        "console": "gymnast.sinks.console.console:ConsoleSink",
        "jsonl": "gymnast.sinks.jsonl:JsonlSink",
        "csv": "gymnast.sinks.csv:CsvSink",
        "wandb": "gymnast.sinks.trackers.wandb:WandbTracker",
        "trackio": "gymnast.sinks.trackers.trackio:TrackioTracker",
        "tensorboard": "gymnast.sinks.trackers.tensorboard:TensorBoardTracker",
    },
)
# By what --on says; one that takes an address is made with it (see `jobs/launchers`).
LAUNCHERS = Registry(
    "launcher",
    {
        "local": "gymnast.jobs.launchers.local:LocalLauncher",
        "ray": "gymnast.jobs.launchers.ray:RayLauncher",
        "modal": "gymnast.jobs.launchers.modal:ModalLauncher",
    },
)
