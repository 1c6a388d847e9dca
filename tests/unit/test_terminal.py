"""The pieces that tables, charts and summaries are made of, by hand arithmetic."""

from __future__ import annotations

import io
import math
import re
import time
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from rich.console import Console

from gymnast import config as configs
from gymnast.alerts.alert import Alert, Evidence
from gymnast.core.statistics import widened
from gymnast.core.text import ago, bar, number, setting, span, sparkline
from gymnast.report.charts import svg
from gymnast.report.charts.model import Chart, Curve, Level, goals
from gymnast.report.charts.text import draw
from gymnast.terminal import progress
from gymnast.terminal.format import Column, table
from gymnast.terminal.summary import summary_panel
from gymnast.verbs.result import Scored


def line(points: list[tuple[float, float]]) -> Curve:
    return Curve("training", points)


def chart(curves: list[Curve], level: float | None = None, width: int = 40, height: int = 10) -> list[str]:
    """Without the line of the title."""
    drawn = draw(Chart("return", tuple(curves), goals(level, None)), width, height)
    return [text.plain for text in drawn[1:]]


def dots(points: list[tuple[float, float]]) -> Curve:
    return Curve("evaluation", points, joined=False)


def test_a_straight_line_is_drawn_straight() -> None:
    """0 to 10 over ten columns and ten rows: each mark one column to the right and one row up."""
    picture = chart([line([(step, step * 10 / 9) for step in range(10)])], width=14)
    rows = [line.partition("┤")[2] or line.partition("│")[2] for line in picture[:10]]
    # x runs to the last step, 9, over 10 columns: step s stands in column s * 10 // 9, the last one in column 9
    assert [row.find("▪") for row in reversed(rows)] == [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]
    assert picture[0].startswith("10 ┤")
    assert picture[9].startswith(" 0 ┤")
    assert picture[-1].endswith("9 env steps")


def test_the_line_bridges_columns_without_a_row_and_dots_stand_on_top() -> None:
    curves = [line([(0, 0), (100, 4)]), dots([(100, 4)])]
    marks = "".join(chart(curves, width=13, height=5)[:5])
    assert marks.count("◆") == 1
    assert marks.count("▪") == 9  # ten columns, the last one under the dot


def test_a_level_is_drawn_where_it_is_near_enough_to_leave_room_for_the_points() -> None:
    points = [(step, float(step)) for step in range(10)]  # values 0 to 9: up to 9 + 3 * 9 = 36 counts as near
    near, far = (chart([line(points)], level) for level in (36, 37))
    assert any("┄" in row for row in near)
    assert not any("┄" in row for row in far)
    titles = [draw(Chart("return", (line(points),), goals(at, None)), 40)[0].plain for at in (36, 37)]
    assert titles == ["return  ▪ training   ┄┄ solved at 36", "return  ▪ training   solved at 37, far off"]


def test_several_lines_have_marks_of_their_own_and_bands_lie_behind_them() -> None:
    """A band from 0 to 4 over the whole width fills all five rows; the line at 2 takes the middle one."""
    banded = Curve("one", [(0, 2), (100, 2)], band=[(0, 0, 4), (100, 0, 4)])
    rows = [row.split("┤")[-1].split("│")[-1] for row in chart([banded], width=13, height=5)[:5]]
    assert rows == ["░" * 10, "░" * 10, "▪" * 10, "░" * 10, "░" * 10]
    both = chart([line([(0, 0), (100, 0)]), line([(0, 1), (100, 1)])], width=13, height=5)
    assert "●" in both[0]
    assert "▪" in both[4]


@pytest.mark.parametrize(
    ("values", "shown"), [((0.012, 0.034), "0.035"), ((1.0, 488.0), "500"), ((20.5, 21.5), "21.6"), ((-189, 47), "50")]
)
def test_labels_are_round_numbers(values: tuple[float, float], shown: str) -> None:
    assert chart([line([(0, values[0]), (10, values[1])])])[0].strip().startswith(shown)


@pytest.mark.parametrize("points", [[], [(1, float("nan"))], [(1, float("inf"))]])
def test_nothing_to_draw(points: list[tuple[float, float]]) -> None:
    assert chart([line(points)], 5.0) == []


def test_one_point_and_no_steps_are_no_division_by_zero() -> None:
    assert chart([line([(0, 5.0)])])
    assert chart([line([(256, 5.0)]), dots([(256, 5.0)])], 5.0)


@pytest.mark.parametrize("value", [-1e18, 1e18, 1e149, 2.0**53, 0.0, 5e-324])
def test_a_constant_of_any_size_can_be_drawn(value: float) -> None:
    """Beyond 2**53 a number minus a half is that number: an axis of a fixed width would have none."""
    points = [(256.0, value), (512.0, value)]
    low, high = widened(value, value)
    assert (low < value < high, high - low >= 1.0) == (True, True)
    assert sum("▪" in row for row in chart([line(points)])) == 1
    drawn = svg.draw(Chart("return", (line(points),)))
    places = {corner for _, corner in re.findall(r'points="(\S+) (\S+)" stroke="#0', drawn)}
    assert len(places) == 1
    assert "nan" not in drawn
    assert chart([line([(5e-324, value)])])  # nor is there an axis of steps without a length


def test_a_narrow_range_keeps_its_ends() -> None:
    assert widened(1.0, 1.0 + 1e-9) == (1.0, 1.0 + 1e-9)
    assert widened(0.0, 10.0, margin=0.05) == (-0.5, 10.5)
    assert widened(1.0, 1.0) == (0.5, 1.5)


@pytest.mark.parametrize(
    ("share", "shown"), [(1e9, "████"), (0.5, "██"), (1e-9, "▏"), (0, ""), (-5, ""), (math.nan, "")]
)
def test_a_bar_has_an_end(share: float, shown: str) -> None:
    assert bar(share, 4) == shown


def test_columns_go_in_their_order_until_the_rest_fits() -> None:
    columns = [Column("keep"), Column("second", drop=1), Column("first", drop=2)]

    def titles(width: int) -> list[object]:
        return [column.header for column in table(Console(width=width), columns, [["a", "b", "c"]]).columns]

    assert titles(19) == ["keep", "second", "first"]  # 4 + 6 + 5 letters and two gaps of 2
    assert titles(18) == ["keep", "second"]
    assert titles(11) == ["keep"]  # 4 + 2 + 6 = 12 would be needed
    assert titles(2) == ["keep"]


def test_prose_fits_a_page_in_a_pipe_too() -> None:
    """Where nothing else is cut."""
    console = Console(width=2000, file=io.StringIO())
    console.print(table(console, [Column("name"), Column("meaning", wraps=24, most=60)], [["a" * 80, "word " * 100]]))
    assert isinstance(console.file, io.StringIO)
    lines = [line.rstrip() for line in console.file.getvalue().splitlines()]
    assert 80 < max(map(len, lines)) <= 80 + 2 + 60


def test_a_verb_that_takes_long_says_so_in_a_pipe(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(progress, "EVERY", 0.01)
    for quiet in (False, True):
        with progress.progress_bar(quiet) as bar:
            bar.plan(4)
            bar.step("evaluating")
            bar.done()
            said = ""
            for _ in range(500):
                said += capsys.readouterr().err
                if said.count("evaluating: 25 %, 0:00\n") > 1 or quiet:
                    break
                time.sleep(0.01)
            assert ("evaluating: 25 %" in said) is not quiet
        capsys.readouterr()


def test_words_for_numbers_times_and_settings() -> None:
    assert [number(value) for value in (1234, 1234.5, None, True)] == ["1,234", "1,234.5", "", ""]
    assert span(-1, 1) == "-1 to 1"
    assert span(None, float("inf")) == "unbounded"
    assert (span(0, None), span(None, 3), span(1, 1)) == ("0 and more", "up to 3", "1")
    now = datetime.now(UTC)
    hours_ago = (now - timedelta(hours=2, minutes=59)).isoformat()
    assert [ago(now.isoformat()), ago(hours_ago), ago("yesterday")] == ["just now", "2 h ago", ""]
    assert setting({"start": 0.1, "end": [1, None, True]}) == "{start: 0.1, end: [1, null, true]}"


def test_sparkline() -> None:
    assert sparkline([], 10) == ""
    assert sparkline([0, 7], 2) == "▁█"
    assert sparkline([0, 0, 7, 7, 3.5, float("nan")], 5) == "▁▁██▅"
    assert sparkline([3.0], 4) == "▁▁▁▁"
    assert sparkline([0.0, 5e-324], 2) == "▁█"
    assert len(sparkline(list(range(1000)), 37)) == 37


def test_an_svg_has_a_shape_for_every_kind_of_curve() -> None:
    """A line with its band, thin lines where there is no mean, dots; what is not finite is left out."""
    mean = Curve("mean", [(0, 1), (10, 2)], band=[(0, 0, 2), (10, 1, 3)], runs=[[(0, 0), (10, 1)]])
    alone = Curve("alone", runs=[[(0, 0), (10, 1)], [(0, 1), (10, 2)]])
    text = svg.draw(
        Chart("a < b", (mean, alone, Curve("dots", [(5, 1), (6, float("nan"))], joined=False)), (Level(3.0, "goal"),))
    )
    assert (text.count("<polygon"), text.count('stroke-width="2"'), text.count('opacity="0.6"')) == (1, 1, 2)
    assert text.count("<circle") == 1
    assert "a &lt; b" in text
    assert ">goal<" in text
    assert svg.draw(Chart("nothing", (Curve("x", [(1, float("nan"))]),), goals(5.0, None))) == ""


TRAINED = Scored(
    {
        "env_steps": 61_440,
        "seconds": 72.0,
        "fps": 5100.2,
        "solved": True,
        "on_target": False,
        "target": None,
        "eval_mean": 498.214,
        "interval": [496.0, 500.0],
        "episodes": 100,
        "exact_value": None,
        "stop_reason": "solved",
        "best_at": 57_344,
        "last_score": 431.5,
        "last_at": 61_440,
    },
    "k7f3q-cartpole-v1-ppo-s1",
    configs.load("CartPole-v1", seed=1).config,
    475.0,
    [("gymnast eval @last", "score it on other episodes")],
)


def summary(result: Scored, **data: Any) -> str:
    console = Console(file=io.StringIO(), width=100, record=True)
    console.print(summary_panel(replace(result, data=result.data | data)))
    return console.export_text()


def test_the_summary_says_what_happened_and_what_is_next() -> None:
    for part in (
        "SOLVED  CartPole-v1 · ppo · seed 1",
        "498.21  95% interval 496.00 to 500.00",
        "100 fresh episodes, greedy",
        "475",
        "61,440 steps in 1:12  5,100 steps/s",
        "k7f3q-cartpole-v1-ppo-s1",
        "gymnast eval @last",
        "  score it on other episodes",
    ):
        assert part in summary(TRAINED)
    resumed = summary(TRAINED, resumed_at=51_440)
    assert "61,440 steps in 1:12, 10,000 of them since it was resumed at 51,440  5,100 steps/s" in resumed
    unsolved: dict[str, Any] = {"solved": False, "stop_reason": "steps"}
    assert "NOT SOLVED" in summary(TRAINED, **unsolved)
    assert "NOT JUDGED" in summary(TRAINED, **unsolved, eval_mean=None, interval=None)  # the time was up before that
    interrupted = unsolved | {"stop_reason": "interrupted", "eval_mean": None, "interval": None}
    assert "INTERRUPTED" in summary(TRAINED, **interrupted)
    assert "DONE" in summary(replace(TRAINED, threshold=None), **unsolved)
    few = summary(TRAINED, solved=False, stop_reason=None, episodes=20)  # `gymnast eval` of a saved agent
    assert "UNDECIDED  CartPole-v1" in few
    assert "475; 20 episodes are too few to show it" in few
    assert "NOT SOLVED" in summary(TRAINED, solved=False, stop_reason=None, eval_mean=474.0)


def test_the_summary_says_what_to_try() -> None:
    evidence = {"train/clip_fraction_vf": Evidence(2.31, high=0.2)}
    alert = Alert(
        "kl_high", "warning", 5, 62_464, 7, True, "Too much.", "Too fast.", evidence, {"algo.learning_rate": 0.003}
    )
    text = summary(replace(TRAINED, alerts=[alert]))
    assert "kl_high  Too much." in text
    assert "7 rows, from 5 steps to the end" in text
    assert "algo.learning_rate=0.003" in text


def test_a_long_text_does_not_hide_the_other_rows() -> None:
    """Of a file that somebody has changed: which row is which can be read all the same."""
    console = Console(width=80, file=io.StringIO())
    columns = [Column("run"), Column("env"), Column("status")]
    console.print(table(console, columns, [["a2b3c", "Env-v0", "x" * 10_000], ["d4f6g", "y" * 10_000, "finished"]]))
    assert isinstance(console.file, io.StringIO)
    lines = console.file.getvalue().splitlines()
    assert [line.split()[0] for line in lines] == ["run", "a2b3c", "d4f6g"]
    assert all(len(line) <= 80 for line in lines)
