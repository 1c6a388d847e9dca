"""What a Doom task is made of: `env.kwargs` of the ids Vizdoom*. Imports no engine."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from gymnast.config.fields import Count, Natural, Section
from gymnast.core.errors import did_you_mean
from gymnast.envs.suites.vizdoom import buttons as doom

TICS = 35  # a second
MAX_TICS = 600 * TICS  # of an episode, where neither the scenario nor env.max_episode_steps has a limit
SMALLEST = 8  # pixels a side: what the smallest CNN reads
MOST_BOTS = 15  # as many as the package has names for, and as one game has places for besides the player's
RESOLUTIONS = (
    *("160x120", "200x125", "200x150", "256x144", "256x160", "256x192", "320x180", "320x200", "320x240"),
    *("320x256", "400x225", "400x250", "400x300", "512x288", "512x320", "512x384", "640x360", "640x480"),
)
_DIGITS = (*range(1, 10), 0)
VARIABLES = (
    *("KILLCOUNT", "ITEMCOUNT", "SECRETCOUNT", "FRAGCOUNT", "DEATHCOUNT", "HITCOUNT", "HITS_TAKEN", "DAMAGECOUNT"),
    *("DAMAGE_TAKEN", "HEALTH", "ARMOR", "DEAD", "ON_GROUND", "ATTACK_READY", "ALTATTACK_READY", "SELECTED_WEAPON"),
    *("SELECTED_WEAPON_AMMO", *(f"AMMO{i}" for i in _DIGITS), *(f"WEAPON{i}" for i in _DIGITS)),
    *("POSITION_X", "POSITION_Y", "POSITION_Z", "ANGLE", "PITCH", "ROLL", "VIEW_HEIGHT"),
    *("VELOCITY_X", "VELOCITY_Y", "VELOCITY_Z", "CAMERA_POSITION_X", "CAMERA_POSITION_Y", "CAMERA_POSITION_Z"),
    *("CAMERA_ANGLE", "CAMERA_PITCH", "CAMERA_ROLL", "CAMERA_FOV", *(f"USER{i}" for i in range(1, 61))),
    *("PLAYER_NUMBER", "PLAYER_COUNT", *(f"PLAYER{i}_FRAGCOUNT" for i in range(1, 17))),
)


def _skip(skip: Any) -> Any:
    """A number of tics, or the least and the most."""
    ends = skip if isinstance(skip, list) else [skip]
    if len(ends) > 2 or any(type(end) is not int or end < 1 for end in ends) or ends != sorted(ends):
        raise ValueError("must be a whole number from 1 on, or [low, high] of a random one.")
    return skip


def _sides(size: Any) -> Any:
    """A side, or height and width."""
    sides = size if isinstance(size, list) else [size]
    if len(sides) > 2 or any(type(side) is not int for side in sides):
        raise ValueError("must be a whole number, or [height, width].")
    if min(sides) < SMALLEST:
        raise ValueError(f"must be at least {SMALLEST}.")
    return size


def _window(window: list[int]) -> list[int]:
    if len(window) != 2 or window[0] >= window[1]:
        raise ValueError("must be [first, end], with the first below the end, like [0, 104].")
    return window


def _known(kind: str, known: tuple[str, ...]) -> Any:
    def check(names: list[str]) -> list[str]:
        for name in names:
            if name not in known:
                raise ValueError(f"there is no {kind} {name!r}.{did_you_mean(name, known)} Known: {', '.join(known)}.")
        if len(set(names)) < len(names):
            raise ValueError(f"must list each {kind} once.")
        return names

    return AfterValidator(check)


def _actions(actions: list[str]) -> list[str]:
    for action in actions:
        if problem := doom.problem(action):
            raise ValueError(problem)
    named = ["+".join(doom.parts_of(action)) or doom.NOOP for action in actions]
    if not named or len({frozenset(doom.parts_of(action)) for action in named}) < len(named):
        raise ValueError("must list different actions, at least one.")
    return named


Window = Annotated[list[Natural], AfterValidator(_window)]


class DoomTask(Section):
    frame_skip: Annotated[int | list[int], BeforeValidator(_skip)] = Field(
        default=4, description="Tics that an action is held for; [low, high]: drawn for every action; 1: no skip."
    )
    doom_skill: Annotated[int, Field(ge=1, le=5)] | None = Field(
        default=None, description="Difficulty, 1 (easy) to 5; null: that of the scenario."
    )
    buttons: Annotated[list[str], _known("button", doom.BUTTONS)] | None = Field(
        default=None, description="The buttons that actions are made of; null: those of the scenario."
    )
    max_buttons: Natural | None = Field(
        default=None,
        description="Buttons that one action may press; 0: MultiBinary, each button a bit; null: as the id says.",
    )
    actions: Annotated[list[str], AfterValidator(_actions)] | None = Field(
        default=None,
        description="The agent's actions by their buttons, like [NOOP, TURN_LEFT, TURN_LEFT+ATTACK]; null: all that "
        "buttons and max_buttons allow.",
    )
    observation: Literal["grey", "rgb"] = Field(default="grey", description="Grey pictures, or red, green and blue.")
    resolution: Annotated[str, AfterValidator(lambda size: _known("resolution", RESOLUTIONS).func([size])[0])] = Field(
        default="160x120", description="Width and height that the engine draws; 160x120 is the quickest."
    )
    screen_size: Annotated[int | list[int], BeforeValidator(_sides)] = Field(
        default=[45, 60],
        description="Side of the agent's picture, or its [height, width]; not larger than what the engine draws.",
    )
    crop_rows: Window | None = Field(
        default=None, description="[first, end] of the engine's rows that are shown; null: all."
    )
    crop_columns: Window | None = Field(default=None, description="[first, end] of its columns; null: all.")
    stack: Count = Field(default=4, description="Pictures in an observation, oldest first; black before the start.")
    depth: bool = Field(default=False, description="Show how far away every pixel is, in a channel of its own.")
    labels: bool = Field(
        default=False, description="Show what every pixel belongs to (monster, item, ...), in a channel of its own."
    )
    variables: Annotated[list[str], _known("game variable", VARIABLES)] = Field(
        default=[], description="Game variables that the agent sees next to the picture, like [HEALTH, AMMO2]."
    )
    bots: Annotated[int, Field(ge=0, le=MOST_BOTS)] = Field(
        default=0,
        description="Computer players to fight in a deathmatch; the score is then frags. VizdoomDeathmatch only.",
    )
    hud: bool | None = Field(default=None, description="Draw the status bar; null: as the scenario does.")

    @model_validator(mode="after")
    def _one_way_to_say_it(self) -> DoomTask:
        if self.actions is not None and (self.buttons is not None or self.max_buttons is not None):
            raise ValueError("actions lists the actions: drop buttons and max_buttons.")
        return self

    @property
    def sides(self) -> tuple[int, int]:
        """Height and width of the picture."""
        size = self.screen_size if isinstance(self.screen_size, list) else [self.screen_size] * 2
        return size[0], size[-1]

    @property
    def skips(self) -> tuple[int, int]:
        """The fewest and the most tics of an action."""
        ends = self.frame_skip if isinstance(self.frame_skip, list) else [self.frame_skip]
        return ends[0], ends[-1]

    @property
    def screen(self) -> tuple[int, int]:
        """Rows and columns that the engine draws."""
        width, height = self.resolution.split("x")
        return int(height), int(width)


def doom_task(kwargs: Mapping[str, Any]) -> DoomTask:
    """The task of a config that was checked."""
    return DoomTask.model_validate(dict(kwargs))
