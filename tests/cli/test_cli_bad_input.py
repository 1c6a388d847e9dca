"""Every mistake: one line that names what is wrong and the way out, exit code 2, no traceback, nothing on the disk."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from gymnast.runs import checkpoint
from tests.cli.conftest import TINY, Command, Outcome, Trained

CARTPOLE = ("train", "CartPole-v1")


def assert_refused(outcome: Outcome, *words: str) -> None:
    assert outcome.code == 2, outcome
    lines = outcome.err.splitlines()
    assert len(lines) == 1, outcome.err
    assert lines[0].startswith("gymnast: ")
    assert "Traceback" not in outcome.err
    for word in words:
        assert word in lines[0], f"{word!r} is not in: {lines[0]}"


@pytest.mark.parametrize(
    "args, words",
    [
        (("train", "CartPol-v1"), ("'CartPol-v1'", "Did you mean 'CartPole-v1'")),
        (("train", "CartPole-v1:pppo"), ("unknown variant 'pppo'", "'ppo'", "Known: ppo, a2c, reinforce, ")),
        ((*CARTPOLE, "--set", "algo.learningrate=1"), ("algo.learningrate", "'algo.learning_rate'")),
        ((*CARTPOLE, "--set", "env.wrappers=[framestack]"), ("env.wrappers", "'framestack'", "'frame_stack'")),
        ((*CARTPOLE, "--set", "agent.activation=reluu"), ("agent.activation", "reluu", "'relu'")),
        # 100 does not divide the samples, 64 and 128 do
        (
            (*CARTPOLE, "--set", "algo.batch_size=100"),
            ("algo.batch_size", "100", "32 x 64 = 2048", "--set algo.batch_size=128 (or 64, 256)"),
        ),
        ((*CARTPOLE, "--steps", "-5"), ("train.total_timesteps", "-5", "at least 1")),
        ((*CARTPOLE, "--steps", "many"), ("--steps", "'many'", "gymnast train --help")),
        ((*CARTPOLE, "--sed", "1"), ("--sed", "--seed")),
        ((*CARTPOLE, "--lr", "3e-4"), ("'--lr'", "'--set algo.learning_rate=3e-4'")),
        ((*CARTPOLE, "--algo", "a2c"), ("'--algo'", "part of the target", "'gymnast train ENV:a2c'")),
        ((*CARTPOLE, "--set", "algo=a2c"), ("algo = a2c: is a section", "ENV:a2c", "algo.name=a2c")),
        (("train", "tests/golden_envs.py"), ("is a Python file", "env in it: tests.golden_envs:golden/MultiMasked-v0")),
        (("train", "./tests/golden_envs.py:golden/X-v0"), ("a Python file", "tests.golden_envs:golden/MultiMasked-v0")),
        (("train", "no_such.py"), ("there is no file 'no_such.py'", "module:Env-v0")),
        (("train", "PongNoFrameskip-v4"), ("old name", "ALE/Pong-v5")),
        (("train", "pettingzoo.butterfly:pistonball_v6"), ("several agents (PettingZoo) are not supported",)),
        ((*CARTPOLE, "--set", "agent.encoder=cnn"), ("'cnn'", "Did you mean 'nature_cnn'", "'small_cnn'")),
        (("trian", "CartPole-v1"), ("'trian'", "'train'")),
        (("envs", "show", "Pendulm-v1"), ("'Pendulm-v1'", "'Pendulum-v1'")),
        (("ray", "status", "head"), ("head", "HOST:PORT")),
        (("config", "explain", "CartPole-v1", "algo.gama"), ("algo.gama", "'algo.gamma'")),
        (("resume", "k3x9"), ("no runs yet", "gymnast train CartPole-v1")),
    ],
)
def test_a_mistake_on_the_command_line(gymnast: Command, tmp_path: Path, args: tuple[str, ...], words: str) -> None:
    runs_dir = tmp_path / "runs"
    assert_refused(gymnast(*args, "--runs-dir", runs_dir), *words)
    assert not runs_dir.exists()


def test_a_broken_yaml_file(gymnast: Command, tmp_path: Path) -> None:
    file = tmp_path / "broken.yaml"
    file.write_text("env: {id: CartPole-v1}\nalgo:\n  gamma: [0.9\n")
    runs_dir = tmp_path / "runs"
    for verb in (("train", file), ("config", "check", file)):
        assert_refused(gymnast(*verb, "--runs-dir", runs_dir), "broken.yaml:", "broken YAML")
    assert not runs_dir.exists()


def test_all_mistakes_of_a_file_are_reported_at_once_with_their_lines(gymnast: Command, tmp_path: Path) -> None:
    file = tmp_path / "mistakes.yaml"
    file.write_text("env: {id: CartPole-v1}\nalgo:\n  gamma: 2\nagent:\n  hiden: [4]\n")
    outcome = gymnast("config", "check", file)
    assert outcome.code == 2
    assert [line.partition(": ")[0] for line in outcome.err.splitlines()] == ["gymnast", "gymnast"]
    assert "mistakes.yaml:3: algo.gamma = 2" in outcome.err
    assert "mistakes.yaml:5: agent.hiden" in outcome.err


@pytest.mark.parametrize(
    "package, args, command",
    [
        ("Box2D", ("train", "LunarLander-v3"), 'pip install "gymnast-rl[box2d]"'),
        ("envpool", (*CARTPOLE, "--set", "env.engine=envpool"), 'pip install "gymnast-rl[envpool]"'),
    ],
)
def test_a_missing_optional_package(
    without: Callable[..., Command], tmp_path: Path, package: str, args: tuple[str, ...], command: str
) -> None:
    runs_dir = tmp_path / "runs"
    assert_refused(without(package)(*args, "--runs-dir", runs_dir), command)
    assert not runs_dir.exists()


def test_a_run_that_is_not_there(gymnast: Command, trained: Trained) -> None:
    before = sorted(trained.runs_dir.iterdir())
    for verb in ("resume", "eval"):
        assert_refused(gymnast(verb, "zzzzz", "--runs-dir", trained.runs_dir), "no run 'zzzzz'", "Newest: ")
    missing = f"{trained.first.json['run']}/step_77"
    assert_refused(gymnast("eval", missing, "--runs-dir", trained.runs_dir), "step_77", "step_512")
    assert sorted(trained.runs_dir.iterdir()) == before


def test_a_truncated_checkpoint(gymnast: Command, trained: Trained, tmp_path: Path) -> None:
    run = tmp_path / "runs" / trained.path.name
    shutil.copytree(trained.path, run)
    for name in ("last", "best"):
        file = run / "checkpoints" / f"{name}.safetensors"
        file.write_bytes(file.read_bytes()[:-100])
    before = {path: path.stat().st_mtime_ns for path in run.rglob("*")}
    for verb, name in (("resume", "last"), ("eval", "best")):
        outcome = gymnast(verb, run.name, "--runs-dir", run.parent)
        assert_refused(outcome, f"{name}.safetensors", "step_512", "step_1024")  # what is broken, and what is not
    assert list(run.parent.iterdir()) == [run]
    assert {path: path.stat().st_mtime_ns for path in run.rglob("*")} == before

    shown = gymnast("runs", "show", run.name, "--runs-dir", run.parent)
    assert shown.code == 0
    assert shown.out.count("broken: it has") == 2
    whole = gymnast("runs", "show", run.name, "--runs-dir", run.parent, "--json").json["checkpoints"]
    assert [item["name"] for item in whole if item["problem"] is None] == ["step_512", "step_1024"]


def test_with_json_a_mistake_is_an_object_as_well(gymnast: Command, tmp_path: Path) -> None:
    outcome = gymnast("train", "CartPol-v1", "--json", "--runs-dir", tmp_path / "runs")
    assert_refused(outcome, "'CartPol-v1'")
    assert outcome.err == f"gymnast: {outcome.json['error']}\n"


def test_a_folder_that_cannot_be_written(gymnast: Command, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    outcome = gymnast("runs", "list", "--runs-dir", tmp_path / "file")
    assert_refused(outcome, "--runs-dir", "is a file")


def test_a_tracker_that_is_not_installed_is_reported_before_anything_starts(
    without: Callable[..., Command], tmp_path: Path
) -> None:
    outcome = without("wandb")("train", "CartPole-v1", "--track", "wandb", "--runs-dir", tmp_path / "runs")
    assert outcome.code == 2
    assert outcome.err == 'gymnast: log.sinks: wandb is not installed. Run: pip install "gymnast-rl[wandb]"\n'
    assert len(outcome.err.splitlines()) == 1
    assert not (tmp_path / "runs").exists()


def test_an_unknown_tracker_is_answered_with_the_known_ones(gymnast: Command, tmp_path: Path) -> None:
    outcome = gymnast("train", "CartPole-v1", "--track", "wandbb", "--runs-dir", tmp_path / "runs")
    assert outcome.code == 2
    assert "unknown sink 'wandbb'. Did you mean 'wandb'?" in outcome.err


def test_a_checkpoint_of_an_earlier_version_is_answered_in_a_line(gymnast: Command, tmp_path: Path) -> None:
    """Its state had other parts: the agent can be taken over, the training cannot go on."""
    assert gymnast("train", "CartPole-v1", *TINY, "--runs-dir", str(tmp_path), "--quiet").code == 0
    (path,) = tmp_path.glob("*/checkpoints/last.safetensors")
    saved = checkpoint.load(path)
    state = {key: value for key, value in saved.state.items() if key != "judge"}
    checkpoint.save(path, saved.tensors, state, saved.metrics)
    answer = gymnast("resume", "@last", "--runs-dir", str(tmp_path))
    assert answer.code == 2
    assert "was written by an earlier version and cannot be resumed" in answer.err
    assert "--init-from" in answer.err
