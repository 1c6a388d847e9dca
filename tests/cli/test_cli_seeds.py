"""gymnast train --seeds: ordinary runs, what they say together, and a command that may be stopped and given again."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

from tests.cli.conftest import ONE_THREAD, ROOT, TINY, Command, environment
from tests.cli.test_cli_programs import KEYS
from tests.processes import running, wait_for


def statuses(runs_dir: Path) -> dict[int, str]:
    infos = [json.loads(path.read_text()) for path in runs_dir.glob("[!.]*/run.json")]
    return {info["seed"]: info["status"] for info in infos}


def test_seeds_are_ordinary_runs_with_a_line_about_all(gymnast: Command, tmp_path: Path) -> None:
    words = ["train", "CartPole-v1", *TINY, "--seeds", "1,3", "--name", "short", "--tag", "draft", "--json"]
    outcome = gymnast(*words, "--runs-dir", tmp_path, **ONE_THREAD)
    assert outcome.code == 0, outcome.err
    assert outcome.out.count("\n") == 1  # the JSON alone: what people read is on standard error
    assert "CartPole-v1: solved 0 of 2, score " in outcome.err
    data = outcome.json
    assert set(data) == set(KEYS["train --seeds"])
    assert (data["seeds"], data["solved"], data["failed"]) == (2, 0, {})
    first, third = data["runs"]
    assert (first["seed"], first["name"], first["tags"], third["name"]) == (1, "short-s1", ["draft"], "short-s3")
    scores = [run["score"] for run in data["runs"]]
    measured = data["measures"]["score"]
    assert measured["values"] == scores
    assert measured["value"] == sum(scores) / 2  # of two values nothing is cut
    assert min(scores) <= measured["low"] < measured["value"] < measured["high"] <= max(scores)

    # Each is the run that `gymnast train --seed` makes, number for number, and has all files of one
    alone = gymnast("train", "CartPole-v1", *TINY, "--seed", "3", "-q", "--json", "--runs-dir", tmp_path / "alone")
    assert alone.json["score"] == third["score"]
    folder = tmp_path / third["run"]
    for file in ("report.md", "metrics.jsonl", "checkpoints/best.safetensors", "checkpoints/last.safetensors"):
        assert (folder / file).is_file()
    told = json.loads((folder / "run.json").read_text())["command"]
    assert told[:3] == ["gymnast", "train", "CartPole-v1"]
    assert "train.seed=3" in told

    # The same command trains the missing ones alone
    more = gymnast(*words[:-6], "1-3", "--name", "short", "--runs-dir", tmp_path, **ONE_THREAD)
    assert more.code == 0, more.err
    assert more.err.count("trained already") == 2
    assert sorted(statuses(tmp_path)) == [1, 2, 3]
    assert len(list(tmp_path.glob("*/run.json"))) == 3
    again = gymnast(*words[:-6], "1-1", "--name", "short", "--redo", "-q", "--runs-dir", tmp_path, **ONE_THREAD)
    assert (again.code, again.out, again.err) == (0, "", "")
    assert len(list(tmp_path.glob("*/run.json"))) == 4


def test_ctrl_c_stops_all_with_a_checkpoint_and_the_same_command_goes_on(gymnast: Command, tmp_path: Path) -> None:
    # Never solved, and longer than any machine needs to the signal; a row every rollout
    endless = ["--set", "stop.on_solved=false", "--set", "eval.every=0", "--set", "log.every=256"]
    words = ["train", "CartPole-v1", "--set", "env.n_envs=8", "--set", "algo.n_steps=32", *endless, "--seeds", "3"]
    words += ["--jobs", "2", "--steps", "50000000", "--runs-dir", str(tmp_path)]
    command = [sys.executable, "-m", "gymnast", *words]
    with running(command, cwd=ROOT, env=environment(**ONE_THREAD), text=True, stderr=subprocess.PIPE) as process:
        wait_for(lambda: len(list(tmp_path.glob("*/checkpoints/last.json"))) == 2, "two runs", process)
        process.send_signal(signal.SIGINT)
        _, said = process.communicate()
    assert process.returncode == 130, said
    assert "0 of 3 runs are finished, 2 begun" in said
    assert "Traceback" not in said
    assert set(statuses(tmp_path).values()) == {"interrupted"}
    before = sorted(path.name for path in tmp_path.glob("[!.]*"))

    with running(command, cwd=ROOT, env=environment(**ONE_THREAD), stderr=subprocess.PIPE) as process:
        wait_for(lambda: list(statuses(tmp_path).values()) == ["running"] * 2, "two runs that go on", process)
        process.send_signal(signal.SIGINT)
        process.communicate()
    assert sorted(path.name for path in tmp_path.glob("[!.]*")) == before  # the same runs


def test_a_seed_that_fails_does_not_stop_the_others(gymnast: Command, tmp_path: Path) -> None:
    crashing = "tests.envs_for_tests:test/Crashing-v0"
    outcome = gymnast("train", crashing, *TINY, "--seeds", "2", "--json", "--runs-dir", tmp_path, **ONE_THREAD)
    assert outcome.code == 1
    assert outcome.err.count("the gearbox is on fire") >= 2
    assert list(outcome.json["failed"]) == ["1", "2"]


def test_mistakes_with_seeds(gymnast: Command, tmp_path: Path) -> None:
    for words, expected in (
        (["--seeds", "five"], "--seeds five: must be a number of seeds like 5"),
        (["--seeds", "5", "--seed", "3"], "--seed: cannot be used with --seeds"),
        (["--seeds", "5", "--on", "ray"], "--on: cannot be used with --seeds"),
        (["--jobs", "2"], "--jobs: goes with --seeds"),
        (["--redo"], "--redo: goes with --seeds"),
    ):
        outcome = gymnast("train", "CartPole-v1", *words, "--runs-dir", tmp_path / "runs")
        assert (outcome.code, outcome.out) == (2, ""), words
        assert expected in outcome.err
        assert outcome.err.count("\n") == 1
    assert not (tmp_path / "runs").exists()
