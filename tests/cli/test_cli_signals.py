"""Ctrl-C, SIGTERM and a display that moves, on a real (pseudo) terminal and with real processes."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from gymnast.metrics.rows import STEP
from gymnast.runs import checkpoint
from tests.cli.conftest import ROOT, TINY, Command, Trained, environment
from tests.processes import running, wait_for

SLOW = "tests.envs_for_tests:test/Slow-v0"
# 4 envs of 50 ms a step: the first rollout takes minutes
ENDLESS = ("env.kwargs.seconds=0.05", "env.n_envs=4", "env.engine=sync", "algo.n_steps=2048", "eval.every=0")
OFTEN = ("env.n_envs=8", "algo.n_steps=32", "log.every=256", "eval.every=0")
CTRL_C = b"\x03"


def settings(*pairs: str) -> list[str]:
    return [word for pair in pairs for word in ("--set", pair)]


class Terminal:
    """A program that believes to sit at a terminal of 100 x 30, as a shell starts it."""

    def __init__(self, *args: str | Path) -> None:
        self.ours, self.its = pty.openpty()
        fcntl.ioctl(self.its, termios.TIOCSWINSZ, struct.pack("HHHH", 30, 100, 0, 0))
        self.process = subprocess.Popen(
            [sys.executable, "-m", "gymnast", *map(str, args)],
            cwd=ROOT,
            env=environment(TERM="xterm", PYTHONIOENCODING="utf-8"),
            stdin=self.its,
            stdout=self.its,
            stderr=self.its,
            start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
        )
        self.text = ""

    def until(self, condition: Callable[[str], object], what: str, seconds: float = 100) -> None:
        """Reads what it writes until that holds of it; an end of the program ends the reading."""
        deadline = time.monotonic() + seconds
        while not condition(self.text):
            assert time.monotonic() < deadline, f"no {what} in: {self.text[-2000:]}"
            if select.select([self.ours], [], [], 0.1)[0]:
                self.text += os.read(self.ours, 65536).decode(errors="replace")
            elif self.process.poll() is not None:
                assert condition(self.text), f"it ended before there was {what}: {self.text[-2000:]}"

    def end(self) -> int:
        self.until(lambda text: self.process.poll() is not None, "end")
        return self.process.wait()

    @property
    def echoes_keys(self) -> bool:
        return bool(termios.tcgetattr(self.its)[3] & termios.ECHOCTL)


@contextmanager
def terminal(*args: str | Path) -> Iterator[Terminal]:
    opened = Terminal(*args)
    try:
        yield opened
    finally:
        opened.process.kill()
        opened.process.wait()
        os.close(opened.ours)
        os.close(opened.its)


def test_the_display_moves_and_answers_ctrl_c_in_a_rollout_of_minutes(tmp_path: Path) -> None:
    with terminal("train", SLOW, "--runs-dir", tmp_path, *settings(*ENDLESS)) as at:
        counts = re.compile(r"(\S+) elapsed.{0,80}?steps/s.{0,20}?collecting ([\d,]+) / 8,192")
        at.until(lambda text: len(set(counts.findall(text))) >= 4, "fourth picture of the first rollout")
        assert at.text.index("starting tests.envs_for_tests:test/Slow-v0") < at.text.index("collecting")
        assert at.echoes_keys is False
        os.write(at.ours, CTRL_C)
        at.until(lambda text: "stopping after this rollout" in text and "again: at once" in text, "answer to Ctrl-C")
        os.write(at.ours, CTRL_C)
        assert at.end() == 130
        assert "^C" not in at.text
        assert "stopped at once" in at.text
        assert at.text.rindex("\x1b[?25h") > at.text.rindex("\x1b[?25l")  # the cursor is back
        assert at.echoes_keys is True


def test_another_size_leaves_nothing_of_the_old_one(tmp_path: Path) -> None:
    """The screen is emptied before a picture of another width is drawn: no line of the old one can be left."""
    with terminal("train", SLOW, "--runs-dir", tmp_path, *settings(*ENDLESS)) as at:
        at.until(lambda text: "collecting" in text, "picture")
        before = len(at.text)
        fcntl.ioctl(at.its, termios.TIOCSWINSZ, struct.pack("HHHH", 20, 60, 0, 0))
        frame = re.compile(r"\x1b\[H(\x1b\[2K\x1b\[B){20,}\x1b\[H.{0,20}╭─.{0,200}╮", re.DOTALL)
        at.until(lambda text: frame.search(text[before:]), "picture on an empty screen")
        assert at.process.poll() is None


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_signals_to_all_processes_save_the_run(gymnast: Command, tmp_path: Path, number: int) -> None:
    """As `timeout`, batch systems and terminals send them: the env workers of the process engine get them, too."""
    command = [sys.executable, "-m", "gymnast", "train", SLOW, "--steps", "10000000", "--runs-dir", str(tmp_path)]
    command += settings("env.engine=process", "env.n_envs=2", "algo.n_steps=16", "algo.batch_size=32", "log.every=32")
    with running([*command, "--quiet"], cwd=ROOT, env=environment(), start_new_session=True) as process:
        wait_for(lambda: list(tmp_path.glob("*/metrics.jsonl")), "metrics", process)
        wait_for(lambda: list(tmp_path.glob("*/checkpoints/last.safetensors")), "first checkpoint", process)
        (run,) = tmp_path.iterdir()
        wait_for(lambda: (run / "metrics.jsonl").read_text().count("\n") >= 2, "second row", process)
        os.killpg(process.pid, number)
        assert process.wait(100) == 130
    assert json.loads((run / "run.json").read_text())["status"] == "interrupted"
    rows = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    assert checkpoint.load(run / "checkpoints" / "last.safetensors").step == rows[-1]["time/total_timesteps"]
    shown = gymnast("runs", "show", "--runs-dir", tmp_path).out
    assert f"{rows[-1]['time/total_timesteps']:,} steps, its last checkpoint" in shown


def test_a_terminal_that_is_closed_leaves_a_run_that_goes_on(gymnast: Command, tmp_path: Path) -> None:
    """The system sends SIGHUP, and nothing can be written to the terminal any more."""
    with terminal("train", "CartPole-v1", "--steps", "50000000", "--runs-dir", tmp_path, *settings(*OFTEN)) as at:
        at.until(lambda text: list(tmp_path.glob("*/checkpoints/last.safetensors")), "checkpoint")
        (run,) = tmp_path.iterdir()
        os.close(at.its)
        os.close(at.ours)
        at.its, at.ours = os.open(os.devnull, os.O_RDWR), os.open(os.devnull, os.O_RDWR)  # to be closed at the end
        at.process.wait(100)
    about = json.loads((run / "run.json").read_text())
    assert (about["status"], about["summary"]["stop_reason"]) == ("interrupted", "interrupted")
    rows = (run / "metrics.jsonl").read_text().splitlines()
    assert checkpoint.load(run / "checkpoints" / "last.safetensors").step == json.loads(rows[-1])[STEP]


def test_nohup_keeps_a_run_going_when_the_terminal_is_closed(tmp_path: Path) -> None:
    command = ["nohup", sys.executable, "-m", "gymnast", "train", "CartPole-v1", "--steps", "50000000", "--quiet"]
    command += ["--runs-dir", str(tmp_path), *settings(*OFTEN)]
    with running(command, cwd=ROOT, env=environment(), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as process:
        wait_for(lambda: list(tmp_path.glob("*/metrics.jsonl")), "metrics", process)
        (run,) = tmp_path.iterdir()
        process.send_signal(signal.SIGHUP)
        rows = (run / "metrics.jsonl").read_text().count("\n")
        wait_for(lambda: (run / "metrics.jsonl").read_text().count("\n") > rows + 1, "another row", process)
        assert json.loads((run / "run.json").read_text())["status"] == "running"


def test_a_signal_while_a_run_starts_is_a_line_and_leaves_nothing(tmp_path: Path) -> None:
    """The env's constructor takes minutes: there is no run yet."""
    command = [sys.executable, "-m", "gymnast", "train", "tests.envs_for_tests:test/Stuck-v0", "--quiet"]
    command += [
        "--runs-dir",
        str(tmp_path / "runs"),
        *settings(f"env.kwargs.sign={tmp_path / 'sign'}", "env.engine=sync"),
    ]
    with running(command, cwd=ROOT, env=environment(), stderr=subprocess.PIPE, text=True) as process:
        wait_for((tmp_path / "sign").exists, "constructor", process)
        process.send_signal(signal.SIGTERM)
        _, said = process.communicate(timeout=100)
    assert process.returncode == 130
    assert said.splitlines()[-1] == "gymnast: stopped at once; everything saved so far is intact (`gymnast runs list`)."
    assert list((tmp_path / "runs").glob("*")) + list((tmp_path / "runs").glob(".*")) == []


def test_a_terminal_without_our_letters_gets_a_summary(gymnast: Command, tmp_path: Path) -> None:
    outcome = gymnast("train", "CartPole-v1", *TINY, "--runs-dir", tmp_path, PYTHONIOENCODING="ascii")
    assert (outcome.code, outcome.err) == (0, "")
    assert "NOT SOLVED" in outcome.out


def test_a_check_ends_when_its_time_is_up(gymnast: Command) -> None:
    """A thousand steps of four envs of 5 ms take 20 seconds."""
    slow = settings(*ENDLESS[1:], "env.kwargs.seconds=0.005")
    data = gymnast("envs", "check", SLOW, "--seconds", "0.3", "--json", *slow).json
    assert 0 < data["steps"] < 4000
    assert f"stopped after 0.3 s: {data['steps'] // 4} of 1,000 vector steps" in data["notes"][-1]


def test_eval_shows_how_far_it_is(trained: Trained) -> None:
    """One env steps at a time: a bar is there long before a thousand episodes are."""
    args = ("eval", trained.first.json["run"], "--episodes", "100000", "--runs-dir", trained.runs_dir)
    with terminal(*args, *settings("env.engine=sync")) as at:
        at.until(lambda text: re.search(r"evaluating.*━", text), "bar")
        while at.process.poll() is None:  # again after a while, as a person does: Python drops one within a callback
            os.write(at.ours, CTRL_C)
            with suppress(AssertionError):
                at.until(lambda text: at.process.poll() is not None, "end", seconds=10)
        assert at.end() == 130


UNCLOSED = """
from gymnast.config import validate
from gymnast.envs.make import make_vec

if __name__ == "__main__":
    config = validate({"env": {"id": "tests.envs_for_tests:test/Slow-v0", "engine": "process"}})
    env = make_vec(config.env, 2, "train")
    print(env.engine)
"""


def test_a_script_that_closes_nothing_comes_to_its_end(tmp_path: Path) -> None:
    """Python ends a script's workers by SIGTERM, which env workers leave to their parent, and waits for them."""
    script = tmp_path / "script.py"
    script.write_text(UNCLOSED)
    env = environment(PYTHONPATH=str(ROOT))
    done = subprocess.run([sys.executable, script], env=env, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (0, "process\n"), done.stderr
