"""A tracker that raises, hangs or vanishes in a real run: it finishes, learns the same, and warns once."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from gymnast.core.registry import SINKS
from gymnast.sinks.jsonl import read_metrics
from gymnast.sinks.trackers import sink as trackers
from gymnast.training.record import new_run, record
from tests import trackers_for_tests
from tests.invariants.conftest import small_config
from tests.invariants.test_resume import equal

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("kind", ["Raises", "Hangs", "Vanishes"])
def test_a_bad_tracker_does_not_touch_the_run(
    kind: str, tmp_path: Path, make_session: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(SINKS._entries, "bad", getattr(trackers_for_tests, kind))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]))
    if kind == "Hangs":
        monkeypatch.setattr(trackers, "UPLOAD_SECONDS", 1.0)
    runs = []
    for sinks in (["jsonl"], ["jsonl", "bad"]):
        config = small_config(train={"total_timesteps": 1024}, eval={"every": 512}, log={"every": 128, "sinks": sinks})
        run = new_run(config, None, tmp_path)
        runs.append(run)
        assert record(make_session(config), run, quiet=True).env_steps == 1024
    equal(read_metrics(runs[0].metrics_path), read_metrics(runs[1].metrics_path))
    assert runs[1].read().status == "finished"
    warnings = [line for line in runs[1].log_path.read_text().splitlines() if "bad " in line]
    assert len(warnings) == 1
    assert "metrics.jsonl" in warnings[0]
    assert capsys.readouterr().err.count("gymnast: bad ") == 1  # quiet or not, this is said
