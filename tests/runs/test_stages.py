"""A curriculum as its user sees it: console, JSON, `runs show`, report, eval and video in any of its stages, resume."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from gymnast.cli import app
from gymnast.core.errors import UserError
from gymnast.report.run_facts import RunFacts
from gymnast.runs.references import Run
from gymnast.sinks.jsonl import read_metrics

STAGES = """# staged.yaml
env: {id: CartPole-v1, n_envs: 4}
algo: {n_steps: 64, batch_size: 64, n_epochs: 1}
train: {total_timesteps: 3072, seed: 1}
eval: {every: 512, episodes: 4}
stop: {episodes: 4}
stages:
  short:
    env: {max_episode_steps: 9}
    advance: {steps: 1024}
  middle:
    env: {max_episode_steps: 12}
    advance: {steps: 1024}
  full: {}
"""


def gymnast(*words: str | Path) -> str:
    return CliRunner().invoke(app, [*map(str, words)], catch_exceptions=False, standalone_mode=False).stdout


def last_line(text: str) -> dict[str, Any]:
    found = json.loads(text.splitlines()[-1])
    assert isinstance(found, dict)
    return found


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path, dict[str, Any], str]:
    """The file, the folder of runs, the JSON of a run and what its console showed."""
    folder = tmp_path_factory.mktemp("runs")
    file = folder / "staged.yaml"
    file.write_text(STAGES)
    shown = gymnast("train", file, "--json", "--runs-dir", folder / "runs")
    return file, folder / "runs", last_line(shown), gymnast("train", file, "--runs-dir", folder / "shown")


def test_the_result_lists_the_stages(trained: tuple[Path, Path, dict[str, Any], str]) -> None:
    """1024 steps each; episodes are cut at 9 and 12 steps, so that scores are too."""
    _, folder, result, shown = trained
    short, middle, full = result["stages"]
    assert [(one["stage"], one["began"], one["steps"]) for one in result["stages"]] == [
        ("short", 0, 1024),
        ("middle", 1024, 1024),
        ("full", 2048, 1024),
    ]
    assert short["score_at_end"] <= 9
    assert middle["score_at_end"] <= 12
    assert short["forgetting"] == short["score_at_end"] - short["score"]
    assert (full["score_at_end"], full["forgetting"]) == (None, None)
    rows = read_metrics(folder / result["run"] / "metrics.jsonl")
    assert rows[-1]["stage/full/mean_reward"] == full["score"]
    assert rows[-1]["forgetting/middle"] == middle["forgetting"]
    for text in ("stage 1 of 3: short, from step 0 on", "stage 2 of 3: middle, from step 1,024 on", "in stage full"):
        assert text in shown
    assert f"short: 1,024 steps, {short['score_at_end']:.2f} at its end" in shown


def test_runs_show_and_the_report_have_them_too(trained: tuple[Path, Path, dict[str, Any], str]) -> None:
    _, folder, result, _ = trained
    where = "--runs-dir", folder
    assert last_line(gymnast("runs", "show", result["run"], "--json", *where))["stages"] == result["stages"]
    assert "middle: 1,024 steps" in gymnast("runs", "show", result["run"], *where)
    facts = RunFacts(Run(folder / result["run"]))
    page = facts.run.report_path.read_text(encoding="utf-8")
    assert "## Stages" in page
    assert "| short  |         0 | 1,024 |" in page
    for title in ("score by stage  ▪ short   ● middle   ▲ full", "forgotten  ▪ short   ● middle"):
        assert title in page
    gymnast("report", result["run"], "--html", *where)
    html = (facts.run.path / "report.html").read_text(encoding="utf-8")
    assert "score by stage" in html
    assert "nothing forgotten" in html


def test_stages_that_were_not_reached_are_named(tmp_path: Path) -> None:
    file = tmp_path / "staged.yaml"
    file.write_text(STAGES.replace("{steps: 1024}", "{score: 100}"))  # more than an episode of 9 steps has
    shown = gymnast("train", file, "--steps", "1024", "--runs-dir", tmp_path)
    assert re.search(r"not reached +middle, full", shown)
    page = next(tmp_path.glob("*/report.md")).read_text(encoding="utf-8")
    assert "Not reached: middle, full." in page


def test_an_agent_is_scored_in_the_stage_that_is_named(trained: tuple[Path, Path, dict[str, Any], str]) -> None:
    _, folder, result, _ = trained
    run, where = result["run"], ("--json", "--runs-dir", folder)
    named = last_line(gymnast("eval", f"{run}/last", "--stage", "short", *where))
    assert (named["stage"], named["mean_length"] <= 9) == ("short", True)
    assert last_line(gymnast("eval", f"{run}/last", *where))["stage"] == "full"
    ended = last_line(gymnast("eval", f"{run}/stage_middle", *where))  # its own stage, where none is named
    assert (ended["stage"], ended["mean_length"] <= 12) == ("middle", True)
    with pytest.raises(UserError, match=r"--stage shrt: the run has no such stage\. Did you mean 'short'\?"):
        gymnast("eval", run, "--stage", "shrt", *where)


def test_a_video_in_the_stage_that_is_named(trained: tuple[Path, Path, dict[str, Any], str]) -> None:
    _, folder, result, _ = trained
    words = ("video", f"{result['run']}/last", "--stochastic", "--episodes", "8", "--seed", "1", "--json")

    def lengths(*stage: str) -> list[int]:
        made = last_line(gymnast(*words, *stage, "--runs-dir", folder))
        assert ("in_short" in made["video"]) == bool(stage)
        return [episode["length"] for episode in made["parts"][0]["episodes"]]

    # sampled actions keep the pole up for 20 steps on average; the stage cuts them
    assert max(lengths()) > 9
    assert max(lengths("--stage", "short")) <= 9


def test_a_stage_end_can_be_resumed_as_a_new_run(trained: tuple[Path, Path, dict[str, Any], str]) -> None:
    """From the end of the first stage, with more steps in the second: the same rows up to there, and the new rule."""
    _, folder, result, _ = trained
    reference = f"{result['run']}/stage_short"
    settings = "--set", "stages.middle.advance.steps=512"
    again = last_line(gymnast("resume", reference, *settings, "--json", "--runs-dir", folder))
    assert [one["steps"] for one in again["stages"]] == [1024, 512, 1536]
    before = read_metrics(folder / result["run"] / "metrics.jsonl")
    after = read_metrics(folder / again["run"] / "metrics.jsonl")
    first = [row for row in before if row["time/total_timesteps"] <= 1024]
    assert after[: len(first)] == first


def test_a_run_without_stages_has_none_to_name(tmp_path: Path) -> None:
    small = ("--set", "env.n_envs=4", "--set", "algo.n_steps=64", "--set", "algo.batch_size=64", "--steps", "256")
    run = last_line(gymnast("train", "CartPole-v1", *small, "--json", "--runs-dir", tmp_path))
    assert "stages" not in run
    with pytest.raises(UserError, match=r"--stage short: the run has no such stage\. It has none\."):
        gymnast("eval", run["run"], "--stage", "short", "--runs-dir", tmp_path)


def test_an_agent_forgets_a_stage_that_the_next_one_contradicts(tmp_path: Path) -> None:
    """Left and right change places: whoever balances the pole in the second stage drops it in the first."""
    file = tmp_path / "swap.yaml"
    file.write_text(
        "extends: CartPole-v1:ppo\n"
        "train: {total_timesteps: 24_576, seed: 1}\n"
        "eval: {every: 4096}\n"
        "stages:\n"
        "  usual: {advance: {score: 200}}\n"
        "  swapped: {env: {wrappers: [{action_remap: {actions: [1, 0]}}]}}\n"
    )
    usual, swapped = last_line(gymnast("train", file, "--json", "--runs-dir", tmp_path))["stages"]
    assert usual["score_at_end"] > 60
    assert swapped["score"] > 100
    assert usual["score"] < 20
    assert usual["forgetting"] > 40
