"""The kinds of value a config field may hold, with their ranges."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, model_serializer, model_validator

from gymnast.core.schedule import Schedule


class Section(BaseModel):
    """Strict and unchangeable: unknown keys are refused, a run's config never changes while it runs."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False, validate_default=True)


@dataclass(frozen=True)
class RuleProblem:
    """What is wrong between several keys."""

    keys: tuple[str, ...]  # the key to change first, then the others that take part
    text: str


class Named(Section):
    """Something registered, by name; written as `name` or `{name: {param: value}}`."""

    kind: ClassVar[str] = "an extension"
    name: str
    kwargs: dict[str, Any] = {}

    @model_validator(mode="before")
    @classmethod
    def _from_short_form(cls, form: Any) -> Any:
        if isinstance(form, str):
            return {"name": form}
        if isinstance(form, dict) and isinstance(form.get("name"), str) and set(form) <= {"name", "kwargs"}:
            return form  # keyword arguments in Python
        if isinstance(form, dict) and len(form) == 1:
            ((name, kwargs),) = form.items()
            if isinstance(name, str) and (kwargs is None or isinstance(kwargs, dict)):
                return {"name": name, "kwargs": kwargs or {}}
        raise ValueError(f"{form!r} is not {cls.kind}. Write a name, or {{name: {{param: value}}}}.")

    @model_serializer
    def _to_short_form(self) -> Any:
        return {self.name: dict(self.kwargs)} if self.kwargs else self.name


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


Int = Annotated[int, BeforeValidator(_number), Field(ge=-(2**53), le=2**53)]  # exact as floats, too
Float = Annotated[float, BeforeValidator(_number)]
Count = Annotated[Int, Field(ge=1)]
Size = Annotated[Int, Field(ge=1, le=65_536)]  # of what is allocated at once
Natural = Annotated[Int, Field(ge=0)]
Positive = Annotated[Float, Field(gt=0)]
Share = Annotated[Float, Field(ge=0, le=1)]
Rate = Annotated[Schedule, AfterValidator(_positive_somewhere)]  # may fall to zero, as linear schedules do
Weight = Annotated[Schedule, AfterValidator(_never_negative)]
