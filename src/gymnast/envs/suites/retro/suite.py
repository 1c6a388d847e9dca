"""Console games of stable-retro. The ROM of Retro/Airstriker-Genesis is free; those of others are the user's."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from gymnast.core.errors import package_problem
from gymnast.envs.suites.base import Suite
from gymnast.envs.suites.retro.task import MAX_FRAMES, RetroTask, Variables, game_of, retro_task

if TYPE_CHECKING:
    import gymnasium as gym
    from gymnasium.envs.registration import EnvSpec


class RetroSuite(Suite):
    module = "gymnast.envs.suites.retro.ids"
    extra = "retro"
    Task = RetroTask
    defaults = "defaults/retro"
    is_limited = True
    default_limit = MAX_FRAMES
    limit_unit = "frames"
    one_per_process = True  # the emulator is one of the process

    def make(
        self, spec: EnvSpec, task: Any, limit: int | None, render_mode: str | None, training: bool
    ) -> gym.Env[Any, Any]:
        """With its recorder inside. `limit`: of frames. `training`: with what the task changes for the learner."""
        import gymnasium as gym

        from gymnast.envs.recorder import Recorder
        from gymnast.envs.suites.retro.env import RetroDecisions, RetroGame

        game = RetroGame(spec.kwargs["game"], task.in_role(training), render_mode)
        task = game.task
        game.spec = spec
        try:
            limited: gym.Env[Any, Any] = gym.wrappers.TimeLimit(game, limit or self.default_limit)
            return RetroDecisions(Recorder(limited), task, training and task.life_loss == "learner")
        except BaseException:  # its pictures may be refused
            game.close()
            raise

    def is_slow(self, env_id: str) -> bool:
        return True

    def action_labels(self, kwargs: Mapping[str, Any]) -> list[str] | None:
        return retro_task(kwargs).actions

    def shaping_parts(self, env_id: str, kwargs: Mapping[str, Any]) -> dict[str, str]:
        from gymnast.envs.suites.retro.referee import parts_of

        if self.problems(kwargs):
            return {}
        return parts_of(retro_task(kwargs).of_game(game_of(env_id)).variables or Variables())

    def learner_end(self, game: gym.Env[Any, Any], kwargs: Mapping[str, Any]) -> str | None:
        base: Any = game
        has_lives = base.task.life_loss == "learner" and "death" in base.referee.parts
        return "a lost life (life_loss)" if has_lives else None

    def variables(self, game: gym.Env[Any, Any]) -> dict[str, float]:
        base: Any = game
        return base.console.now()

    def save_game(self, game: gym.Env[Any, Any]) -> Any:
        from gymnast.envs.snapshot import save_numbers

        base: Any = game
        return (
            save_numbers(base.referee),
            base.np_random.bit_generator.state,
            base._held,
            base.state,
            (
                base.console.save(),
                base.console.screen,
            ),
        )

    def load_game(self, game: gym.Env[Any, Any], saved: Any) -> None:
        from gymnast.envs.snapshot import load_numbers

        base: Any = game
        numbers, generator, base._held, base.state, (memory, screen) = saved
        load_numbers(numbers)
        base.np_random.bit_generator.state = generator
        base.console.load(memory)
        base.console.screen = screen

    def lacks(self, env_id: str) -> str | None:
        if self.missing:
            return None
        from gymnast.envs.suites.retro.places import IMPORT, has_rom

        return None if has_rom(game_of(env_id)) else IMPORT

    @property
    def missing(self) -> str | None:
        return package_problem("stable_retro", self.extra)
