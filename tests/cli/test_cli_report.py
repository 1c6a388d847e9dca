"""report, runs plot and runs compare as commands: what they import, and what a run that just ended says."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.cli.conftest import Command, Trained


@pytest.mark.parametrize("verb", [("report",), ("runs", "compare"), ("runs", "plot")], ids=" ".join)
def test_looking_at_runs_imports_nothing_heavy(
    packages_of: Callable[..., set[str]], trained: Trained, verb: tuple[str, ...]
) -> None:
    found = packages_of(*verb, trained.first.json["run"], "--runs-dir", trained.runs_dir)
    assert {"torch", "matplotlib", "gymnasium", "numba"} & found == set()


def test_a_run_that_ended_names_its_page_and_keeps_it(gymnast: Command, trained: Trained) -> None:
    run = trained.second.json["run"]
    assert f"gymnast report {run.split('-')[0]} --runs-dir" in trained.second.err
    kept = (trained.runs_dir / run / "report.md").read_text(encoding="utf-8")
    assert f"Started from `{trained.first.json['run']}/last`" in kept
    printed = gymnast("report", run, "--runs-dir", trained.runs_dir)
    assert (printed.code, printed.err) == (0, "")
    assert printed.out.startswith("# NOT SOLVED: CartPole-v1, ppo, seed 1")


def test_a_mistake_is_one_line(gymnast: Command, trained: Trained) -> None:
    wrong = gymnast("runs", "plot", "@last", "--metric", "entrpy", "--runs-dir", trained.runs_dir)
    assert (wrong.code, wrong.err.count("\n")) == (2, 1)
    assert "Did you mean 'entropy'" in wrong.err
