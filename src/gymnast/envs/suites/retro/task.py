"""What a console game's task is made of: `env.kwargs` of the ids Retro/*. Imports no emulator."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field

from gymnast.config.fields import Count, Natural, Positive, Section, Share
from gymnast.envs.suites.atari.task import Window, check_sides
from gymnast.envs.suites.retro.buttons import check_combos

NAMESPACE = "Retro/"
VERSION = "-v0"  # of all integrations of the package
MAX_FRAMES = 108_000  # half an hour of play: the time limit where env.max_episode_steps sets none


def _skip(frames: Any) -> Any:
    if type(frames) is int and frames >= 1:
        return frames
    whole = isinstance(frames, list) and len(frames) == 2 and all(type(one) is int for one in frames)
    if not whole or not 1 <= frames[0] <= frames[1]:
        raise ValueError("must be a whole number from 1, or [least, most], like [2, 6].")
    return frames


def _states(names: Any) -> Any:
    given = names if isinstance(names, list) else [names]
    if not given or not all(isinstance(name, str) and name for name in given):
        raise ValueError("must be the name of a savestate, like Level1-1, or a list of names.")
    return names


Skip = Annotated[int | list[int], BeforeValidator(_skip)]
States = Annotated[str | list[str], BeforeValidator(_states)]
Names = list[str]  # of variables; several are the bytes of one number, the highest first


class Variables(Section):
    """Which of the game's variables say how it goes; null: none does."""

    position: Names | None = Field(default=None, description="How far the player is in the level.")
    level: Names | None = Field(default=None, description="The level; a larger number is a level that was won.")
    lives: Names | None = Field(default=None, description="Lives that are left.")
    clock: Names | None = Field(default=None, description="Time that is left.")
    points: Names | None = Field(default=None, description="Points.")


# of games that are tuned here; those of any other are for env.kwargs.variables to say
KNOWN = {
    "SuperMarioBros-Nes-v0": Variables(
        position=["xscrollHi", "xscrollLo"],
        level=["levelHi", "levelLo"],
        lives=["lives"],
        clock=["time"],
        points=["score"],
    ),
    "Airstriker-Genesis-v0": Variables(lives=["lives"], points=["score"]),
}


class TrainingTask(Section):
    """What differs in training, for agents that shall not depend on timing; null: nothing."""

    frame_skip: Skip | None = Field(default=None, description="Frames an action is held for.")
    repeat_action_probability: Share | None = Field(default=None, description="Sticky actions, by frame.")
    late_action_probability: Share | None = Field(default=None, description="Stochastic frame skip, by decision.")


class RetroTask(Section):
    state: States | None = Field(
        default=None,
        description="Savestate that a game starts from; a list: each episode of each env draws one; null: the game's "
        "usual one.",
    )
    actions: Annotated[list[str], AfterValidator(check_combos)] | None = Field(
        default=None,
        description="The agent's actions as buttons held together, like [NOOP, RIGHT, RIGHT+A]; null: every "
        "combination that the game has a use for.",
    )
    frame_skip: Skip = Field(
        default=4, description="Frames an action is held for; [least, most]: drawn for every decision."
    )
    noop_max: Natural = Field(
        default=0,
        description="A game starts after fewer idle frames than this, at random; 0: at once. Without idle frames and "
        "sticky actions every episode with the same actions is the same.",
    )
    repeat_action_probability: Share = Field(
        default=0.0, description="Chance, at every frame, that the buttons before are held on (sticky actions)."
    )
    late_action_probability: Share = Field(
        default=0.0,
        description="Chance, at every decision, that its first frame still has the buttons before (stochastic frame "
        "skip).",
    )
    training: TrainingTask = Field(
        default=TrainingTask(), description="What differs in training alone: frame skip and the two chances."
    )
    max_pool: bool = Field(default=True, description="See the brighter of the last two frames: sprites flicker.")
    observation: Literal["grey", "rgb"] = Field(default="grey", description="Grey pictures; or red, green and blue.")
    screen_size: Annotated[int | list[int], BeforeValidator(check_sides)] = Field(
        default=84, description="Side of the picture, or its [height, width]; not larger than what is shown."
    )
    crop_rows: Window | None = Field(
        default=None, description="[first, end] of the screen's rows that are shown; null: all."
    )
    crop_columns: Window | None = Field(default=None, description="[first, end] of its columns; null: all.")
    stack: Count = Field(default=4, description="Pictures in an observation, oldest first; black before the start.")
    variables: Variables | None = Field(
        default=None,
        description="Which of the game's variables say how it goes; null: those that are known here of some games.",
    )
    score: Literal["reward", "win"] = Field(
        default="reward",
        description="What an episode's score is: the reward of the game's integration; or 1 for a level won, so that "
        "mean scores are win rates.",
    )
    life_loss: Literal["go_on", "learner", "end"] | None = Field(
        default=None,
        description="A lost life changes nothing (go_on); ends the episode for the learner in training, while game and "
        "score go on (learner); or ends the episode (end); null: end where the score is a win, else learner.",
    )
    level_end: bool | None = Field(
        default=None, description="A level that was won ends the episode; null: where the score is a win."
    )
    no_progress: Count | None = Field(
        default=None,
        description="Frames without a new furthest position (without a reward, where no position is known) after "
        "which the episode is truncated; null: never.",
    )
    progress_cap: Positive = Field(
        default=8.0, description="Most that a frame's progress pays: a jump of the position is not a way that was gone."
    )

    @property
    def sides(self) -> tuple[int, int]:
        """Height and width of the picture."""
        size = self.screen_size if isinstance(self.screen_size, list) else [self.screen_size] * 2
        return size[0], size[-1]

    def of_game(self, game: str) -> RetroTask:
        """Without null where it stands for something."""
        wins = self.score == "win"
        return self.model_copy(
            update={
                "variables": self.variables or KNOWN.get(game, Variables()),
                "life_loss": self.life_loss or ("end" if wins else "learner"),
                "level_end": wins if self.level_end is None else self.level_end,
            }
        )

    def in_role(self, training: bool) -> RetroTask:
        """With what differs in training, where it is training."""
        changes = {key: value for key, value in self.training if value is not None}
        return self.model_copy(update=changes) if training and changes else self


def game_of(env_id: str) -> str:
    """What the package calls the game of an id."""
    return f"{env_id.rpartition(':')[2].removeprefix(NAMESPACE)}{VERSION}"


def retro_task(kwargs: Mapping[str, Any]) -> RetroTask:
    """The task of a config that was checked."""
    return RetroTask.model_validate(dict(kwargs))
