"""Learning as it was recorded: the first two rows of short runs, on the network that is chosen and on torch's.

`golden.json` was recorded through the command line before the algorithms moved to one file each; a change that alters
learning shows here first. Tolerances are wide enough for another processor, whose products round differently: a run
drifts away from the recording by rounding alone, so only its first updates are compared (of Pendulum, which swings
chaotically, only the first row).
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from gymnast.agent.nets import TorchNet
from gymnast.training import build as building
from gymnast.training.build import build
from gymnast.training.loop import train
from gymnast.verbs.train import resolve_config

GOLDEN: dict[str, dict[str, Any]] = json.loads(Path(__file__).with_name("golden.json").read_text(encoding="utf-8"))
CASES = [(name, net) for name, case in GOLDEN.items() for net in ("chosen", "torch")]
TOLERANCE = 2e-3  # of the number, or of 1 for smaller ones


@pytest.mark.parametrize("name,net", CASES, ids=lambda value: str(value))
def test_a_short_run_learns_what_it_always_has(name: str, net: str, monkeypatch: pytest.MonkeyPatch) -> None:
    case = GOLDEN[name]
    if net == "torch":
        monkeypatch.setattr(building, "choose_net", TorchNet)
    resolved = resolve_config(case["target"], case["set"], seed=7, steps=case["steps"])
    state = build(resolved.config, None)
    rows: list[dict[str, float]] = []
    try:
        train(state, observer=rows.append)
    finally:
        state.close()
    expected = case["rows"].get(net, case["rows"]["chosen"])
    assert len(rows) >= len(expected) > 0
    for row, golden in zip(rows, expected, strict=False):
        for metric, value in golden.items():
            assert row[metric] == pytest.approx(value, rel=TOLERANCE, abs=TOLERANCE), metric
