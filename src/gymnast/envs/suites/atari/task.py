"""What an Atari task is made of: `env.kwargs` of the ids ALE/*, for every engine alike. Imports no emulator.

The defaults are those of the `-v5` ids (actions held for four frames, sticky) with DQN's preprocessing on top of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from gymnast.config.fields import Count, Natural, Section, Share
from gymnast.core.errors import did_you_mean
from gymnast.envs.suites.atari.table import CELLS, Difference, RamTable

NAMESPACE = "ALE/"
MAX_FRAMES = 108_000  # half an hour of play at 60 frames a second: the time limit where env.max_episode_steps sets none
SIDES = (8, 250)  # pixels: what the smallest CNN reads, and the tallest screen
_PLAIN = ("NOOP", "FIRE", "UP", "RIGHT", "LEFT", "DOWN", "UPRIGHT", "UPLEFT", "DOWNRIGHT", "DOWNLEFT")
ACTIONS = (*_PLAIN, *(f"{name}FIRE" for name in _PLAIN[2:]))  # ALE's labels of all 18


def check_sides(size: Any) -> Any:
    """A side, or height and width."""
    sides = size if isinstance(size, list) else [size]
    if len(sides) > 2 or any(type(side) is not int for side in sides):
        raise ValueError("must be a whole number, or [height, width].")
    for side in sides:
        if not SIDES[0] <= side <= SIDES[1]:
            raise ValueError(f"must be {'at least' if side < SIDES[0] else 'at most'} {SIDES[side > SIDES[0]]}.")
    return size


def _window(window: list[int]) -> list[int]:
    if len(window) != 2 or window[0] >= window[1]:
        raise ValueError("must be [first, end], with the first below the end, like [34, 194].")
    return window


def _labels(names: list[str]) -> list[str]:
    for name in names:
        if name not in ACTIONS:
            raise ValueError(f"there is no action {name!r}.{did_you_mean(name, ACTIONS)} Known: {', '.join(ACTIONS)}.")
    if not names or len(set(names)) < len(names):
        raise ValueError("must list different actions, at least one.")
    return names


def _bytes(cells: list[int]) -> list[int]:
    if beyond := [cell for cell in cells if cell >= CELLS]:
        raise ValueError(f"there is no byte {beyond[0]}: the console has {CELLS}, from 0 to {CELLS - 1}.")
    if not cells or len(set(cells)) < len(cells):
        raise ValueError("must list different bytes, at least one.")
    return cells


def _changes(most: Any) -> Any:
    if type(most) is bool or (type(most) is int and 1 <= most <= 127):
        return most
    raise ValueError("must be true, false, or a whole number from 1 to 127.")


Window = Annotated[list[Natural], AfterValidator(_window)]


class AtariTask(Section):
    frame_skip: Count = Field(default=4, description="Frames an action is held for.")
    max_pool: bool = Field(default=True, description="See the brighter of the last two frames: sprites flicker.")
    observation: Literal["grey", "rgb", "ram", "objects"] = Field(
        default="grey",
        description="Grey pictures; red, green and blue; bytes of RAM, all 128 or `cells`; or what `table` finds in "
        "them.",
    )
    table: RamTable | None = Field(
        default=None, description="Objects by their cells of RAM; needed where observation is objects."
    )
    cells: Annotated[list[Natural], AfterValidator(_bytes)] | None = Field(
        default=None,
        description="With observation = ram: only these bytes, like [49, 54]; null: all 128. Leave out clocks and "
        "counters: with them no two moments look alike, and an agent learns moments by heart.",
    )
    changes: Annotated[bool | int, BeforeValidator(_changes)] = Field(
        default=False,
        description="With observation = ram: after the bytes, how much each changed since the last decision, so that "
        "speeds are seen; -128 to 127, and larger jumps wrap around. With a number like 24, changes larger than it are "
        "shown as 0: a ball that appears somewhere else has no speed.",
    )
    differences: list[Difference] = Field(
        default=[],
        description="With observation = ram: after bytes and changes, how much some bytes are above others or "
        "above a number, like [{of: 54, to: 51, within: 24}, {of: 49, number: 189, within: 24}].",
    )
    screen_size: Annotated[int | list[int], BeforeValidator(check_sides)] = Field(
        default=84, description="Side of the picture, or its [height, width]; not larger than what is shown."
    )
    crop_rows: Window | None = Field(
        default=None,
        description="[first, end] of the screen's rows that are shown; null: all. Pong's court: [34, 194].",
    )
    crop_columns: Window | None = Field(default=None, description="[first, end] of its columns; null: all 160.")
    stack: Count = Field(
        default=4,
        description="Pictures (or RAMs, or lists of objects) in an observation, oldest first; 0 before the start.",
    )
    show_action: bool = Field(
        default=False,
        description="Draw a mark over the right edge of each picture, a fortieth of its width; its height says which "
        "action was chosen before it. With observation = ram: after all bytes, a 1 for that action, 0 for others. "
        "Helps where the effect of an action shows only later.",
    )
    noop_max: Natural = Field(default=30, description="A game starts after fewer idle frames than this, at random.")
    repeat_action_probability: Share = Field(
        default=0.25, description="Chance, at every frame, that the action before is repeated (sticky actions)."
    )
    episodic_life: bool = Field(
        default=True,
        description="In training a lost life ends the episode for the learner; the game and its score go on.",
    )
    episodic_points: bool = Field(
        default=False, description="In training a point (any reward but 0) ends the episode for the learner."
    )
    fire_reset: bool = Field(
        default=True,
        description="Press FIRE, where there is such a key, when a game starts and instead of the first action after a "
        "lost life: without it some games wait for ever. Sticky actions can suppress it, so keep FIRE among `actions`.",
    )
    full_action_space: bool = Field(default=False, description="All 18 actions instead of those the game uses.")
    actions: Annotated[list[str], AfterValidator(_labels)] | None = Field(
        default=None, description="The agent's actions by label, like [FIRE, RIGHT, LEFT]; null: those of the game."
    )

    @model_validator(mode="after")
    def _has_its_table(self) -> AtariTask:
        if self.observation == "objects" and self.table is None:
            raise ValueError(
                "observation = objects: needs a table of RAM cells (table). ALE/Pong-v5:objects has one: "
                "`gymnast config show ALE/Pong-v5:objects`."
            )
        if self.show_action and self.observation == "objects":
            raise ValueError("show_action = true: objects have the last action anyway. Set show_action to false.")
        if self.observation != "ram" and (self.cells is not None or self.changes or self.differences):
            raise ValueError(
                f"cells, changes and differences: are for observation = ram, and observation is {self.observation}. "
                "Set them to null, false and [], or observation to ram."
            )
        return self

    @property
    def is_picture(self) -> bool:
        return self.observation in ("grey", "rgb")

    @property
    def sides(self) -> tuple[int, int]:
        """Height and width of the picture."""
        size = self.screen_size if isinstance(self.screen_size, list) else [self.screen_size] * 2
        return size[0], size[-1]

    @property
    def is_plain(self) -> bool:
        """Whether pictures are whole grey screens, made smaller: what ALE's vector env makes itself."""
        drawn = self.crop_rows is not None or self.crop_columns is not None or self.show_action
        return self.observation == "grey" and not drawn


def is_atari(env_id: str) -> bool:
    return env_id.startswith(NAMESPACE)


def atari_task(kwargs: Mapping[str, Any]) -> AtariTask:
    """The task of a config that was checked."""
    return AtariTask.model_validate(dict(kwargs))
