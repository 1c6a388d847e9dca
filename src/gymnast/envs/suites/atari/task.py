"""What an Atari task is made of: `env.kwargs` of the ids ALE/*, for every engine alike. Imports no emulator.

The defaults are those of DQN and of RL Zoo's `NoFrameskip-v4`: no sticky actions, whatever the `-v5` in the id says.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import Field

from gymnast.config.fields import Count, Int, Natural, Section, Share

NAMESPACE = "ALE/"
MAX_FRAMES = 108_000  # half an hour of play at 60 frames a second: the time limit where env.max_episode_steps sets none


class AtariTask(Section):
    frame_skip: Count = Field(default=4, description="Frames an action is held for.")
    max_pool: bool = Field(default=True, description="See the brighter of the last two frames: sprites flicker.")
    # below 36 the Nature CNN has nothing left to see; above the screen's 160 columns there is nothing to gain
    screen_size: Annotated[Int, Field(ge=36, le=160)] = Field(default=84, description="Side of the grey picture.")
    stack: Count = Field(default=4, description="Pictures in an observation, oldest first; black before the start.")
    noop_max: Natural = Field(default=30, description="A game starts after fewer idle frames than this, at random.")
    repeat_action_probability: Share = Field(
        default=0.0, description="Chance, at every frame, that the action before is repeated (sticky: 0.25)."
    )
    episodic_life: bool = Field(
        default=True,
        description="In training a lost life ends the episode for the learner; the game and its score go on.",
    )
    fire_reset: bool = Field(
        default=True,
        description="Press FIRE, where there is such a key, when a game starts and instead of the first action after a "
        "lost life: without it some games wait for ever.",
    )
    full_action_space: bool = Field(default=False, description="All 18 actions instead of those the game uses.")


def is_atari(env_id: str) -> bool:
    return env_id.startswith(NAMESPACE)


def atari_task(kwargs: Mapping[str, Any]) -> AtariTask:
    """The task of a config that was checked."""
    return AtariTask.model_validate(dict(kwargs))
