"""Scores of a curriculum's stages: what an agent still earns in those it has left, and what it has forgotten."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gymnast.config import EnvConfig, RunConfig

Row = dict[str, float]


@dataclass(frozen=True)
class StageEnd:
    """How a stage ended."""

    step: int  # env steps of the run
    score: float | None  # mean return then, of episodes that decided nothing; None: no episode ever ended


@dataclass(frozen=True)
class Stage:
    """The stage that agents are scored in, and the envs of those before it. A run without stages is one, unnamed."""

    name: str = ""
    earlier: dict[str, EnvConfig] = field(default_factory=dict)
    is_last: bool = True
    is_scored: bool = True  # at its end and in later stages

    @classmethod
    def of(cls, config: RunConfig, index: int) -> Stage:
        names = list(config.stages)
        if not names:
            return cls()
        scored = {name for name, stage in config.stages.items() if stage.forgetting}
        earlier = {name: config.in_stage(place).eval_env for place, name in enumerate(names[:index]) if name in scored}
        return cls(names[index], earlier, index == len(names) - 1, names[index] in scored)


def stage_row(scores: Mapping[str, float], ends: Mapping[str, StageEnd]) -> Row:
    """`scores`: mean returns of one agent, by stage. What it has forgotten of a stage is what it earned at its end and
    does not earn now."""
    row = {f"stage/{name}/mean_reward": score for name, score in scores.items()}
    known = {name: end.score for name, end in ends.items() if end.score is not None}
    return row | {f"forgetting/{name}": known[name] - score for name, score in scores.items() if name in known}


NO_STAGES = Stage()
