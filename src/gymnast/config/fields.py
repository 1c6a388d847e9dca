"""The kinds of value a config field may hold, with their ranges."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field

from gymnast.core.schedule import Schedule


class Section(BaseModel):
    """Strict and unchangeable: unknown keys are refused, a run's config never changes while it runs."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False, validate_default=True)


def _number(value: Any) -> Any:
    if isinstance(value, bool | str):  # YAML's true would count as 1, and "5" is a quoted mistake
        raise ValueError("must be a number.")
    return value


def _never_negative(schedule: Schedule) -> Schedule:
    if schedule.lowest < 0.0:
        raise ValueError(f"must never be negative; it reaches {schedule.lowest:g}.")
    return schedule


def _positive_somewhere(schedule: Schedule) -> Schedule:
    if schedule.highest <= 0.0:
        raise ValueError("must be positive.")
    return _never_negative(schedule)


Int = Annotated[int, BeforeValidator(_number)]
Float = Annotated[float, BeforeValidator(_number)]
Count = Annotated[Int, Field(ge=1)]
Natural = Annotated[Int, Field(ge=0)]
Positive = Annotated[Float, Field(gt=0)]
Share = Annotated[Float, Field(ge=0, le=1)]
Rate = Annotated[Schedule, AfterValidator(_positive_somewhere)]  # may fall to zero, as linear schedules do
Weight = Annotated[Schedule, AfterValidator(_never_negative)]
