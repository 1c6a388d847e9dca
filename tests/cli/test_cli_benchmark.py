"""gymnast benchmark as a user runs it: small real runs, killed and continued, beside another library."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import ONE_THREAD, ROOT, Command, environment
from tests.processes import running, wait_for

# 4 rollouts of 8 envs x 32 steps; evaluations of 2 episodes and a verdict of 4: seconds a run
TINY = ("--steps", "1024", "--set", "eval.episodes=2", "--set", "stop.episodes=4")


def records(out: Path) -> dict[str, Any]:
    return {path.stem: json.loads(path.read_text()) for path in sorted(out.glob("runs/*/[!.]*.json"))}


def page(out: Path) -> str:
    """RESULTS.md without what aligns its columns."""
    return re.sub(" +", " ", (out / "RESULTS.md").read_text())


def stop_after(runs: int, how: signal.Signals, arguments: list[str], out: Path) -> tuple[int, str]:
    """Starts the command, and stops it when so many runs are on the disk: its exit code, and what it said."""
    command = [sys.executable, "-m", "gymnast", *arguments, "--runs-dir", str(out / "kept")]
    with running(command, cwd=ROOT, env=environment(**ONE_THREAD), text=True, stderr=subprocess.PIPE) as process:
        wait_for(lambda: len(list(out.glob("runs/*/[!.]*.json"))) >= runs, f"{runs} runs", process)
        process.send_signal(how)
        _, said = process.communicate()
    return process.returncode, said


def test_killed_stopped_and_continued(gymnast: Command, tmp_path: Path) -> None:
    out = tmp_path / "out"
    arguments = [
        "benchmark",
        "CartPole-v1:zoo",
        *TINY,
        "--target-score",
        "500",
        "--seeds",
        "3",
        "--jobs",
        "1",
        "--out",
        str(out),
    ]
    code, _ = stop_after(1, signal.SIGKILL, arguments, out)
    assert code == -signal.SIGKILL
    first = records(out)
    assert list(first) == ["gymnast-s1"]
    killed = [path for path in (out / "kept").glob("[!.]*") if path.name != first["gymnast-s1"]["run"]]

    many = [*arguments[:-6], "--seeds", "50", *arguments[-4:]]  # so that there is always one left to cut short
    code, said = stop_after(2, signal.SIGINT, many, out)
    assert code == 130
    second = records(out)
    assert f"{len(second)} of 50 runs are kept" in said
    assert "Traceback" not in said
    assert f"| {len(second)} seeds of 50 | 0/{len(second)} " in page(out)
    kept = {path.name for path in (out / "kept").glob("[!.]*") if path not in killed}
    assert kept == {run["run"] for run in second.values()}  # nothing is left of the run that was cut short

    arguments += ["--runs-dir", str(out / "kept")]
    finished = gymnast(*arguments, "--json", **ONE_THREAD)
    assert finished.code == 0, finished.err
    assert finished.json["ran"] == 3 - len(second)  # one, or none if the signal came late
    third = records(out)
    assert list(third) == ["gymnast-s1", "gymnast-s2", "gymnast-s3"]
    assert third["gymnast-s1"] == first["gymnast-s1"]  # with its time: it was not run again
    assert third["gymnast-s2"] == second["gymnast-s2"]

    # A run of a benchmark is the run that `gymnast train` makes, number for number
    settings = [*TINY, "--runs-dir", str(tmp_path / "runs")]
    for setting in ("stop.threshold=500", "stop.on_solved=true", "train.threads=1"):
        settings += ["--set", setting]
    alone = gymnast("train", "CartPole-v1:zoo", *settings, "--seed", "3", "--quiet", "--json", **ONE_THREAD).json
    run = third["gymnast-s3"]
    assert run["verdict"]["mean"] == pytest.approx(alone["eval_mean"], rel=1e-5)
    assert (run["env_steps"], run["solved"]) == (alone["env_steps"], alone["solved"])
    assert run["seconds"] > 0
    assert run["verdict"]["episodes"] == 4
    assert [point[0] for point in run["curve"]] == [256, 512, 768, 1024]  # a 20th of the run is less than a rollout

    nothing = gymnast(*arguments, **ONE_THREAD)
    assert records(out) == third
    row = page(out).split("## Learning curves")[0]
    assert "| CartPole-v1 | zoo | gymnast | 3 seeds | 0/3 " in row
    assert "`gymnast benchmark CartPole-v1:zoo --seeds 3 --steps 1024 --target-score 500 --set eval.episodes=2" in row
    assert "CartPole-v1:zoo" in nothing.out
    assert len(list((out / "pictures").glob("*.svg"))) == 1
    everything = json.loads((out / "results.json").read_text())
    assert [record["seed"] for record in everything["results"]] == [1, 2, 3]

    # and it is kept as one: with checkpoints and a report, under a tag
    shown = gymnast("runs", "show", run["run"], "--json", "--runs-dir", out / "kept").json
    assert (shown["status"], shown["tags"], shown["score"]) == ("finished", ["benchmark"], alone["score"])
    assert [item["name"] for item in shown["checkpoints"]] == ["best", "last"]
    assert "RESULTS" not in gymnast("report", run["run"], "--runs-dir", out / "kept").out
    assert f"--out {out}" in finished.json["rows"][0]["command"]

    again = gymnast(*arguments[:-6], "--seeds", "1", "--redo", "--quiet", *arguments[-4:], **ONE_THREAD)
    assert (again.code, again.out, again.err) == (0, "", "")
    assert list(records(out)) == ["gymnast-s1"]
    same = [records(out)["gymnast-s1"][key] for key in ("verdict", "solved", "env_steps")]
    assert same == [first["gymnast-s1"][key] for key in ("verdict", "solved", "env_steps")]  # the same seed


def test_beside_another_library(gymnast: Command, tmp_path: Path) -> None:
    pytest.importorskip("stable_baselines3")
    out = tmp_path / "out"
    # Observations and rewards are normalised here: 16 envs x 16 steps = 256 a rollout, 4 of them
    arguments = ["benchmark", "MountainCar-v0:zoo", *TINY, "--seeds", "2-2", "--equal-steps", "--against", "sb3"]
    outcome = gymnast(*arguments, "--out", out, "--runs-dir", out / "kept", "--json", **ONE_THREAD)
    assert outcome.code == 0, outcome.err
    runs = records(out)
    ours, theirs = runs["gymnast-s2"], runs["sb3-s2"]
    for run in (ours, theirs):
        assert (run["env_steps"], run["solved"], run["solved_steps"]) == (1024, False, None)
        assert [point[0] for point in run["curve"]] == [256, 512, 768, 1024]  # evaluated at the same moments
        for _, score, _ in run["curve"]:  # raw returns: -1 a step, at most 200 of them, the mean of two episodes
            assert -200 <= score <= -80
            assert float(2 * score).is_integer()
        assert run["final"]["episodes"] == run["verdict"]["episodes"] == 4
        times = [point[2] for point in run["curve"]]
        assert times == sorted(times)
    assert theirs["versions"]["stable-baselines3"]
    (row,) = outcome.json["rows"]
    assert row["improvement"] == {}  # one run a side
    for who, run in (("gymnast", ours), ("sb3", theirs)):
        assert row["sides"][who]["iqm"]["final"]["value"] == run["final"]["mean"]
    assert "--seeds 2-2 --steps 1024 --against sb3 --equal-steps" in row["command"]


def test_the_other_library_stops_when_its_verdict_says_solved(gymnast: Command, tmp_path: Path) -> None:
    pytest.importorskip("stable_baselines3")
    arguments = ["benchmark", "CartPole-v1:zoo", *TINY, "--seeds", "1", "--target-score", "5", "--against", "sb3"]
    outcome = gymnast(*arguments, "--out", tmp_path, "--runs-dir", tmp_path / "kept", **ONE_THREAD)
    assert outcome.code == 0, outcome.err
    for run in records(tmp_path).values():  # 5 points are what any policy gets: solved at the first evaluation
        assert (run["solved"], run["solved_steps"], run["env_steps"]) == (True, 256, 256)
        assert run["verdict"]["mean"] >= 5
    assert outcome.out.count("1/1") == 2


def test_a_run_that_fails_does_not_stop_the_others(gymnast: Command, tmp_path: Path) -> None:
    crashing = "tests.envs_for_tests:test/Crashing-v0"
    settings = ("--set", "algo.n_steps=32", *TINY, "--target-score", "2", "--seeds", "1", "--jobs", "1")
    places = ("--out", tmp_path, "--runs-dir", tmp_path / "kept")
    outcome = gymnast("benchmark", crashing, "CartPole-v1", *settings, *places, **ONE_THREAD)
    assert outcome.code == 1
    assert "the gearbox is on fire" in outcome.err
    assert outcome.err.splitlines()[-1].startswith(f"gymnast: 1 failed: {crashing}")
    (run,) = records(tmp_path).values()
    assert run["env"] == "CartPole-v1"
    assert "0 of 1 runs done" in (tmp_path / "RESULTS.md").read_text()


def test_mistakes_are_reported_before_anything_runs(
    gymnast: Command, without: Callable[..., Command], tmp_path: Path
) -> None:
    out = tmp_path / "out"
    for arguments, expected in (
        (["CartPol-v1"], "Did you mean 'CartPole-v1'"),
        (["CartPole-v1:nope"], "unknown variant 'nope'"),
        (["CartPole-v1", "--seeds", "five"], "--seeds five: must be a number of seeds like 5"),
        (["CartPole-v1", "--target-score", "501"], "above the best possible"),
        (["CartPole-v1", "--against", "sb4"], "Did you mean 'sb3'"),
        (["CartPole-v1:reinforce", "--against", "sb3"], "no reinforce"),
        (["--plan", str(tmp_path / "none.yaml")], "no such file"),
        (["--plan", "benchmarks/plan.yaml", "--steps", "5"], "--steps: stands in the plan file"),
        ([], "name a target"),
    ):
        outcome = gymnast("benchmark", *arguments, "--out", out)
        assert (outcome.code, outcome.out) == (2, ""), arguments
        assert expected in outcome.err
        assert outcome.err.count("\n") == 1
    missing = without("stable_baselines3")("benchmark", "CartPole-v1:zoo", "--against", "sb3", "--out", out)
    assert missing.code == 2
    assert 'pip install "gymnast-rl[sb3]"' in missing.err
    assert not out.exists()
