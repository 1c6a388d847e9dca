"""Ids registered with Gymnasium that no other suite claims: its own envs, and a user's as "module:Env-v0"."""

from __future__ import annotations

from gymnast.envs.suites.base import Suite

_EXTRAS = {
    "gymnasium.envs.box2d": "box2d",
    "gymnasium.envs.mujoco": "mujoco",
    "gymnasium.envs.classic_control": "classic",
    "gymnasium.envs.toy_text": "classic",
}


class GymnasiumSuite(Suite):
    def extra_of(self, module: str) -> str | None:
        return next((extra for package, extra in _EXTRAS.items() if module.startswith(package)), None)

    def is_slow(self, env_id: str) -> bool:
        return env_id == "CarRacing-v3"
