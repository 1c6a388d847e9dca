"""A cell of a sweep is a real training: in parts as in one go, from a checkpoint, measured from its first agent."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gymnast.config import load, override
from gymnast.core.errors import UserError
from gymnast.runs.references import list_runs, resolve_checkpoint
from gymnast.verbs import train
from gymnast.verbs.report import report_run
from gymnast.verbs.runs.show import list_all_runs, show_run
from gymnast.verbs.sweep.asked import base_of, make_plan
from gymnast.verbs.sweep.plan import MEASURED
from gymnast.verbs.sweep.store import INIT, Store, area
from gymnast.verbs.sweep.worker import run

STEPS = 4096
ASKED: dict[str, Any] = {
    "search": ["algo.gamma=[0.9, 0.99]"],
    "space": None,
    "sampler": None,
    "seed": 0,
    "seeds": 2,
    "against": None,
}


class Heard:
    """A channel that keeps what is said."""

    def __init__(self) -> None:
        self.events: list[dict[str, Any]] = []

    def event(self, **facts: Any) -> None:
        self.events.append(facts)


def cell(folder: Path, steps: int, channel: Heard | None = None, **about: Any) -> dict[str, Any]:
    target = "CartPole-v1:zoo"
    config = load(target, ["eval.episodes=4", "stop.episodes=4", "train.seed=5"], steps=STEPS).config
    measured = override(config, MEASURED)
    return run(channel or Heard(), measured.model_dump(mode="json"), steps, str(folder), **about)  # type: ignore[arg-type]


def test_a_cell_in_parts_is_the_cell_in_one_go(tmp_path: Path) -> None:
    whole = cell(tmp_path / "whole", STEPS)
    heard = Heard()
    parts = [cell(tmp_path / "parts", steps, heard) for steps in (STEPS // 4, STEPS // 2, STEPS)]
    assert [part["steps"] for part in parts] == [1024, 2048, 4096]
    assert parts[-1]["curve"] == whole["curve"]  # number for number
    assert parts[-1]["final"] == whole["final"]
    assert parts[0]["curve"] == whole["curve"][: len(parts[0]["curve"])]
    assert whole["curve"][0][0] == 0  # the agent before its first step
    assert whole["curve"][-1][0] == STEPS
    assert parts[1]["final"] is None  # only a full run is scored on fresh episodes
    assert 0 < parts[0]["seconds"] < parts[-1]["seconds"]
    assert area(parts[0]["curve"], 1024) == area(whole["curve"], 1024)
    assert heard.events[-1]["curve"] == whole["curve"]
    assert len(list_runs(tmp_path / "parts")) == 1
    assert cell(tmp_path / "parts", STEPS) == parts[-1] | {"final": None}  # done: nothing is trained


def test_a_cell_goes_on_after_a_kill(tmp_path: Path) -> None:
    """From its checkpoint, which is that after the first update: rows that came later are forgotten."""
    whole = cell(tmp_path / "whole", STEPS)

    class Killed(Heard):
        def event(self, **facts: Any) -> None:
            if facts["steps"] > 1500:
                raise SystemExit

    with pytest.raises(SystemExit):
        cell(tmp_path / "cut", STEPS, Killed())
    assert cell(tmp_path / "cut", STEPS)["curve"] == whole["curve"]


def test_cells_start_from_a_checkpoint(tmp_path: Path) -> None:
    train.start(
        "CartPole-v1:zoo", ["eval.episodes=4", "stop.episodes=4"], tmp_path / "runs", seed=1, steps=8192, quiet=True
    )
    base = base_of(None, "@last/last", ["algo.gamma=0.9"], STEPS, tmp_path / "runs")
    assert base.init_from is not None
    assert (base.config.algo.gamma, base.config.train.total_timesteps) == (0.9, STEPS)
    assert "algo.learning_rate" in base.search
    assert base_of(None, "@last", [], None, tmp_path / "runs").init_from is None  # only its config
    _, path = resolve_checkpoint("@last/last", tmp_path / "runs")
    (tmp_path / "cell").mkdir()
    (tmp_path / "cell" / INIT).write_bytes(path.read_bytes())
    trained, fresh = cell(tmp_path / "cell", 1024), cell(tmp_path / "fresh", 1024)
    assert trained["curve"][0][1] != fresh["curve"][0][1]
    # the same agent on the same episodes: what the run's own last evaluation would say of it
    assert trained["curve"][0][1] > fresh["curve"][0][1]


def test_a_config_that_was_given_up_can_be_inspected(tmp_path: Path) -> None:
    store = Store(tmp_path / "sweeps" / "mine")
    store.open(make_plan(base_of("CartPole-v1:zoo", None, [], STEPS, tmp_path), **ASKED)[0])
    store.close()
    loser = store.folder / "runs" / "1a2b3c4d-s5"
    cell(loser, STEPS // 4, name="1a2b3c4d", changed={"algo.gamma": 0.9})
    store.drop_checkpoints("1a2b3c4d")
    assert not list(loser.rglob("*.safetensors"))
    assert not list_all_runs(tmp_path).runs
    (found,) = list_all_runs(tmp_path, sweep="mine").runs
    assert (found.info.name, found.changes, found.env_steps) == ("1a2b3c4d", {"algo.gamma": 0.9}, STEPS // 4)
    shown = show_run(found.info.token, tmp_path).to_json()
    assert shown["run"] == found.info.id
    assert shown["rows"] > 0
    assert shown["checkpoints"] == []
    assert found.run.alerts_path.is_file()
    assert report_run(found.info.token, tmp_path, html=False, out=None).text.startswith("# ")
    with pytest.raises(UserError, match=r"no sweep 'mien'\. Did you mean 'mine'\?"):
        list_all_runs(tmp_path, sweep="mien")
