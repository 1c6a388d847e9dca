"""LunarLander with other physics in every episode, drawn from ranges and the episode's own seed.

Gravity and wind are attributes of Gymnasium's class. Engine powers are constants of its module, so each env here runs
the class's own `step` with a private copy of that module's names: nothing is copied by hand, and no other env notices.
"""

from __future__ import annotations

from types import FunctionType
from typing import Any

import numpy as np
from gymnasium.envs.box2d import lunar_lander as original
from gymnasium.utils import EzPickle

from gymnast.core.errors import UserError
from gymnast.core.seeds import derive_seed

Range = float | tuple[float, float] | list[float]
# What may be drawn: least and greatest value that the simulation is meant for (the engines': half to twice the usual)
LIMITS = {
    "gravity": (-12.0, -0.01),
    "wind_power": (0.0, 20.0),
    "turbulence_power": (0.0, 2.0),
    "main_engine_power": (original.MAIN_ENGINE_POWER / 2, original.MAIN_ENGINE_POWER * 2),
    "side_engine_power": (original.SIDE_ENGINE_POWER / 2, original.SIDE_ENGINE_POWER * 2),
}


class RandomisedLunarLander(original.LunarLander):
    """Each argument is a number, or a range [low, high] to draw from. Without any it is LunarLander-v3.

    The agent sees the usual eight numbers: what was drawn it can only feel. `info` has the drawn values.
    """

    def __init__(
        self,
        render_mode: str | None = None,
        continuous: bool = False,
        gravity: Range = -10.0,
        wind_power: Range = 0.0,
        turbulence_power: Range = 0.0,
        main_engine_power: Range = original.MAIN_ENGINE_POWER,
        side_engine_power: Range = original.SIDE_ENGINE_POWER,
    ) -> None:
        given = {
            "gravity": gravity,
            "wind_power": wind_power,
            "turbulence_power": turbulence_power,
            "main_engine_power": main_engine_power,
            "side_engine_power": side_engine_power,
        }
        self.ranges = {name: _checked(name, value) for name, value in given.items()}
        windy = max(self.ranges["wind_power"][1], self.ranges["turbulence_power"][1]) > 0.0
        super().__init__(render_mode, continuous, enable_wind=windy)
        EzPickle.__init__(self, render_mode, continuous, **given)  # a copy is made with these, not with the parent's
        self.physics: dict[str, float] = {}  # of this episode
        self._constants = dict(vars(original))
        step: Any = original.LunarLander.step
        code = step.__code__.replace()  # a copy: Python caches in it where its names were found, and ours are elsewhere
        self._step = FunctionType(code, self._constants, "step", step.__defaults__)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        # a generator of its own: the same seed gives the terrain that it gives in LunarLander-v3
        root = int(self.np_random.integers(2**32)) if seed is None else seed
        rng = np.random.default_rng(derive_seed(root, "physics"))
        self.physics = {name: float(rng.uniform(low, high)) for name, (low, high) in self.ranges.items()}
        self.gravity = self.physics["gravity"]
        self.wind_power, self.turbulence_power = self.physics["wind_power"], self.physics["turbulence_power"]
        self._constants["MAIN_ENGINE_POWER"] = self.physics["main_engine_power"]
        self._constants["SIDE_ENGINE_POWER"] = self.physics["side_engine_power"]
        observation, _ = super().reset(seed=seed, options=options)
        return observation, dict(self.physics)

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        observation, reward, terminated, truncated, _ = self._step(self, action)
        return observation, reward, terminated, truncated, self.physics.copy()


def _checked(name: str, value: Range) -> tuple[float, float]:
    low, high = LIMITS[name]
    pair = tuple(value) if isinstance(value, list | tuple) else (value, value)
    numbers = all(isinstance(end, int | float) and not isinstance(end, bool) for end in pair)
    if len(pair) != 2 or not numbers or not low <= pair[0] <= pair[1] <= high:
        raise UserError(
            f"env.kwargs: {name} is {value!r} and must be a number or a range [low, high] within {low:g} to {high:g}."
        )
    return float(pair[0]), float(pair[1])
