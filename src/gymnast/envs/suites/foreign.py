"""Ids that people know from other packages: where each is, or why it cannot be trained."""

from __future__ import annotations

import importlib.util
import re
import shlex
from typing import NamedTuple

SEVERAL_AGENTS = "One agent in a gymnasium.Env can be trained; envs of several agents (PettingZoo) are not supported."


class Package(NamedTuple):
    """A package whose envs are registered once its module is imported."""

    pattern: str  # of its ids
    module: str
    install: str  # what pip installs

    def advice(self, name: str) -> str:
        missing = importlib.util.find_spec(self.module) is None
        first = f"run pip install {shlex.quote(self.install)}, then " if missing else ""
        return f"It is of another package: {first}use {self.module}:{name}."


PACKAGES = (
    Package(r"(MiniGrid|BabyAI)-", "minigrid", "minigrid"),
    Package(r"dm_control/", "shimmy", "shimmy[dm-control]"),
    Package(r"bsuite/", "shimmy", "shimmy[bsuite]"),
    Package(
        r"(Fetch|Hand(Reach|Manipulate)|AntMaze|PointMaze|Adroit|FrankaKitchen)",
        "gymnasium_robotics",
        "gymnasium-robotics",
    ),
    Package(
        r"(highway|merge|roundabout|parking|intersection|racetrack|exit|u-turn|two-way)(-[a-z-]+)?-v",
        "highway_env",
        "highway-env",
    ),
    Package(r"Panda(Reach|Slide|Push|PickAndPlace|Stack|Flip)", "panda_gym", "panda-gym"),
)
OLD_GYM = (
    "is registered with gym, the library before Gymnasium, which none of its envs can be made with: write a "
    "gymnasium.Env around it, and use module:Env-v0."
)
# a pattern of ids or modules, and what to say of them; {0} is what the pattern's group has found
SENTENCES = (
    (r"(?:ALE/)?(\w+?)(?:-v5)?_objects$", "Use ALE/{0}-v5:objects, where the preset has that variant."),
    (r"procgen\b", f"Procgen {OLD_GYM}"),
    (
        r"(?:gym_super_mario_bros\b|SuperMarioBros)",
        f"gym-super-mario-bros {OLD_GYM} Retro/ has games of your own ROMs.",
    ),
    (r"(?:pybullet_envs\b|\w+BulletEnv-)", f"pybullet_envs {OLD_GYM} MuJoCo's envs, like HalfCheetah-v5, are similar."),
    (
        r"(?:dm_control|dmc|dm_env)\b",
        "DMControl is used by shimmy: run pip install 'shimmy[dm-control]', then use "
        "shimmy:dm_control/DOMAIN-TASK-v0, like shimmy:dm_control/cheetah-run-v0.",
    ),
    (r"(?:pettingzoo\b|[a-z][a-z_]*_v\d+$)", SEVERAL_AGENTS),
)


def foreign_advice(name: str, module: str = "") -> str | None:
    """What to do with an id that is not registered here, in a sentence; None: nobody knows it. `module`: what stands
    before its colon."""
    for package in PACKAGES:
        if re.match(package.pattern, name) and module in ("", package.module):
            return None if module and importlib.util.find_spec(module) else package.advice(name)
    for pattern, sentence in SENTENCES:
        for said in (name, module):
            if said and (found := re.match(pattern, said, re.IGNORECASE)):
                return sentence.format(*found.groups())
    return None
