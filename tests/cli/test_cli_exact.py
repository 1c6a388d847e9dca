"""Exact scores and audits as a user sees them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from gymnast.config import EnvConfig
from gymnast.envs.tabular.oracle import find_table
from tests.cli.conftest import Command, Trained

TINY_LAKE = ("--steps", "4096", "--set", "eval.every=2048", "--set", "eval.episodes=4", "--set", "stop.episodes=8")


def test_a_run_on_a_table_ends_with_exact_numbers(gymnast: Command, tmp_path: Path) -> None:
    runs = ("--runs-dir", tmp_path)
    trained = gymnast("train", "FrozenLake-v1", *TINY_LAKE, "--json", *runs)
    assert trained.code == 0, trained.err
    table = find_table(EnvConfig(id="FrozenLake-v1"))
    assert table is not None
    assert trained.json["optimum"] == table.best_value
    assert trained.json["regret"] == pytest.approx(trained.json["optimum"] - trained.json["exact_value"])
    assert "decides; optimum 0.7442" in trained.err
    metrics = (tmp_path / trained.json["run"] / "metrics.jsonl").read_text()
    for name in ("eval/exact_value", "eval/regret", "verdict/exact_value", "verdict/regret"):
        assert name in metrics

    greedy, sampled = (gymnast("eval", "@last/best", "--json", *how, *runs).json for how in ((), ("--stochastic",)))
    assert greedy["exact_value"] == trained.json["exact_value"]  # the verdict at the end was on the best agent
    assert sampled["exact_value"] != greedy["exact_value"]
    # Fewer steps, a lower optimum; the agent is the same.
    shorter = ("--set", "env.max_episode_steps=20", "--set", "stop.threshold=null")
    short = gymnast("eval", "@last", *shorter, "--json", *runs).json
    assert 0.0 < short["optimum"] < 0.5
    assert "regret" in gymnast("eval", "@last", *runs).out


def test_no_table_no_exact_numbers(gymnast: Command, trained: Trained) -> None:
    result = gymnast("eval", "@last", "--episodes", "2", "--json", "--runs-dir", trained.runs_dir).json
    assert (result["exact_value"], result["optimum"], result["regret"]) == (None, None, None)


def test_a_preset_threshold_out_of_reach_leaves_no_run(gymnast: Command, tmp_path: Path) -> None:
    refused = gymnast("train", "FrozenLake-v1", "--set", "env.max_episode_steps=10", "--runs-dir", tmp_path / "runs")
    assert refused.code == 2
    assert "0.74 is above the best possible mean return 0.0414 of FrozenLake-v1" in refused.err
    assert refused.err.count("\n") == 1
    assert not (tmp_path / "runs").exists()


def test_a_bad_map_is_one_line(gymnast: Command, tmp_path: Path) -> None:
    refused = gymnast("train", "FrozenLake-v1", "--set", "env.kwargs.map_name=9x9", "--runs-dir", tmp_path)
    assert refused.code == 2
    assert refused.err.splitlines() == [
        "gymnast: env.kwargs: 'FrozenLake-v1' cannot be made with map_name='9x9': KeyError: '9x9'."
    ]


def test_envs_show_says_where_the_optimum_comes_from(gymnast: Command) -> None:
    shown = gymnast("envs", "show", "Taxi-v4", "--json").json
    assert shown["optimum"] == 7.93
    assert shown["optimum_source"].startswith("backward induction over the transition table, 200 steps")
    assert "7.93 (backward induction" in gymnast("envs", "show", "Taxi-v4").out


def test_audit_of_an_env_that_cannot_be_drawn(gymnast: Command, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    picture = tmp_path / "bandit.png"
    done = gymnast("envs", "audit", "gymnast/BernoulliBandit-v0", "--steps", "50", "--picture", picture)
    assert done.code == 0, done.err
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert "samples per reward" in done.out
    assert "█" in done.out
    # 16 envs of the preset
    machine = gymnast("envs", "audit", "gymnast/BernoulliBandit-v0", "--steps", "50", "--seed", "1", "--json")
    assert machine.json["steps"] == 50 * 16
    assert machine.json["seed"] == 1


def test_audit_without_matplotlib(without: Callable[..., Command], tmp_path: Path) -> None:
    bare = without("matplotlib")
    refused = bare("envs", "audit", "CliffWalking-v1", "--steps", "20", "--picture", tmp_path / "a.png")
    assert refused.code == 2
    assert 'pip install "gymnast-rl[plot]"' in refused.err
    assert bare("envs", "audit", "CliffWalking-v1", "--steps", "20").code == 0
