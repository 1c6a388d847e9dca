"""The pieces that tables and charts are made of, by hand arithmetic."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from rich.console import Console

from gymnast.apps.terminal import Column, ago, number, setting, span, table
from gymnast.report.chart import chart


def test_a_straight_line_is_drawn_straight() -> None:
    """0 to 9 over ten columns and ten rows: each mark one column to the right and one row up."""
    picture = [text.plain for text in chart([(step, step) for step in range(10)], [], None, width=13, height=10)]
    rows = [line.partition("┤")[2] or line.partition("│")[2] for line in picture[:10]]
    # x runs to the last step, 9, over 10 columns: step s stands in column s * 10 // 9, the last one in column 9
    assert [row.find("▪") for row in reversed(rows)] == [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]
    assert picture[0].startswith("9 ┤")
    assert picture[9].startswith("0 ┤")
    assert picture[-1].endswith("9 steps")


def test_the_line_bridges_columns_without_a_row_and_dots_stand_on_top() -> None:
    marks = "".join(text.plain for text in chart([(0, 0), (100, 4)], [(100, 4)], None, width=13, height=5)[:5])
    assert marks.count("◆") == 1
    assert marks.count("▪") == 9  # ten columns, the last one under the dot


def test_a_level_is_drawn_where_it_is_near_enough_to_leave_room_for_the_points() -> None:
    points = [(step, float(step)) for step in range(10)]  # values 0 to 9: up to 9 + 3 * 9 = 36 counts as near
    assert any("┄" in text.plain for text in chart(points, [], 36, width=40))
    assert not any("┄" in text.plain for text in chart(points, [], 37, width=40))


@pytest.mark.parametrize("line", [[], [(1, float("nan"))], [(1, float("inf"))]])
def test_nothing_to_draw(line: list[tuple[float, float]]) -> None:
    assert chart(line, [], 5.0, width=40) == []


def test_one_point_and_no_steps_are_no_division_by_zero() -> None:
    assert chart([(0, 5.0)], [], None, width=40)
    assert chart([(256, 5.0)], [(256, 5.0)], 5.0, width=40)


def test_columns_go_in_their_order_until_the_rest_fits() -> None:
    columns = [Column("keep"), Column("second", drop=1), Column("first", drop=2)]

    def titles(width: int) -> list[object]:
        return [column.header for column in table(Console(width=width), columns, [["a", "b", "c"]]).columns]

    assert titles(19) == ["keep", "second", "first"]  # 4 + 6 + 5 letters and two gaps of 2
    assert titles(18) == ["keep", "second"]
    assert titles(11) == ["keep"]  # 4 + 2 + 6 = 12 would be needed
    assert titles(2) == ["keep"]


def test_words_for_numbers_times_and_settings() -> None:
    assert [number(value) for value in (1234, 1234.5, None, True)] == ["1,234", "1,234.50", "", ""]
    assert span(-1, 1) == "-1 to 1"
    assert span(None, float("inf")) == "unbounded"
    assert (span(0, None), span(None, 3), span(1, 1)) == ("0 and more", "up to 3", "1")
    now = datetime.now(UTC)
    hours_ago = (now - timedelta(hours=2, minutes=59)).isoformat()
    assert [ago(now.isoformat()), ago(hours_ago), ago("yesterday")] == ["just now", "2 h ago", ""]
    assert setting({"start": 0.1, "end": [1, None, True]}) == "{start: 0.1, end: [1, null, true]}"
