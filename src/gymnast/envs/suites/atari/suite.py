"""Atari games, as the Arcade Learning Environment registers them: ALE/Pong-v5 and the like."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from gymnast.config import load
from gymnast.config.files import is_preset, read_preset
from gymnast.config.layers import variant_names
from gymnast.core.errors import UserError
from gymnast.envs.suites.atari.table import CELLS, RamTable
from gymnast.envs.suites.atari.task import ACTIONS, MAX_FRAMES, NAMESPACE, AtariTask, atari_task
from gymnast.envs.suites.base import Suite

if TYPE_CHECKING:
    import gymnasium as gym
    from gymnasium.envs.registration import EnvSpec

    from gymnast.envs.types import Box

OBJECTS = "objects"  # the variant of a preset that has a table


class AtariSuite(Suite):
    module = "ale_py"
    extra = "atari"
    Task = AtariTask
    defaults = "defaults/atari"
    is_limited = True
    default_limit = MAX_FRAMES
    limit_unit = "frames"

    def make(
        self, spec: EnvSpec, task: Any, limit: int | None, render_mode: str | None, training: bool
    ) -> gym.Env[Any, Any]:
        """With its recorder inside. `limit`: of frames. `training`: with what ends an episode for the learner."""
        import gymnasium as gym

        from gymnast.envs.recorder import Recorder
        from gymnast.envs.suites.atari.env import AtariDecisions, AtariGame

        game = AtariGame(spec.kwargs["game"], task, render_mode)
        game.spec = spec
        limited: gym.Env[Any, Any] = gym.wrappers.TimeLimit(game, limit or self.default_limit)
        return AtariDecisions(Recorder(limited), task, training)

    def is_slow(self, env_id: str) -> bool:
        return True

    def action_labels(self, kwargs: Mapping[str, Any]) -> list[str] | None:
        task = atari_task(kwargs)
        return task.actions or (list(ACTIONS) if task.full_action_space else None)

    def observation_labels(self, kwargs: Mapping[str, Any]) -> list[str] | None:
        from gymnast.envs.suites.atari.reader import TableReader

        task, actions = atari_task(kwargs), self.action_labels(kwargs)
        if task.stack > 1 or (task.show_action and actions is None):
            return None
        if task.observation == "ram":
            names = [f"byte {cell}" for cell in task.cells or range(CELLS)]
            changes = [f"{name} change" for name in names] if task.changes else []
            last = [f"last {action}" for action in actions] if actions and task.show_action else []
            return names + changes + [one.label for one in task.differences] + last
        if task.observation != "objects" or task.table is None or actions is None:
            return None
        return TableReader(task.table, actions).names

    def objects_of(self, env_id: str, kwargs: Mapping[str, Any]) -> Callable[[gym.Env[Any, Any]], list[Box]]:
        """By the config's own table, else by that of the preset."""
        from gymnast.envs.suites.atari.env import AtariGame
        from gymnast.envs.suites.atari.reader import TableReader

        table = atari_task(kwargs).table or _known_table(env_id)
        if table is None:
            raise UserError(
                f"--objects: there is no table of RAM cells for {env_id}. Write one: --set env.kwargs.table='{{...}}', "
                "see `gymnast config show ALE/Pong-v5:objects`."
            )
        reader = TableReader(table, [])

        def find(env: gym.Env[Any, Any]) -> list[Box]:
            game = env.unwrapped
            assert isinstance(game, AtariGame)
            return reader.boxes(game.ale.getRAM())

        return find

    def learner_end(self, game: gym.Env[Any, Any], kwargs: Mapping[str, Any]) -> str | None:
        base: Any = game
        task = atari_task(kwargs)
        ends = [
            *(["a point (episodic_points)"] if task.episodic_points else []),
            *(["a lost life (episodic_life)"] if task.episodic_life and base.ale.lives() > 0 else []),
        ]
        return " or ".join(ends) or None

    def turned(self, env_id: str) -> Mapping[str, str]:
        return {"right": "up", "left": "down"} if is_pong(env_id) else {}

    def second_player(self, env_id: str) -> Callable[[gym.Env[Any, Any]], Any] | None:
        from gymnast.envs.suites.atari.left_paddle import LeftPaddle

        return LeftPaddle if is_pong(env_id) else None

    def save_game(self, game: gym.Env[Any, Any]) -> Any:
        from gymnast.envs.snapshot import save_numbers

        base: Any = game
        screen = base.ale.getScreenRGB() if base.restored is None else base.restored
        return save_numbers(base), base.ale.cloneState(), screen

    def load_game(self, game: gym.Env[Any, Any], saved: Any) -> None:
        from gymnast.envs.snapshot import load_numbers

        base: Any = game
        numbers, emulator, screen = saved
        load_numbers(numbers)
        base.ale.restoreState(emulator)
        base.restored = screen  # the emulator draws again at its next frame only

    def renew_luck(self, game: gym.Env[Any, Any], seed: int) -> None:
        base: Any = game
        base.renew_luck(seed)

    def new_name(self, spec: EnvSpec) -> str | None:
        """Pong-v0 to PongNoFrameskip-v4 are bare games without pictures. Here ALE/Pong-v5 is all of them."""
        if spec.id.startswith(NAMESPACE) or not str(spec.entry_point).startswith("ale_py"):
            return None
        title = str(spec.kwargs["game"]).title().replace("_", "")
        return f"{NAMESPACE}{title}-v5; with env.kwargs.repeat_action_probability=0 it is what NoFrameskip-v4 was."


def is_pong(env_id: str) -> bool:
    return env_id.rpartition(":")[2].startswith(f"{NAMESPACE}Pong-")


def _known_table(env_id: str) -> RamTable | None:
    """Of the variant `objects` that the game's preset has."""
    if not is_preset(env_id) or OBJECTS not in variant_names(read_preset(env_id)):
        return None
    return atari_task(load(f"{env_id}:{OBJECTS}").config.env.kwargs).table
