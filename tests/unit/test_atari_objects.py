"""Atari's objects from RAM, against arithmetic on paper."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from gymnast.config import load
from gymnast.core.errors import UserError
from gymnast.envs.suites import suite_of
from gymnast.envs.suites.atari.reader import TableReader
from gymnast.envs.suites.atari.table import RamTable
from gymnast.envs.types import Box

# x of 10 to 30 pixels is 20 + what is in cell 3
BALL = {"x": {"cell": 3, "offset": 20, "low": 10, "high": 30}, "y": {"cell": 4, "low": 0, "high": 100}, "size": [2, 4]}
PADDLE = {"x": 140, "y": {"cell": 5, "offset": -50, "low": 0, "high": 100}, "size": [4, 16]}
TABLE = {
    "objects": {"ball": BALL | {"speed": 5}, "paddle": PADDLE},
    "numbers": {"lives": {"cell": 6, "low": 0, "high": 4}},
    "bits": {"wall": [{"cells": [7, 8], "bits": [0, 7]}]},
}


def ram(**cells: int) -> np.ndarray[Any, Any]:
    bytes_ = np.zeros(128, np.uint8)
    for name, value in cells.items():
        bytes_[int(name[1:])] = value
    return bytes_


def test_an_observation_is_what_the_table_says() -> None:
    reader = TableReader(RamTable.model_validate(TABLE), ["NOOP", "LEFT"])
    names = "ball x, ball y, ball velocity x, ball velocity y, ball visible, paddle y, paddle visible, lives, "
    names += "wall 0, wall 1, wall 2, wall 3, last NOOP, last LEFT"
    assert ", ".join(reader.names) == names
    # ball at x = 0 + 20 = 20, the middle; y = 75 is three quarters: 0.5. Paddle at y = 60 - 50 = 10: a tenth, -0.8.
    # 3 lives of 4 are 0.5. Cell 7 = 1 has bit 0, cell 8 = 128 has bit 7.
    first = reader.start(ram(c3=0, c4=75, c5=60, c6=3, c7=1, c8=128))
    np.testing.assert_allclose(first, [0, 0.5, 0, 0, 1, -0.8, 1, 0.5, 1, 0, 0, 1, 0, 0], atol=1e-6)
    # the ball went 5 to the right and 10 up: at a speed of 5 these are 1 and -2
    moved = reader.read(ram(c3=5, c4=65, c5=60), 1)
    np.testing.assert_allclose(moved, [0.5, 0.3, 1, -2, 1, -0.8, 1, -1, 0, 0, 0, 0, 0, 1], atol=1e-6)
    assert reader.space.contains(moved)


def test_what_is_out_of_its_range_is_not_visible() -> None:
    """Then position and velocity are 0, and the velocity stays 0 in the first step it is seen again."""
    reader = TableReader(RamTable.model_validate(TABLE), ["NOOP"])
    reader.start(ram(c3=0, c4=50, c5=60))
    for cells in ({"c3": 11, "c4": 50}, {"c3": 0, "c4": 101}, {"c3": 200, "c4": 200}):
        gone = reader.read(ram(c5=60, **cells), 0)
        assert gone[:5].tolist() == [0, 0, 0, 0, 0]
        assert gone[6] == 1  # the paddle stays
    back = reader.read(ram(c3=10, c4=100, c5=60), 0)
    assert back[:5].tolist() == [1, 1, 0, 0, 1]
    assert reader.read(ram(c3=9, c4=100, c5=60), 0)[2] == pytest.approx(-0.2)
    # a new episode: what was seen before is no step before
    assert reader.start(ram(c3=0, c4=50, c5=60))[2] == 0
    assert reader.read(ram(c3=0, c4=50, c5=60), None)[-1] == 0  # FIRE was pressed for the agent: none of its actions


def test_distances_are_between_middles_and_close_by() -> None:
    """Ball 2 x 4 at 20, 75: its middle is at 21, 77. Paddle 4 x 16 at 140, 69: its middle is at 142, 77."""
    table = TABLE | {"distances": [{"of": "ball", "to": "paddle", "within": 8}]}
    reader = TableReader(RamTable.model_validate(table), [])
    at = [reader.names.index(f"ball from paddle {axis}") for axis in "xy"]
    assert reader.read(ram(c3=0, c4=75, c5=119), None)[at].tolist() == [-1, 0]  # 121 pixels left of it are -1 as well
    assert reader.read(ram(c3=0, c4=81, c5=119), None)[at].tolist() == [-1, 0.75]  # 6 pixels below
    assert reader.read(ram(c3=0, c4=20, c5=119), None)[at].tolist() == [-1, -1]
    assert reader.read(ram(c3=0, c4=101, c5=119), None)[at].tolist() == [0, 0]  # the ball is not visible
    assert reader.names[at[1] + 1] == "lives"


def test_boxes_are_where_the_objects_are() -> None:
    reader = TableReader(RamTable.model_validate(TABLE), [])
    assert reader.boxes(ram(c3=5, c4=65, c5=60)) == [Box("ball", 25, 65, 2, 4), Box("paddle", 140, 10, 4, 16)]
    upside_down = PADDLE | {"y": {"cell": 5, "scale": -1, "offset": 193, "low": 0, "high": 193}}
    assert TableReader(RamTable.model_validate({"objects": {"chicken": upside_down}}), []).boxes(ram(c5=60)) == [
        Box("chicken", 140, 133, 4, 16)
    ]
    assert reader.boxes(ram(c3=5, c4=165, c5=60)) == [Box("paddle", 140, 10, 4, 16)]


def changed(**parts: Any) -> dict[str, Any]:
    return {"observation": "objects", "table": TABLE | parts}


@pytest.mark.parametrize(
    "kwargs,expected",
    [
        ({"observation": "objects"}, "observation = objects: needs a table of RAM cells"),
        ({"observation": "object"}, "observation = object: must be one of grey, rgb, ram, objects"),
        (changed(objects={"ball": BALL | {"colour": 3}}), "table.objects.ball.colour = 3: unknown key"),
        (changed(objects={"ball": BALL, "shadow": BALL}), "objects ball and shadow are the same"),
        (changed(objects={"ball": BALL | {"x": 3, "y": 4}}), "x or y must be a range of RAM"),
        (changed(objects={"ball": BALL | {"size": [3]}}), "table.objects.ball.size"),
        (
            changed(objects={"ball": BALL | {"y": {"cell": 128, "low": 0, "high": 1}}}),
            "table.objects.ball.y.cell = 128: must be less than 128",
        ),
        (
            changed(objects={"ball": BALL | {"y": {"cell": 1, "low": 5, "high": 5}}}),
            "table.objects.ball.y.*low must be below high",
        ),
        (changed(numbers={"ball": {"cell": 1, "low": 0, "high": 1}}), "ball is listed twice"),
        (changed(bits={"wall": [{"cells": [8, 7], "bits": [0]}]}), "must be \\[first, last\\]"),
        (changed(bits={"wall": [{"cells": [7, 8], "bits": [8]}]}), "must be less than 8"),
        (
            changed(distances=[{"of": "ball", "to": "bat", "within": 8}]),
            "bat of a distance is not an object: ball, paddle",
        ),
        ({"observation": "objects", "table": {}}, "is empty: name an object, a number or bits"),
    ],
)
def test_a_mistake_in_a_table_is_one_clear_line(kwargs: dict[str, Any], expected: str) -> None:
    (problem,) = suite_of("ALE/Pong-v5").problems(kwargs)
    assert "\n" not in problem
    with pytest.raises(UserError, match=expected):
        suite_of("ALE/Pong-v5").task(kwargs)


@pytest.mark.parametrize("game,count", [("Pong", 18), ("Breakout", 8 + 1 + 108 + 3)])
def test_tables_of_the_presets(game: str, count: int) -> None:
    """Pong: 5 numbers of the ball, 3 of each paddle, 4 distances, 3 actions.

    Breakout: ball, paddle, lives, bricks, 3 actions.
    """
    kwargs = load(f"ALE/{game}-v5:objects").config.env.kwargs
    reader = TableReader(RamTable.model_validate(kwargs["table"]), kwargs["actions"])
    assert len(reader.names) == len(set(reader.names)) == count
