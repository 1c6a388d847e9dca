"""What is known about an environment: the `facts` part of its preset file."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from pydantic import Field, model_validator

from gymnast.config.fields import Count, Float, Section
from gymnast.config.schema import EnvConfig


class ObservationFact(Section):
    """One component of the observation; a discrete observation has one, from 0 to n - 1."""

    name: str = Field(description="Component.")
    low: Float | None = Field(None, description="Least value; null: unbounded.")
    high: Float | None = Field(None, description="Greatest value; null: unbounded.")
    unit: str | None = Field(None, description="Unit.")
    meaning: str | None = Field(None, description="What it says.")


class RewardFact(Section):
    """Reward of one step."""

    low: Float | None = Field(None, description="Least reward of a step; null: unbounded.")
    high: Float | None = Field(None, description="Greatest reward of a step; null: unbounded.")
    meaning: str = Field(description="What is rewarded.")


CHOSEN = "chosen here"  # the source of a threshold, where none is registered


class SolvedFact(Section):
    """The score that counts as solved."""

    threshold: Float = Field(description="Mean return over the episodes.")
    episodes: Count = Field(100, description="Episodes it is measured on.")
    source: str = Field(description="Who says so.")
    note: str | None = Field(None, description="Why this number.")
    evidence: Literal["not reached", "not tried"] | None = Field(
        None, description="Where no agent of ours is known to have reached it; null: benchmarks/RESULTS.md has one."
    )


class ReferenceFact(Section):
    """A published score."""

    algo: str = Field(description="Algorithm and settings.")
    score: Float = Field(description="Mean return.")
    steps: Count | None = Field(None, description="Env steps it took; null: not given.")
    source: str = Field(description="Where it was published.")


@dataclass(frozen=True)
class Optimum:
    """The best possible mean return of an env, and how it is known."""

    value: float
    source: str

    def problem(self, threshold: float, env_id: str) -> str | None:
        """Why a threshold can never be reached, or None."""
        if threshold <= self.value:
            return None
        return (
            f"{threshold:g} is above the best possible mean return {self.value:g} of {env_id}"
            f" ({self.source}). Use {self.value:g} or less."
        )


class EnvFacts(Section):
    family: str = Field(description="Group of environments.")
    description: str = Field(description="The task in one line.")
    kwargs: dict[str, Any] = Field({}, description="Env kwargs these facts hold for.")
    max_episode_steps: Count | None = Field(None, description="Time limit these facts hold for; null: no limit.")
    actions: list[str] = Field(description="Label of each action, or of each component of a continuous one.")
    observations: list[ObservationFact] = Field(description="Components of the observation.")
    reward: RewardFact = Field(description="Reward of a step.")
    solved: SolvedFact | None = Field(None, description="The score that counts as solved.")
    tabular: bool = Field(False, description="The env has a transition table: the optimum is computed from it.")
    optimum: Float | None = Field(None, description="Best possible mean return, computed exactly; null: not known.")
    optimum_source: str | None = Field(None, description="How the optimum was computed.")
    lowest_return: Float | None = Field(
        None, description="The lowest return that the rules allow an episode; null: not known, or there is none."
    )
    any_kwargs: bool = Field(
        False, description="Optimum and lowest return are those of the rules, whatever env.kwargs says."
    )
    references: list[ReferenceFact] = Field([], description="Published scores.")
    extra: str | None = Field(None, description="Optional package group the env needs; null: core.")
    own_rom: bool = Field(False, description="The game's ROM is not in the package: users bring their own.")

    @model_validator(mode="after")
    def _optimum_is_sound(self) -> EnvFacts:
        if self.optimum is not None and self.optimum_source is None and not self.tabular:
            raise ValueError("optimum needs optimum_source: say how it was computed.")
        if self.optimum is not None and self.solved is not None and self.solved.threshold > self.optimum:
            raise ValueError(f"solved.threshold {self.solved.threshold:g} is above the optimum {self.optimum:g}.")
        if self.lowest_return is not None and self.solved is not None and self.solved.threshold < self.lowest_return:
            raise ValueError(
                f"solved.threshold {self.solved.threshold:g} is below lowest_return {self.lowest_return:g}."
            )
        return self

    def described(self, env_id: str) -> EnvConfig:
        """The env that these facts are about."""
        return EnvConfig(id=env_id, kwargs=self.kwargs, max_episode_steps=self.max_episode_steps)

    def best_return(self, env: EnvConfig) -> Optimum | None:
        """The optimum of an env as a config makes it: from its table, else as stated here, where that still holds."""
        if self.tabular:
            from gymnast.envs.tabular.oracle import find_table  # makes the env

            table = find_table(env)
            return None if table is None else table.optimum
        if self.optimum is None or not self.hold_for(env):
            return None
        return Optimum(self.optimum, self.optimum_source or "")

    def hold_for(self, env: EnvConfig) -> bool:
        """Whether the env is made as these facts describe it: a changed physics or time limit has another optimum."""
        return (self.any_kwargs or env.kwargs == self.kwargs) and env.max_episode_steps in (
            None,
            self.max_episode_steps,
        )
