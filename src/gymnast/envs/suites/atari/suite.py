"""Atari games, as the Arcade Learning Environment registers them: ALE/Pong-v5 and the like."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from gymnast.envs.suites.atari.task import ACTIONS, MAX_FRAMES, NAMESPACE, AtariTask, atari_task
from gymnast.envs.suites.base import Suite

if TYPE_CHECKING:
    import gymnasium as gym
    from gymnasium.envs.registration import EnvSpec


class AtariSuite(Suite):
    module = "ale_py"
    extra = "atari"
    Task = AtariTask
    is_limited = True

    def make(
        self, spec: EnvSpec, task: Any, limit: int | None, render_mode: str | None, training: bool
    ) -> gym.Env[Any, Any]:
        """With its recorder inside. `limit`: of frames. `training`: a lost life is reported, if the task wants it."""
        import gymnasium as gym

        from gymnast.envs.recorder import Recorder
        from gymnast.envs.suites.atari.env import AtariGame, AtariDecisions

        game = AtariGame(spec.kwargs["game"], task, render_mode)
        game.spec = spec
        limited: gym.Env[Any, Any] = gym.wrappers.TimeLimit(game, limit or MAX_FRAMES)
        return AtariDecisions(Recorder(limited), task, training and task.episodic_life)

    def is_slow(self, env_id: str) -> bool:
        return True

    def action_labels(self, kwargs: Mapping[str, Any]) -> list[str] | None:
        task = atari_task(kwargs)
        return task.actions or (list(ACTIONS) if task.full_action_space else None)

    def new_name(self, spec: EnvSpec) -> str | None:
        """Pong-v0 to PongNoFrameskip-v4 are bare games without pictures. Here ALE/Pong-v5 is all of them."""
        if spec.id.startswith(NAMESPACE) or not str(spec.entry_point).startswith("ale_py"):
            return None
        title = str(spec.kwargs["game"]).title().replace("_", "")
        return f"{NAMESPACE}{title}-v5: as made here it is what NoFrameskip-v4 was."
