"""`gymnast speed` as a user runs it, with windows as short as they can be. How fast anything is is not asserted."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.conftest import ONE_THREAD, Command

QUICK = ("--seconds", "0.05", "--windows", "1")


@pytest.fixture(scope="module")
def sb3() -> None:
    pytest.importorskip("stable_baselines3")


def test_rates_limit_and_another_library(gymnast: Command, sb3: None) -> None:
    outcome = gymnast("speed", "CartPole-v1:zoo", *QUICK, "--against", "sb3", "--no-advice", "--json", **ONE_THREAD)
    assert outcome.code == 0, outcome.err
    data = outcome.json
    assert outcome.out.count("\n") == 1
    assert data["engine"] == "cartpole"
    assert set(data["rates"]) == {"env", "collect", "update", "whole"}
    assert all(rate > 0 for rate in data["rates"].values())
    # The whole is collecting and learning and a little more, one after the other: never faster than either
    assert data["rates"]["whole"] <= min(data["rates"]["collect"], data["rates"]["update"])
    assert sum(data["shares"].values()) == pytest.approx(1.0)
    assert {"env", "act", "copy", "returns", "update", "log"} <= set(data["shares"])
    assert data["memory_mb"] > 50
    limit = data["limit"]
    assert limit["flops_per_step"] == 2 * (4480 + 4416) * (1 + 3 * 20)  # as test_speed counts them, 20 epochs
    assert limit["matmul_shape"] == [256, 64, 64]
    assert limit["share"] == pytest.approx(data["rates"]["whole"] / limit["whole"])
    other = data["against"]["sb3"]
    assert other["settings"][0]["threads"] is None
    assert other["best"] == max(setting["rate"] for setting in other["settings"])
    assert other["ratio"] == pytest.approx(data["rates"]["whole"] / other["best"])
    assert other["memory_mb"] > 50
    assert data["notes"] == []
    assert "advice" not in data


def test_advice_for_people(gymnast: Command) -> None:
    outcome = gymnast("speed", "CartPole-v1:zoo", "--seconds", "0.02", "--windows", "1")
    assert outcome.code == 0, outcome.err
    lines = outcome.out.splitlines()
    assert lines[0] == "CartPole-v1:zoo"
    for word in ("env alone", "collect", "update", "training", "limit", "time", "memory", "arithmetic"):
        assert any(line.startswith(word) for line in lines), word
    assert "n_envs 8 -> 16" in outcome.out
    assert "engine cartpole -> sync" in outcome.out


def test_startup(gymnast: Command, sb3: None) -> None:
    outcome = gymnast(
        "speed", "CartPole-v1:zoo", "--startup", "--windows", "1", "--against", "sb3", "--json", **ONE_THREAD
    )
    assert outcome.code == 0, outcome.err
    startup = outcome.json["startup"]
    assert startup["steps"] == 5120
    # sb3's default is one thread here, so there is no other setting
    assert [(row["who"], row["threads"]) for row in startup["rows"]] == [("gymnast", None), ("sb3", None)]
    assert all(0 < row["first_update"] <= row["whole"] for row in startup["rows"])
    assert "rates" not in outcome.json


def test_solve(gymnast: Command, sb3: None) -> None:
    # 5 points are what any policy gets: solved at the first evaluation, after 5,120 steps (20 rollouts of 256)
    easy = ("--set", "stop.threshold=5", "--set", "train.total_timesteps=6000", "--seeds", "1")
    outcome = gymnast("speed", "CartPole-v1:zoo", "--solve", "--against", "sb3", *easy, "--json", **ONE_THREAD)
    assert outcome.code == 0, outcome.err
    solve = outcome.json["solve"]
    for who in ("gymnast", "sb3"):
        (run,) = solve["rows"][who]["runs"]
        assert run["solved_at"] == 5120, who
        assert run["seconds"] > 0
    hard = ("--set", "stop.threshold=500", "--set", "train.total_timesteps=512", "--seeds", "1")
    unsolved = gymnast("speed", "CartPole-v1:zoo", "--solve", *hard)
    assert unsolved.code == 0, unsolved.err
    assert "never" in unsolved.out


def test_tuning_writes_and_remembers(gymnast: Command, tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    cache = {"XDG_CACHE_HOME": str(tmp_path / "cache")}
    outcome = gymnast("speed", "CartPole-v1:zoo", "--tune", "--seconds", "2", "--write", file, "--json", **cache)
    assert outcome.code == 0, outcome.err
    best = outcome.json["best"]
    assert outcome.json["steps_between_rewards"] == 1
    assert best in outcome.json["table"]
    assert best["n_envs"] * best["n_steps"] == 8 * 32  # as many samples an update as before
    assert Path(outcome.json["cache"]).is_file()

    shown = gymnast("config", "show", file, "--json", **cache).json
    assert shown["config"]["env"]["n_envs"] == best["n_envs"]
    assert shown["config"]["env"]["engine"] == best["engine"]
    auto = gymnast("config", "show", "CartPole-v1:zoo", "--set", "env.n_envs=auto", "--json", **cache).json
    assert auto["config"]["env"]["n_envs"] == best["n_envs"]

    again = gymnast("speed", "CartPole-v1:zoo", "--tune", "--seconds", "2", "--write", file, **cache)
    assert again.code == 2
    assert "exists already" in again.err


def test_mistakes_are_reported_before_anything_is_measured(gymnast: Command, without: Callable[..., Command]) -> None:
    for args, expected in (
        (("--against", "sb4"), "Did you mean 'sb3'"),
        (("--against", "cleanrl"), "--python cleanrl=PATH"),
        (("--against", "purejaxrl"), "--python purejaxrl=PATH, an interpreter that has it and --repo purejaxrl=DIR"),
        (("--against", "purejaxrl", "--repo", "purejaxrl"), "NAME=PATH"),
        (("--against", "cleanrl", "--solve", "--python", "cleanrl=python3"), "cannot be scored"),
        (("--against", "sb3", "--python", "sb3=/no/such/python"), "no such program"),
        (("--against", "sb3", "--python", "sb3"), "NAME=PATH"),
        (("--tune", "--against", "sb3"), "--against cannot be used with --tune"),
        (("--tune", "--windows", "2"), "--windows cannot be used with --tune"),
        (("--write", "mine.yaml"), "--write needs --tune"),
    ):
        outcome = gymnast("speed", "CartPole-v1", *args)
        assert (outcome.code, outcome.out) == (2, ""), args
        assert expected in outcome.err
        assert outcome.err.count("\n") == 1
    missing = without("stable_baselines3")("speed", "CartPole-v1", "--against", "sb3")
    assert missing.code == 2
    assert 'pip install "gymnast-rl[sb3]"' in missing.err
    reinforce = gymnast("speed", "CartPole-v1:reinforce", "--against", "sb3")
    assert reinforce.code == 2
    assert "no reinforce" in reinforce.err


def test_the_old_names_are_gone(gymnast: Command) -> None:
    for name in ("bench", "tune"):
        outcome = gymnast(name, "CartPole-v1")
        assert outcome.code == 2
        assert f"no command '{name}'" in outcome.err


def test_an_interpreter_without_the_library_says_what_to_do(gymnast: Command, tmp_path: Path) -> None:
    import sys

    bare = tmp_path / "python"  # our own interpreter, with nothing but its standard library
    bare.write_text(f'#!/bin/sh\nexec "{sys.executable}" -I -S "$@"\n')
    bare.chmod(0o755)
    outcome = gymnast("speed", "CartPole-v1", *QUICK, "--against", "sb3", "--python", f"sb3={bare}")
    assert outcome.code == 2
    assert "cannot import" in outcome.err
    assert "pip install stable-baselines3" in outcome.err
