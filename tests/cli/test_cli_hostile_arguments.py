"""Settings, files and options that nobody should write: a line with what is wrong, exit code 2, in bounded time."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest

from gymnast.config.problems import known_keys
from gymnast.config.schema import RunConfig
from tests.cli.conftest import Command, Trained, assert_answered

LONG = "L" * 300  # longer than a file's name may be
VALUES = (
    *(
        "[ppo]",
        "{a: 1}",
        "true",
        "null",
        "-1",
        "1.5",
        "1e9",
        "1e400",
        "9" * 500,
        "0x" + "f" * 5000,
        ".nan",
        ".inf",
        "''",
    ),
    *("x", "\x1b[31mred", '"\\e[31m"', '"\\ud800"', "[" * 500 + "]" * 500, "[" * 2000, "{a: " * 500, "!!bool x"),
    *("!!int x", "!!float x", "!!python/object/apply:os.system [ls]", "!!binary x", "!!set {a}", "&a [*a]", "*a"),
    *("x" * 100_000, "[1000000000]", "[60000, 60000, 60000]", "lin_", "2021-01-01", "12:30:45", "\u202e", "a: b", "|"),
    *("\x00", "100000", "{1: 2}", "{null: 1}", "{[1]: 2}", "? a", "<<: {a: 1}", "[{frame_stack: {n: 1000000000}}]"),
)


@pytest.mark.parametrize("seed", range(6))
def test_any_value_for_any_key(call: Command, tmp_path: Path, seed: int) -> None:
    rng, keys = random.Random(seed), list(known_keys(RunConfig))
    for _ in range(25):
        text = f"{rng.choice(keys)}={rng.choice(VALUES)}"
        outcome = call("config", "show", "CartPole-v1", "--set", text)
        lines = outcome.err.splitlines()
        assert_answered(outcome, f"--set {text[:100]}", lines=len(lines))
        assert len(lines) < 10, outcome.err
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "setting, words",
    [
        ("algo.name=[ppo]", "must be one of ppo"),
        ("train.threads=100000", "train.threads = 100000: must be at most 1024"),
        ("env.wrappers=[{frame_stack: {n: 1000000000}}]", "from 1 to 1024"),
        ("env.n_envs=1000000000", "must be at most 65536"),
        ("algo.n_steps=1000000000", "must be at most 16777216"),
        ("agent.hidden=[60000, 60000]", "3,600,000,000 weights"),
        ("env.max_episode_steps=99999999999999999999", "is not a YAML value"),
        ("agent.log_std_init=1e30", "must be at most 20"),
        ("algo.batch_size='128'", "algo.batch_size = '128': must be a number"),
        (f"{'a.' * 3000}b=1", "write key=value"),
        ("env.kwargs.gravitas=3", "gravitas=3: TypeError"),
        ("env.kwargs.sutton_barto_reward=1 --set env.kwargs.render_mode=[1]", "cannot be made with render_mode=[1]"),
    ],
)
def test_a_setting_that_no_machine_can_take(call: Command, tmp_path: Path, setting: str, words: str) -> None:
    sets = [word for text in setting.split(" --set ") for word in ("--set", text)]
    outcome = call("train", "CartPole-v1", *sets, "--runs-dir", tmp_path / "runs")
    assert outcome.code == 2
    assert words in outcome.err
    assert not (tmp_path / "runs").exists()


def test_a_rollout_that_does_not_fit_into_memory(call: Command, tmp_path: Path) -> None:
    sizes = ("--set", "env.n_envs=65536", "--set", "algo.n_steps=1048576", "--set", "algo.batch_size=65536")
    outcome = call("train", "CartPole-v1", *sizes, "--steps", 2**40, "--runs-dir", tmp_path / "runs")
    assert_answered(outcome, "a rollout of terabytes")
    assert "GB are free" in outcome.err


@pytest.mark.parametrize(
    "target",
    [
        *(".:Env-v0", "..:Env-v0", ":Env-v0", "a b:Env-v0", "nope:Env-v0", LONG, f"{LONG}-v1", f"CartPole-v1:{LONG}"),
        *("/", "", " ", "\x1b[31mX-v1", "\ud800", "CartPole-v1:\x00", f"CartPole-v{'9' * 5000}", "x" * 100_000),
        *("/etc/passwd", f"{LONG}.yaml"),
    ],
    ids=repr,
)
def test_an_env_that_cannot_be(call: Command, tmp_path: Path, target: str) -> None:
    outcome = call("train", target, "--runs-dir", tmp_path / "runs")
    assert_answered(outcome, target[:50])
    assert outcome.code == 2


FILES = {
    "deep": "a: " + "[" * 1000 + "]" * 1000,
    "deep blocks": "\n".join(" " * level + "a:" for level in range(500)),
    "bomb": "a: &a [x, x]\n" + "".join(f"k{i}: &k{i} [*a, *a]\n" for i in range(20)),
    "circle": "extends: file.yaml\n",
    "list": "variants: [a, b]\n",
    "empty variants": "variants:\n  a:\n  b: 3\n",
    "no sections": "env: 3\nalgo: [1]\n",
    "many keys": "env: {id: CartPole-v1}\n" + "".join(f"k{i}: 1\n" for i in range(5000)),
    "too large": "env: {id: CartPole-v1}\n" + "# comment\n" * 100_000,
    "escapes": 'env: {id: "\\e[31mX-v0"}\n',
    "tag": "env: !!python/object:os.system {}\n",
}


@pytest.mark.parametrize("name", FILES)
def test_a_file_that_is_no_config(call: Command, tmp_path: Path, name: str) -> None:
    file = tmp_path / "file.yaml"
    file.write_text(FILES[name])
    for words in (("config", "check", file), ("train", file), ("config", "fmt", file), ("benchmark", "--plan", file)):
        outcome = call(*words, *(["--runs-dir", tmp_path / "runs"] if words[0] == "train" else []))
        lines = len(outcome.err.splitlines())
        assert_answered(outcome, f"{words[:2]} of {name}", lines=lines)
        assert lines <= 101
        assert outcome.code == 2 or words[1] == "fmt"


def test_files_that_are_no_text(call: Command, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo.yaml")
    (tmp_path / "zero.yaml").symlink_to("/dev/zero")
    (tmp_path / "latin.yaml").write_bytes(b"rows:\n - {target: CartPole-v1, n\xe9: 1}\n")
    for file in sorted(tmp_path.glob("*.yaml")):
        for words in (("config", "check"), ("config", "show"), ("config", "fmt"), ("benchmark", "--plan")):
            outcome = call(*words, file)
            assert_answered(outcome, f"{words} of {file.name}")
            assert (outcome.code, file.name in outcome.err) == (2, True)


def test_variants_may_be_named_by_numbers_and_truths(call: Command, tmp_path: Path) -> None:
    file = tmp_path / "file.yaml"
    file.write_text(
        "variants:\n" + "".join(f"  {name}: {{env: {{id: CartPole-v1}}}}\n" for name in ("1", "true", "1.5"))
    )
    assert call("config", "check", file).code == 0
    for name in ("1", "true", "1.5"):
        assert call("config", "show", f"{file}:{name}").out.startswith(f"# {file}:{name}\n")


@pytest.mark.parametrize("seeds", ["1-999999999", "999999999", "9" * 5000, "5-1", "\x1b[31m"])
def test_more_seeds_than_there_is_time_for(call: Command, tmp_path: Path, seeds: str) -> None:
    outcome = call("benchmark", "CartPole-v1", "--seeds", seeds, "--out", tmp_path / "out")
    assert_answered(outcome, seeds[:20])
    assert (outcome.code, (tmp_path / "out").exists()) == (2, False)


@pytest.mark.parametrize("words", [("--seconds", "nan"), ("--tune", "--seconds", "nan"), ("--seconds", "inf")])
def test_a_time_that_is_no_time(call: Command, words: tuple[str, ...]) -> None:
    assert_answered(call("speed", "CartPole-v1", *words), " ".join(words), code=2)


@pytest.mark.parametrize(
    "words",
    [
        ("report", "@last", "--out", "{missing}/x.md"),
        ("report", "@last", "--html", "--out", "{missing}/x.html"),
        ("runs", "plot", "@last", "--out", "{missing}/x.png"),
        ("runs", "zip", "@last", "--out", "{missing}/x.zip"),
        ("runs", "zip", "@last", "--out", f"{LONG}.zip"),
        ("video", "@last", "--out", "/proc/none/x.mp4"),
        ("speed", "CartPole-v1", "--tune", "--write", "/proc/none/x.yaml"),
        *(("runs", "show", ref) for ref in ("", "/", "@", LONG, "\x00", "\ud800", "x" * 100_000, "[")),
    ],
)
def test_places_that_are_not_there(call: Command, trained: Trained, tmp_path: Path, words: tuple[str, ...]) -> None:
    given = [word.format(missing=tmp_path / "missing") if "{" in word else word for word in words]
    outcome = call(*given, "--runs-dir", trained.runs_dir)
    assert_answered(outcome, " ".join(words)[:80], code=2)


def test_every_problem_of_a_file_is_reported_beside_an_unknown_section(call: Command, tmp_path: Path) -> None:
    file = tmp_path / "file.yaml"
    file.write_text("env: {id: CartPole-v2}\ntrian: {seed: 1}\nalgo: {gamma: 2}\n")
    found = call("config", "check", file).err.splitlines()
    assert [line.split(": ")[2] for line in found] == ["trian", "algo.gamma = 2"]
    file.write_text("env: {id: CartPole-v2}\n")
    assert "file.yaml:1: env.id = CartPole-v2: " in call("config", "check", file).err


def test_a_file_of_rl_zoo_is_recognised(call: Command, tmp_path: Path) -> None:
    file = tmp_path / "ppo.yaml"
    file.write_text("CartPole-v1:\n  n_envs: 8\n  n_timesteps: !!float 1e5\n  policy: 'MlpPolicy'\n  n_steps: 32\n")
    outcome = call("config", "check", file)
    assert_answered(outcome, "RL Zoo", code=2)
    assert "RL Zoo" in outcome.err
    assert "n_timesteps is train.total_timesteps" in outcome.err


def test_formatting_keeps_the_header_and_can_only_check(call: Command, tmp_path: Path) -> None:
    file = tmp_path / "file.yaml"
    text = "# about this file\nalgo:\n  gamma: 0.9\n# the env\nenv:\n  id: CartPole-v1\n"
    file.write_text(text)
    assert_answered(call("config", "fmt", "--check", file), "not in order", code=2)
    assert file.read_text() == text
    assert call("config", "fmt", file).code == 0
    assert file.read_text() == "# about this file\n# the env\nenv:\n  id: CartPole-v1\nalgo:\n  gamma: 0.9\n"
    assert call("config", "fmt", "--check", file).code == 0


def test_the_option_that_is_to_blame_is_blamed(call: Command, trained: Trained, tmp_path: Path) -> None:
    """A preset's batch of 256 fits its 8 envs: what broke the rule is the number of envs on the command line."""
    one = call("train", "CartPole-v1", "--set", "env.n_envs=1", "--runs-dir", tmp_path / "runs")
    assert one.err.startswith("gymnast: --set: algo.batch_size: "), one.err
    few = call("resume", "@last", "--steps", "-5", "--runs-dir", trained.runs_dir)
    assert few.err.startswith("gymnast: --steps: train.total_timesteps = -5: "), few.err
