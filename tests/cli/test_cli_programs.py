"""The command for programs: JSON alone on standard output, its documented keys, exit codes, closed pipes, CSV."""

from __future__ import annotations

import csv
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import gymnast as package
from tests.cli.conftest import ONE_THREAD, ROOT, TINY, Command, Trained, environment

PAGE = (ROOT / "docs" / "guide" / "programs.md").read_text()
# A row of the table: | `train`, `resume` | `run`, `env_steps`, ... |
KEYS = {
    verb: re.findall(r"`([^`]+)`", keys)
    for verbs, keys in re.findall(r"^\| ((?:`[^`]+`,? ?)+)\| (`.*) \|$", PAGE, re.MULTILINE)
    for verb in re.findall(r"`([^`]+)`", verbs)
}


def test_the_json_of_training_stands_alone(gymnast: Command, tmp_path: Path) -> None:
    outcome = gymnast("train", "CartPole-v1", *TINY, "--json", "--runs-dir", tmp_path, **ONE_THREAD)
    assert outcome.code == 0
    assert outcome.out.count("\n") == 1
    assert set(json.loads(outcome.out)) == set(KEYS["train"])
    for said in ("starting CartPole-v1 ...", "ep_rew_mean", "NOT SOLVED"):  # people still read all of it
        assert said in outcome.err
    assert outcome.json["version"] == package.__version__


NOISY = """
import os, gymnasium as gym

class Noisy(gym.Env):
    observation_space = gym.spaces.Box(-1, 1, (1,))
    action_space = gym.spaces.Discrete(2)

    def reset(self, **more):
        print("said by Python", flush=True)
        return self.observation_space.low, {}

    def step(self, action):
        os.write(1, b"written below Python\\n")
        return self.observation_space.low, 1.0, True, False, {}

gym.register("Noisy-v0", entry_point=Noisy)
"""


def test_what_an_env_prints_is_no_part_of_the_json(gymnast: Command, tmp_path: Path) -> None:
    (tmp_path / "noisy.py").write_text(NOISY)
    words = ["train", "noisy:Noisy-v0", *TINY, "--json", "--runs-dir", tmp_path / "runs"]
    path = os.pathsep.join(filter(None, (str(tmp_path), os.environ.get("PYTHONPATH"))))
    outcome = gymnast(*words, **ONE_THREAD, PYTHONPATH=path)
    assert outcome.out.count("\n") == 1
    assert outcome.json["env_steps"] > 0
    assert "said by Python" in outcome.err
    assert "written below Python" in outcome.err


def test_a_run_that_is_not_solved_can_be_a_failure(gymnast: Command, trained: Trained, tmp_path: Path) -> None:
    words = ["train", "CartPole-v1", *TINY, "-q", "--fail-unless-solved", "--runs-dir", tmp_path]
    assert gymnast(*words, **ONE_THREAD).code == 3
    assert gymnast(*words, "--set", "stop.threshold=5", **ONE_THREAD).code == 0  # what any policy gets
    assert gymnast(*words, "--seeds", "2", **ONE_THREAD).code == 3
    short = ("--episodes", "2", "--runs-dir", trained.runs_dir)
    assert gymnast("eval", "@last", "--fail-unless-solved", *short).code == 3
    assert gymnast("eval", "@last", *short).code == 0
    refused = gymnast("train", "CartPole-v1", "--fail-unless-solved", "--on", "ray", "--detach")
    assert refused.code == 2
    assert "--detach does not wait" in refused.err


@pytest.mark.parametrize(
    "words",
    [
        ("eval", "@last", "--episodes", "2"),
        ("report",),
        ("runs", "list"),
        ("runs", "show"),
        ("runs", "compare", "@all"),
        ("runs", "plot", "@all"),
        ("envs", "list"),
        ("envs", "show", "CartPole-v1"),
        ("envs", "check", "CartPole-v1", "--steps", "20"),
        ("envs", "audit", "CartPole-v1", "--steps", "20"),
        ("config", "show", "CartPole-v1"),
        ("config", "explain", "CartPole-v1", "algo"),
        ("doctor",),
    ],
    ids=" ".join,
)
def test_the_documented_keys_are_those_of_the_json(gymnast: Command, trained: Trained, words: tuple[str, ...]) -> None:
    outcome = gymnast(*words, "--json", "--runs-dir", trained.runs_dir)
    assert outcome.code == 0, outcome.err
    assert outcome.out.count("\n") == 1
    verb = next(name for name in (" ".join(words[:2]), words[0]) if name in KEYS)
    assert set(outcome.json) == set(KEYS[verb])


def test_a_run_is_called_run_in_all_json(gymnast: Command, trained: Trained) -> None:
    here = ("--json", "--runs-dir", trained.runs_dir)
    last = trained.second.json["run"]
    assert gymnast("runs", "list", *here).json["runs"][0]["run"] == last
    assert gymnast("runs", "show", *here).json["run"] == last
    assert gymnast("report", *here).json["run"] == last
    assert gymnast("eval", "--episodes", "2", *here).json["run"] == last
    sides = gymnast("runs", "compare", "@all", *here).json["sides"]
    assert last in [run["run"] for side in sides for run in side["runs"]]


def test_a_reader_that_has_enough_is_no_failure(tmp_path: Path) -> None:
    """As `gymnast train ... | head -1`: the pipe is closed after the first line."""
    command = [sys.executable, "-m", "gymnast", "train", "CartPole-v1", *TINY, "--runs-dir", str(tmp_path)]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, cwd=ROOT, env=environment(**ONE_THREAD), **pipes) as process:  # type: ignore[call-overload]
        assert process.stdout.readline() == "starting CartPole-v1 ...\n"
        process.stdout.close()
        said = process.stderr.read()
    assert (process.returncode, said) == (0, "")
    (run,) = tmp_path.glob("*/run.json")
    assert json.loads(run.read_text())["status"] == "finished"


def test_curves_as_csv_with_names_of_ones_own(gymnast: Command, trained: Trained, tmp_path: Path) -> None:
    here = ("--runs-dir", trained.runs_dir)
    names = ("--label", "discount 0.99", "--label", "discount 0.9")
    plot = ("runs", "plot", "@all", "--group", "none", "--metric", "ep_rew_mean", "--out")
    assert gymnast(*plot, tmp_path / "a.csv", *names, *here).code == 0
    rows = list(csv.DictReader((tmp_path / "a.csv").read_text().splitlines()))
    assert list(rows[0]) == ["metric", "label", "runs", "steps", "value", "low", "high"]
    shown = gymnast(*plot[:-1], "--json", *names, *here).json["panels"][0]["sides"]
    assert list(shown) == ["discount 0.99", "discount 0.9"]
    for name, side in shown.items():
        assert [[float(row["steps"]), float(row["value"])] for row in rows if row["label"] == name] == side["line"]
    wrong = gymnast(*plot, tmp_path / "a.csv", "--label", "one", *here)
    assert wrong.code == 2
    assert "--label: 1 for 2 curves" in wrong.err


def test_help_tells_programs_where_to_look(gymnast: Command) -> None:
    text = gymnast("--help").out
    for words in ("For programs:", "--json", "3 not solved", "gymnast config explain ENV --json", "programs.md"):
        assert words in text


def test_a_check_of_many_envs_says_how_far_it_is_where_it_is_piped(gymnast: Command) -> None:
    outcome = gymnast("envs", "check", "CartPole-v1", "MountainCar-v0", "--steps", "20")
    assert outcome.code == 0
    said = [line for line in outcome.err.splitlines() if " of 2 " in line]  # others come every half minute
    assert said == ["1 of 2  CartPole-v1: ok", "2 of 2  MountainCar-v0: ok"]
