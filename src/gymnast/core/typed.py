"""What files of a run may hold, by type: whoever reads one knows what it gets, and a damaged one is one line."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, TypeVar

from pydantic import AfterValidator, Field, PlainValidator, TypeAdapter, ValidationError

from gymnast.core.errors import UserError
from gymnast.core.files import number_from_json, read_json
from gymnast.core.text import cut, printable

T = TypeVar("T")
MOST = 2**53  # whole numbers up to here are exact as floats, too

Text = Annotated[str, AfterValidator(printable)]
Number = Annotated[float, PlainValidator(number_from_json)]  # NaN and infinity among them
Count = Annotated[int, Field(ge=0, le=MOST)]


def typed(kind: TypeAdapter[T], data: Any) -> T:
    """The data as that type; ValueError with the place and the value that does not fit."""
    try:
        return kind.validate_python(data)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = ".".join(map(str, first["loc"])) or "it"
        if first["type"] == "missing":
            raise ValueError(f"{cut(place)} is missing") from None
        raise ValueError(f"{cut(place)} cannot be {cut(repr(first['input']))}") from None


def read_typed(path: Path, kind: TypeAdapter[T]) -> T:
    """A JSON file of that type; UserError with the file and the reason where it cannot be read."""
    try:
        return typed(kind, read_json(path))
    except ValueError as error:
        raise UserError(f"{path} cannot be read: {error}.") from error
