"""Doom, as ViZDoom registers it: VizdoomBasic-v1 and the other scenarios, and every map of Freedoom by skill."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from gymnast.core.errors import package_problem
from gymnast.envs.suites.base import Suite
from gymnast.envs.suites.vizdoom.buttons import NOOP
from gymnast.envs.suites.vizdoom.measures import PARTS
from gymnast.envs.suites.vizdoom.task import DoomTask, doom_task

if TYPE_CHECKING:
    import gymnasium as gym
    from gymnasium.envs.registration import EnvSpec

KNOWN_AS = {  # VizDoom-Basic-v0 and the like, as older wrappers of the engine called them
    "Basic": "VizdoomBasic-v1",
    "DeadlyCorridor": "VizdoomDeadlyCorridor-v1",
    "DefendTheCenter": "VizdoomDefendCenter-v1",
    "DefendTheLine": "VizdoomDefendLine-v1",
    "HealthGathering": "VizdoomHealthGathering-v1",
    "HealthGatheringSupreme": "VizdoomHealthGatheringSupreme-v1",
    "MyWayHome": "VizdoomMyWayHome-v1",
    "PredictPosition": "VizdoomPredictPosition-v1",
    "TakeCover": "VizdoomTakeCover-v1",
    "Deathmatch": "VizdoomDeathmatch-v1",
    "E1M1": "VizdoomFreedoom1E1M1-S1-v0",
}
SMALL, TWICE = "160x120", "320x240"
OLD = {f"VizDoom-{name}-v0": env_id for name, env_id in KNOWN_AS.items()}


class DoomSuite(Suite):
    module = "gymnast.envs.suites.vizdoom.names"
    extra = "vizdoom"
    Task = DoomTask
    defaults = "defaults/vizdoom"
    is_limited = True
    limit_unit = "tics"

    def make(
        self, spec: EnvSpec, task: Any, limit: int | None, render_mode: str | None, training: bool
    ) -> gym.Env[Any, Any]:
        """With its recorder. `limit`: of tics, 35 of which are a second."""
        from gymnast.envs.suites.vizdoom.env import DoomEnv, TicRecorder

        env = DoomEnv(spec.kwargs, task, limit, render_mode)
        env.spec = spec
        return TicRecorder(env, task)

    def is_slow(self, env_id: str) -> bool:
        return True

    def action_labels(self, kwargs: Mapping[str, Any]) -> list[str] | None:
        return doom_task(kwargs).actions

    def shaping_parts(self, env_id: str, kwargs: Mapping[str, Any]) -> dict[str, str]:
        return PARTS

    def for_people(self, kwargs: Mapping[str, Any]) -> dict[str, Any]:
        """A picture of twice the size, and an action that does nothing, so that time goes on while no key is down."""
        task, changes = doom_task(kwargs), dict[str, Any]()
        if task.resolution == SMALL:
            crops = {name: getattr(task, name) for name in ("crop_rows", "crop_columns")}
            changes = {name: [2 * end for end in crop] for name, crop in crops.items() if crop is not None}
            changes["resolution"] = TWICE
        if task.actions is not None and NOOP not in task.actions:
            changes["actions"] = [NOOP, *task.actions]
        return changes

    def connect(self, host: Any, guest: Any) -> Callable[[], None]:
        from gymnast.envs.suites.vizdoom.match import connect

        return connect(host, guest)

    def variables(self, game: Any) -> dict[str, float]:
        found: dict[str, float] = game.variables
        return found

    def new_name(self, spec: EnvSpec) -> str | None:
        return f"{OLD[spec.id]}." if spec.id in OLD else None

    @property
    def missing(self) -> str | None:
        return package_problem("vizdoom", self.extra)
