"""Ids registered with Gymnasium that no other suite claims: its own envs, and a user's as "module:Env-v0"."""

from __future__ import annotations

import copy
import os
import warnings
from collections.abc import Mapping
from ctypes.util import find_library
from typing import TYPE_CHECKING, Any

from gymnast.core.errors import UserError
from gymnast.envs.suites.base import Suite

if TYPE_CHECKING:
    import gymnasium as gym
    from gymnasium.envs.registration import EnvSpec

MUJOCO = "gymnasium.envs.mujoco"
BOX2D = "gymnasium.envs.box2d"
COPIED = ("gymnasium.envs.classic_control", "gymnasium.envs.toy_text", MUJOCO)  # whose state is numbers
QUICK_SHADOWS = 1024  # pixels of a side of the shadow map; MuJoCo's own are 4096
_EXTRAS = {
    BOX2D: "box2d",
    MUJOCO: "mujoco",
    "gymnasium.envs.classic_control": "classic",
    "gymnasium.envs.toy_text": "classic",
}


class GymnasiumSuite(Suite):
    def make(
        self, spec: EnvSpec, task: Any, limit: int | None, render_mode: str | None, training: bool
    ) -> gym.Env[Any, Any]:
        if not str(spec.entry_point).startswith(MUJOCO):
            env = super().make(spec, task, limit, render_mode, training)
            if type(env.unwrapped).__module__.startswith(BOX2D):
                use_new_worlds(env)
            return env
        import mujoco

        mujoco.set_mju_user_warning(_warn)
        if render_mode == "rgb_array" and not os.environ.get("DISPLAY"):
            library = "osmesa" if find_library("OSMesa") and not find_library("EGL") else "egl"
            os.environ.setdefault("MUJOCO_GL", library)
        env = super().make(spec, task, limit, render_mode, training)
        if render_mode == "rgb_array":
            try:
                env.reset(seed=0)
                env.render()  # before an agent has played for it
            except Exception as error:  # of OpenGL, of its loader or of MuJoCo, which have nothing in common
                _forget_viewers()
                raise UserError(_no_pictures(spec, error)) from error
            own_context(env)
        return env

    def extra_of(self, module: str) -> str | None:
        return next((extra for package, extra in _EXTRAS.items() if module.startswith(package)), None)

    def is_slow(self, env_id: str) -> bool:
        return env_id == "CarRacing-v3"

    def reward_parts(self, game: gym.Env[Any, Any], info: Mapping[str, Any]) -> Mapping[str, float]:
        """MuJoCo's envs name them in another way: reward_forward, distance_penalty."""
        if not type(game).__module__.startswith(MUJOCO):
            return super().reward_parts(game, info)
        return {
            name.removeprefix("reward_"): float(value)
            for name, value in info.items()
            if name.startswith("reward_") or name.endswith("_penalty")
        }

    def draw_quickly(self, game: gym.Env[Any, Any]) -> None:
        """Without a graphics card nearly all of a picture's time goes into shadows and smooth edges."""
        if not type(game).__module__.startswith(MUJOCO):
            return
        import mujoco

        base: Any = game
        base.model.vis.quality.shadowsize, base.model.vis.quality.offsamples = QUICK_SHADOWS, 0
        viewer = base.mujoco_renderer.viewer
        viewer.make_context_current()
        viewer.con.free()
        viewer.con = mujoco.MjrContext(base.model, mujoco.mjtFontScale.mjFONTSCALE_150)
        viewer._set_mujoco_buffer()

    def save_game(self, game: gym.Env[Any, Any]) -> Any:
        """Box2D's worlds cannot be copied, and what another package's envs keep nobody knows."""
        from gymnast.envs.snapshot import save_numbers

        module = type(game).__module__
        if not module.startswith(COPIED):
            return None
        numbers = save_numbers(game)
        if not module.startswith(MUJOCO):
            return numbers, None
        base: Any = game
        return numbers, copy.copy(base.data)  # all of it: what is derived from positions is a step behind them

    def load_game(self, game: gym.Env[Any, Any], saved: Any) -> None:
        from gymnast.envs.snapshot import load_numbers

        numbers, physics = saved
        load_numbers(numbers)
        if physics is not None:
            import mujoco

            base: Any = game
            mujoco.mj_copyData(base.data, base.model, physics)


def use_new_worlds(env: gym.Env[Any, Any]) -> None:
    """Has every episode begin in a new world of Box2D: one whose bodies are all gone still adds up forces in another
    order, so that the same seed and actions would give another episode than in a new env."""
    base: Any = env.unwrapped
    reset = base.reset

    def reset_in_new_world(**options: Any) -> Any:
        base._destroy()
        base.world = type(base.world)(gravity=base.world.gravity)
        return reset(**options)

    base.reset = reset_in_new_world


def _no_pictures(spec: EnvSpec, error: Exception) -> str:
    return (
        f"{spec.id} can be trained here, not watched: MuJoCo found no OpenGL to draw with ({type(error).__name__}). "
        "Without a display it needs EGL (Debian: apt install libegl1 libgl1-mesa-dri) or, with MUJOCO_GL=osmesa, "
        "OSMesa (libosmesa6)."
    )


def _forget_viewers() -> None:
    """A viewer that could not be made would complain about itself when it is freed."""
    from gymnasium.envs.mujoco.mujoco_rendering import OffScreenViewer

    OffScreenViewer.free = lambda _: None  # type: ignore[method-assign]


def own_context(env: gym.Env[Any, Any]) -> None:
    """Has an env draw, and free what it drew with, in its own OpenGL context. Gymnasium uses the one made last,
    so that the first of two envs has the second one's textures, and the second is black once the first is freed."""
    renderer: Any = env.unwrapped.mujoco_renderer  # type: ignore[attr-defined]
    draw, free, viewer = renderer.render, renderer.close, renderer.viewer

    def render(render_mode: str) -> Any:
        viewer.make_context_current()
        return draw(render_mode)

    def close() -> None:
        if renderer.render is not draw:
            viewer.make_context_current()
            viewer.con.free()
            renderer.render = draw
            free()

    renderer.render, renderer.close = render, close


def _warn(message: str) -> None:
    """MuJoCo would write to standard error and to a file in the working directory."""
    if "deprecated" not in message:  # what a model's file should not use any more is for its authors
        warnings.warn(f"MuJoCo: {message}", stacklevel=2)
