"""`gymnast studio|play|runs stop|runs tag` as typed. What is served is tested in tests/studio."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path

from gymnast.runs.references import Run
from tests.cli.conftest import ROOT, Command, Trained, environment
from tests.processes import running, wait_for


def test_without_its_packages_it_says_what_to_install(without: Callable[..., Command], tmp_path: Path) -> None:
    for command in (("studio",), ("play", "CartPole-v1")):
        outcome = without("uvicorn", "starlette", "websockets")(*command, "--runs-dir", tmp_path)
        assert outcome.code == 2
        assert outcome.err == 'gymnast: Studio: uvicorn is not installed. Run: pip install "gymnast-rl[studio]"\n'


def test_help_has_examples(gymnast: Command) -> None:
    for command in ("studio", "play"):
        outcome = gymnast(command, "--help")
        assert outcome.code == 0
        assert f"gymnast {command} " in outcome.out.split("\n", 2)[2]


def test_tags_are_added_and_removed(gymnast: Command, trained: Trained) -> None:
    folder = ("--runs-dir", trained.runs_dir)
    ref = trained.first.json["run"]
    outcome = gymnast("runs", "tag", ref, "--add", "good", "--add", "new", *folder, "--json")
    assert outcome.json["tags"] == {ref: ["good", "new"]}
    outcome = gymnast("runs", "tag", ref, "--remove", "good", "--remove", "new", *folder)
    assert outcome.out == f"{ref}  no tags\n"
    outcome = gymnast("runs", "tag", ref, "--add", "two words", *folder)
    assert outcome.code == 2
    assert "one word" in outcome.err


def test_a_run_is_stopped_and_can_be_resumed(gymnast: Command, trained: Trained, tmp_path: Path) -> None:
    folder = ("--runs-dir", str(tmp_path))
    endless = ("--steps", str(10**9), "--set", "stop.on_solved=false", "--set", "log.every=2048", "--quiet")
    command = [sys.executable, "-m", "gymnast", "train", "CartPole-v1", *endless, *folder]
    with running(command, cwd=ROOT, env=environment()) as process:
        run = wait_for(lambda: [Run(path) for path in tmp_path.glob("[!.]*")], "run", process)[0]
        wait_for(lambda: run.metrics_path.exists() and run.metrics_path.stat().st_size, "row of metrics", process)
        os.kill(run.read().pid, signal.SIGSTOP)  # so that it cannot have ended before the second stop
        outcome = gymnast("runs", "stop", "@last", *folder)
        assert outcome.code == 0, outcome
        assert outcome.out.startswith(f"stopping {run.id}")
        twice = gymnast("runs", "stop", "@last", *folder)  # a second signal would lose the checkpoint
        assert twice.code == 2
        assert "is stopping already" in twice.err
        os.kill(run.read().pid, signal.SIGCONT)
        assert process.wait(timeout=100) == 130  # as after Ctrl-C
    assert not run.stopping_path.exists()
    assert run.read().status == "interrupted"
    assert run.checkpoint_path("last").exists()
    again = gymnast("runs", "stop", "@last", *folder)
    assert again.code == 2
    assert "is not being trained: it is interrupted" in again.err
