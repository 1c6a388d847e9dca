"""What a person sees: the file's numbers, in a table that fits, or in plain lines, or not at all."""

from __future__ import annotations

import io
import os
import pty
import re
import subprocess
import sys
import textwrap
from dataclasses import replace
from pathlib import Path
from time import perf_counter
from typing import Any

import pytest
from rich.console import Console, RenderableType

from gymnast.alerts.alert import Alert, Evidence
from gymnast.core import pulse as pulse_module
from gymnast.core.pulse import Pulse
from gymnast.metrics.catalogue import catalogue
from gymnast.sinks import SinkGroup
from gymnast.sinks.console import console as console_module
from gymnast.sinks.console.console import ConsoleSink
from gymnast.sinks.console.panels import AWAITED, Dashboard
from gymnast.sinks.jsonl import JsonlSink, read_metrics
from tests.processes import wait_for
from tests.sinks_for_tests import run_info

ROOT = Path(__file__).parents[2]
PHASES = {"env": 0.21, "act": 0.28, "copy": 0.03, "returns": 0.02, "update": 0.4, "log": 0.02, "eval": 0.04}
PHASES |= dict.fromkeys(("send", "receive", "wait"), 0.0)  # of runs with actors


def full_row(step: int = 62_464) -> dict[str, float]:
    """Every metric of the catalogue with a value of its own."""
    row = {m.name: 0.5 + m.order / 1000 for m in catalogue() if not m.name.endswith("*")}
    times = {"time/total_timesteps": step, "time/progress": step / 100_000, "time/elapsed": 12.5, "time/fps": 5204.3}
    shares = {f"time/share/{phase}": share for phase, share in PHASES.items()}
    return row | times | shares | {"train/grad_norm/actor": 0.25, "rollout/ep_rew_mean": 212.4, "time/updates": 30.0}


def draw(renderable: RenderableType, width: int, height: int = 200) -> list[str]:
    console = Console(file=io.StringIO(), width=width, height=height, record=True)
    console.print(renderable)
    return console.export_text().rstrip("\n").split("\n")


def picture(width: int, lines: int | None = None, **changes: Any) -> list[str]:
    options: dict[str, Any] = {"title": "CartPole-v1 · ppo", "total_steps": 100_000, "threshold": 475.0}
    options |= {"step": 62_464, "elapsed": 12.5, "remaining": 7.0, "history": [1.0, 2.0, 5.0], "lines": lines}
    return draw(Dashboard(**({"row": full_row()} | options | changes)), width)


@pytest.mark.parametrize("width", [40, 60, 80, 100, 120, 200])
@pytest.mark.parametrize("lines", [None, 12, 23, 50])
def test_it_fits_whatever_the_terminal(width: int, lines: int | None) -> None:
    drawn = picture(width, lines)
    assert {len(line) for line in drawn} == {width}  # a frame without a dent: nothing wrapped
    assert lines is None or len(drawn) <= lines
    assert drawn[0].startswith("╭─ CartPole-v1 · ppo")
    assert drawn[-1].startswith("╰")


def test_every_number_is_there_in_the_catalogues_precision() -> None:
    text = "\n".join(picture(120))
    for name, value in full_row().items():
        metric = catalogue().get(name)
        if name.startswith("time/share/") or name in ("time/progress", "time/total_timesteps", "time/elapsed"):
            continue
        assert metric.text(value) in text, name
        assert metric.label in text or name == "time/fps", name
    assert "62.5%  62,464 / 100,000 steps" in text
    assert "0:12 elapsed   0:07 left   5,204 steps/s" in text
    assert "solved at 475" in text
    assert re.search(r"■ update 40%  ■ act 28%  ■ env 21%", text)


def test_the_table_keeps_the_catalogues_order() -> None:
    labels = [line[2:-2].split()[0] for line in picture(40) if not line.startswith(("╭", "╰")) and line[2:-2].strip()]
    place = {m.label: m.order for m in map(catalogue().get, full_row()) if m.group == "train"}
    shown = [place[label] for label in labels[labels.index("train") + 1 : labels.index("net")]]
    assert shown == sorted(shown)
    groups = [label for label in labels if label in ("time", "rollout", "eval", "verdict", "train", "net")]
    assert groups[-6:] == [
        "time",
        "rollout",
        "eval",
        "verdict",
        "train",
        "net",
    ]  # before them: the time bar's own label


def test_what_matters_is_shown_first_when_there_is_little_room() -> None:
    drawn = picture(80, 14)
    text = "\n".join(drawn)
    for metric in catalogue():
        if metric.emphasis and not metric.name.endswith("/*"):  # only a run with several tasks has those
            assert metric.label in text or metric.name == "time/fps", metric.name
    assert "more in metrics.jsonl" in drawn[-1]
    assert "obs_std" not in text


def test_arrows_and_old_evaluations() -> None:
    before = {"rollout/ep_rew_mean": 100.0, "train/value_loss": 0.0, "train/loss": full_row()["train/loss"]}
    written_at = {"eval/mean_reward": 60_000, "verdict/mean": 62_464}
    text = "\n".join(picture(40, previous=before, written_at=written_at))
    assert re.search(r"ep_rew_mean +212.40 ▴", text)
    assert re.search(r"value_loss +\S+ ▴", text)
    assert not re.search(r" loss +\S+ [▴▾]", text)  # unchanged
    assert "eval at 60,000" in text
    assert "verdict ─" in text


def alarm(rule: str, firing: bool = True) -> Alert:
    evidence = {"train/clip_fraction_vf": Evidence(2.31, high=0.2)}
    patch = {"algo.learning_rate": 0.003}
    return Alert(rule, "warning", 5, 62_464, 7, firing, "Too much.", "Too fast.", evidence, patch)


@pytest.mark.parametrize("width", [40, 80, 200])
@pytest.mark.parametrize("lines", [None, 12, 23, 50])
def test_alerts_stand_above_the_table_and_it_still_fits(width: int, lines: int | None) -> None:
    alerts = [alarm("kl_high"), alarm("not_now", firing=False), *(alarm(f"rule_{i}") for i in range(3))]
    drawn = picture(width, lines, alerts=alerts)
    assert {len(line) for line in drawn} == {width}
    assert lines is None or len(drawn) <= lines
    text = "\n".join(drawn)
    assert "▲ kl_high x7" in text
    assert "not_now" not in text
    if width >= 80:
        assert "clip_fraction_vf 231.0% > 20.0%  try algo.learning_rate=0.003" in text
    if lines != 12:
        shown = 1 if lines == 23 else 3
        assert f"and {5 - shown} more alerts in alerts.json" in text
        # a detail that would have no room otherwise: an alert points at it
        assert re.search(r"clip_fraction_vf +\S+", "\n".join(drawn[8:]))


def test_advice_is_not_what_is_cut() -> None:
    alert = alarm("kl_high")
    more = {f"train/{name}": Evidence(0.5, high=0.2) for name in ("approx_kl", "clip_fraction", "entropy")}
    alert = replace(alert, evidence=alert.evidence | more)
    (line,) = (line for line in picture(80, 23, alerts=[alert]) if "kl_high" in line)
    assert "…  try algo.learning_rate=0.003" in line


def frame(row: dict[str, float], width: int = 100, lines: int = 39, **facts: Any) -> list[str]:
    shown = Dashboard(row=row, title="x", total_steps=100_000, step=62_464, elapsed=1.0, lines=lines, **facts)
    return draw(shown, width)


def test_nothing_moves_when_the_first_episode_evaluation_verdict_and_alert_come() -> None:
    row = full_row()
    early = {name: value for name, value in row.items() if not name.startswith(("rollout/ep_", "eval/", "verdict/"))}
    late = early | {f"{group}/{name}": row[f"{group}/{name}"] for group, some in AWAITED.items() for name in some}
    alert = replace(alarm("kl_high"), evidence={"train/approx_kl": Evidence(2.0, high=0.2)})
    places = []
    for drawn in (frame(early), frame(late, history=[1.0, 2.0]), frame(late, alerts=[alert])):
        assert len(drawn) == 39
        places.append([(i, re.findall(r"[a-z]\w+ (?=─)", line)) for i, line in enumerate(drawn)])
    assert places[0] == places[1] == places[2]
    assert re.search(r"solved +-", "\n".join(frame(early)))  # nobody has asked yet
    assert re.search(r"solved +yes", "\n".join(frame(late)))


def test_large_terminals_get_a_large_curve() -> None:
    drawn = frame(full_row(), 200, 49, history=[float(i) for i in range(100)], threshold=475.0)
    assert sum("█" in line for line in drawn) > 10
    assert any("99.00 highest" in line for line in drawn)
    assert any("0.00 lowest" in line for line in drawn)
    assert "█" in drawn[3][150:]  # from the first step to this one, not as far as the budget is used


def test_layers_can_be_told_apart_and_frames_are_shown_where_they_say_something() -> None:
    layers = {f"net/grad_norm/critic_body.layers.{i}.weight": 0.5 for i in range(3)}
    text = "\n".join(picture(40, row=full_row() | layers | {"time/frames": 62_000.0}))
    assert all(f"_body.layers.{i}.weight" in text for i in range(3))
    assert not re.search(r"│ frames", text)
    assert re.search(r"│ frames +250,000", "\n".join(picture(40, row=full_row() | {"time/frames": 250_000.0})))


def test_an_alert_is_a_line_where_there_is_no_table() -> None:
    stream = io.StringIO()
    group = SinkGroup([ConsoleSink(run_info(), stream)], print)
    group.report(5, [alarm("kl_high")], None)
    group.report(6, [alarm("kl_high")], None)  # reported once
    group.close()
    assert stream.getvalue().startswith("! 5: kl_high: Too much.")
    assert stream.getvalue().count("kl_high") == 1


def test_a_cause_is_named_once() -> None:
    stream = io.StringIO()
    group = SinkGroup([ConsoleSink(run_info(), stream)], print)
    group.report(5, [alarm("kl_high"), alarm("entropy_collapse")], None)
    first, second = stream.getvalue().splitlines()
    assert first.endswith("Too fast. Try algo.learning_rate=0.003.")
    assert second.endswith("Same cause as kl_high.")


def test_plain_lines_have_the_files_numbers(tmp_path: Path) -> None:
    stream = io.StringIO()
    warnings: list[str] = []
    console = ConsoleSink(run_info(), stream)
    group = SinkGroup([console, JsonlSink(run_info(tmp_path))], warnings.append)
    first = full_row(20_000)
    for name in [name for name in first if name.startswith("eval/")]:
        del first[name]
    group.write(20_000, first)
    group.write(30_000, {**first, "time/total_timesteps": 30_000.0})  # within two seconds: not printed
    group.write(40_000, full_row(40_000))  # with an evaluation: always printed
    group.notice("checkpoint saved")
    group.write(50_000, {**first, "time/total_timesteps": 50_000.0})  # the last one: printed at the end
    group.close()
    assert warnings == []
    title, head, *lines = stream.getvalue().splitlines()
    assert title == "CartPole-v1 · ppo · seed 1"
    assert lines[2] == "checkpoint saved"
    cells = [line.split() for line in (lines[0], lines[1], lines[3])]
    assert [row[0] for row in cells] == ["20,000", "40,000", "50,000"]
    assert len({len(line) for line in (head, lines[0], lines[1])}) == 1  # aligned
    rows = {row["time/total_timesteps"]: row for row in read_metrics(tmp_path / "metrics.jsonl")}
    assert sorted(rows) == [20_000, 30_000, 40_000, 50_000]
    columns = ["time/progress", "rollout/ep_rew_mean", "rollout/ep_len_mean", "eval/mean_reward", "train/loss"]
    for shown in cells:
        row = rows[float(shown[0].replace(",", ""))]
        expected = [catalogue().get(name).text(row[name]) if name in row else "-" for name in columns]
        assert shown[1:6] == expected


def test_quiet_says_nothing() -> None:
    stream = io.StringIO()
    console = ConsoleSink(run_info(quiet=True), stream)
    console.write(1, full_row())
    console.notice("solved")
    console.follow(Pulse())
    console.close()
    assert stream.getvalue() == ""


def test_plain_lines_say_what_is_going_on_between_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(console_module, "SILENT_SECONDS", 0.0)
    stream, pulse = io.StringIO(), Pulse()
    sink = ConsoleSink(run_info(), stream)
    sink.follow(pulse)
    pulse.begin("collecting", 256, 8, step=4096)
    pulse.done = 39
    wait_for(lambda: "elapsed, collecting 312 / 2,048" in stream.getvalue(), "line without a row")
    # 60 seconds for 64 of 256 steps: the other 192 take three times as long
    pulse.activity, pulse.done = pulse.activity._replace(began=perf_counter() - 60), 64
    pulse.stopping = True
    wait_for(lambda: "stopping after this rollout, in about 3:0" in stream.getvalue(), "answer")
    assert "; again: at once" in stream.getvalue()
    sink.close()


def test_the_rate_counts_no_evaluation(monkeypatch: pytest.MonkeyPatch) -> None:
    """100 steps/s for 10 s, then a verdict of 90 s."""
    now = 1000.0
    for module in (pulse_module, console_module):
        monkeypatch.setattr(module, "perf_counter", lambda: now)
    pulse, sink = Pulse(), ConsoleSink(run_info(total_steps=10_000, quiet=True))
    sink.follow(pulse)
    pulse.begin("collecting", 100, 10)
    now += 10.0
    pulse.begin("verdict", 1000, step=1000)
    now += 90.0
    pulse.done, pulse.steps = 130, 2500
    shown = "\n".join(draw(sink.render(30), 100))
    assert "1:40 elapsed" in shown
    assert " 100 steps/s   verdict 130 / 1,000, step 2,500" in shown
    pulse.begin(pulse_module.DONE)
    assert " 100 steps/s" in "\n".join(draw(sink.render(30), 100))


def on_a_terminal(code: str, env: dict[str, str]) -> str:
    """What a program writes to a real (pseudo) terminal."""
    leader, follower = pty.openpty()
    command = [sys.executable, "-c", textwrap.dedent(code)]
    settings = {**os.environ, "COLUMNS": "100", "LINES": "40", "PYTHONIOENCODING": "utf-8", **env}
    with subprocess.Popen(command, stdout=follower, stderr=follower, env=settings, cwd=ROOT) as process:
        os.close(follower)
        chunks = []
        while True:
            try:
                chunk = os.read(leader, 65536)
            except OSError:  # the other end is closed
                break
            if not chunk:
                break
            chunks.append(chunk)
    os.close(leader)
    assert process.returncode == 0, b"".join(chunks).decode()
    return b"".join(chunks).decode()


LIVE = """
    from gymnast.sinks.console.console import ConsoleSink
    from tests.sinks_for_tests import run_info
    console = ConsoleSink(run_info(threshold=475.0))
    console.write(100, {"time/total_timesteps": 100, "rollout/ep_rew_mean": 20.0, "time/elapsed": 3.0})
    console.notice("checkpoint saved")
    console.write(1000, {"time/total_timesteps": 1000, "rollout/ep_rew_mean": 321.987, "time/elapsed": 9.0})
    console.close()
    console.close()
    print("prompt")
"""


def test_live_on_a_terminal() -> None:
    text = on_a_terminal(LIVE, {"TERM": "xterm-256color"})
    assert "› checkpoint saved" in text
    assert "321.99" in text  # the last row is shown, whatever the intervals
    assert "1,000 / 1,000 steps" in text
    assert "\x1b[?25l" in text  # the cursor was hidden while live
    assert text.rindex("\x1b[?25h") > text.rindex("\x1b[?25l")  # and came back
    assert text.rstrip().endswith("prompt")
    assert "34m" in text  # elapsed time is blue


def test_a_dumb_terminal_gets_plain_lines() -> None:
    text = on_a_terminal(LIVE, {"TERM": "dumb"})
    assert "\x1b" not in text
    assert "321.99" in text


def test_ascii_streams_do_not_crash() -> None:
    raw = io.BytesIO()
    console = ConsoleSink(run_info(), io.TextIOWrapper(raw, encoding="ascii"))
    console.write(10, full_row())
    console.notice("→ done")
    assert b"CartPole-v1 ? ppo" in raw.getvalue()


def test_a_verdict_under_way_says_what_probably_decides_it() -> None:
    """30 episodes in 12 seconds, and about 120 decide: 36 seconds more. Nothing of it is shown of what comes next."""
    pulse = Pulse()
    pulse.begin("verdict", 1000, of="wind")
    pulse.done, pulse.steps, pulse.enough, pulse.mean = 30, 950, 120, -20.125
    here = pulse.activity._replace(began=pulse.activity.began - 12)
    said = console_module.doing(pulse, here, 30)
    assert said == "verdict wind 30 / 120, step 950, mean -20.12, about 0:36 left"
    pulse.begin("score", 100)
    assert console_module.doing(pulse, pulse.activity, 0) == "score 0 / 100, step 0"
