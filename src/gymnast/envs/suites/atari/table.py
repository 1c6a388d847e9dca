"""What cells of a game's RAM mean: `env.kwargs.table`, a table that a preset or a user's file has. Imports no emulator.

Objects are at pixels of the screen, so that they can be drawn as well as learned from. One whose position lies outside
of its range is not visible. Numbers (lives) and bits (bricks) have no place on the screen.
"""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import (
    AfterValidator,
    Discriminator,
    Field,
    SerializerFunctionWrapHandler,
    Tag,
    model_serializer,
    model_validator,
)

from gymnast.config.fields import Count, Float, Int, Natural, Positive, Section

CELLS = 128  # bytes of RAM in an Atari 2600
Cell = Annotated[Natural, Field(lt=CELLS)]


class Range(Section):
    cell: Cell = Field(description="Of RAM, 0 to 127.")
    scale: Float = Field(default=1.0, description="Times what is in the cell; -1 where it counts from below.")
    offset: Int = Field(default=0, description="Added to that.")
    low: Float = Field(description="Least value, seen by the agent as -1.")
    high: Float = Field(description="Greatest value, seen by the agent as 1.")

    @model_validator(mode="after")
    def _is_a_range(self) -> Range:
        if self.low >= self.high:
            raise ValueError("low must be below high.")
        return self


# told apart first, so that a mistake in one is not reported as two
Coordinate = Annotated[
    Annotated[Range, Tag("<range>")] | Annotated[Natural, Tag("<pixel>")],
    Discriminator(lambda value: "<range>" if isinstance(value, dict | Range) else "<pixel>"),
]


class ScreenObject(Section):
    x: Coordinate = Field(description="Left edge in pixels: a range of RAM, or a number where it never moves.")
    y: Coordinate = Field(description="Upper edge in pixels, likewise.")
    size: Annotated[list[Count], Field(min_length=2, max_length=2)] = Field(description="[width, height] in pixels.")
    speed: Positive | None = Field(
        default=None, description="Pixels in a step that the agent sees as a velocity of 1; null: it sees no velocity."
    )

    @model_validator(mode="after")
    def _moves(self) -> ScreenObject:
        if not self.ranges:
            raise ValueError("x or y must be a range of RAM: what never moves is no observation.")
        return self

    @property
    def ranges(self) -> dict[str, Range]:
        """Of the coordinates that move."""
        return {axis: value for axis, value in (("x", self.x), ("y", self.y)) if isinstance(value, Range)}


def _in_order(cells: list[int]) -> list[int]:
    if cells[0] > cells[1]:
        raise ValueError("must be [first, last].")
    return cells


Bit = Annotated[Natural, Field(lt=8)]


class Bits(Section):
    """The same bits of neighbouring cells."""

    cells: Annotated[list[Cell], Field(min_length=2, max_length=2), AfterValidator(_in_order)] = Field(
        description="[first, last] cell."
    )
    bits: Annotated[list[Bit], Field(min_length=1)] = Field(description="Of each cell; 0 is worth 1, 7 is worth 128.")


class Distance(Section):
    """From the middle of an object to that of another one, closely where it is small."""

    of: str = Field(description="Name of an object.")
    to: str = Field(description="Name of another one.")
    within: Positive = Field(description="Pixels that the agent sees as 1; more is seen as 1 too.")


class Difference(Section):
    """A byte minus another one or a number, closely where it is small."""

    of: Cell = Field(description="A byte of RAM, 0 to 127.")
    to: Cell | None = Field(None, description="Another one.")
    number: Annotated[Natural, Field(le=255)] | None = Field(
        None, description="Instead of another byte: a number, like the column of a paddle that moves up and down."
    )
    within: Annotated[Count, Field(le=255)] = Field(description="Larger differences are cut to this.")

    @model_validator(mode="after")
    def _one_of_two(self) -> Difference:
        if (self.to is None) == (self.number is None):
            raise ValueError(f"a difference of byte {self.of}: set either `to` (another byte) or `number`.")
        return self

    @model_serializer(mode="wrap")
    def _as_written(self, whole: SerializerFunctionWrapHandler) -> dict[str, int]:
        return {key: value for key, value in whole(self).items() if value is not None}

    @property
    def label(self) -> str:
        return f"byte {self.of} - {f'byte {self.to}' if self.number is None else self.number}"


class RamTable(Section):
    objects: dict[str, ScreenObject] = Field(default={}, description="Things on the screen, by name.")
    distances: list[Distance] = Field(
        default=[], description="Between objects: how far one is right of and below another."
    )
    numbers: dict[str, Range] = Field(default={}, description="Other cells, by name.")
    bits: dict[str, list[Bits]] = Field(default={}, description="Maps of single bits, by name.")

    @model_validator(mode="after")
    def _is_sound(self) -> RamTable:
        places: dict[Any, str] = {}
        for name, thing in self.objects.items():
            place = tuple((axis, value.cell) for axis, value in thing.ranges.items())
            if place in places:
                raise ValueError(f"objects {places[place]} and {name} are the same: they are read from the same cells.")
            places[place] = name
        names = [*self.objects, *self.numbers, *self.bits]
        if twice := next((name for name in names if names.count(name) > 1), None):
            raise ValueError(f"{twice} is listed twice.")
        for distance in self.distances:
            for name in (distance.of, distance.to):
                if name not in self.objects:
                    raise ValueError(f"{name} of a distance is not an object: {', '.join(self.objects)}.")
        if not names:
            raise ValueError("is empty: name an object, a number or bits.")
        return self
