"""What a run keeps of itself on disk while it trains: checkpoints."""

from __future__ import annotations

import math
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gymnast.agent.agent import not_finite
from gymnast.runs import checkpoint
from gymnast.training.rows import Row, moment
from gymnast.training.state import TrainState, last_steps, save_state

if TYPE_CHECKING:
    from gymnast.judge.snapshot import Snapshot
    from gymnast.training.rows import Reporter


RETRIED = ("best", "last")  # others, of which there may be many, would fill the memory


class Keeper:
    """Saves checkpoints into a folder; without one nothing is kept. Nothing replaces a checkpoint that has no use."""

    def __init__(self, state: TrainState, folder: Path | None) -> None:
        self._state, self._folder = state, folder
        begun = folder is not None and (folder / "last.safetensors").exists()
        if folder is not None:
            folder.mkdir(parents=True, exist_ok=True)
        self._diverged = False
        self._owed: dict[str, tuple[bytes, dict[str, Any], str | None]] = {}  # by name, what the disk had no room for
        self._saved_at = state.clock.elapsed if begun else -math.inf  # a new run is saved after its first update

    def due(self, new_best: bool, ending: bool) -> list[str]:
        """Which checkpoints this moment deserves."""
        state, step = self._state, self._state.counters.env_steps
        names = ["best"] if new_best else []
        if state.kept.due(step):
            names.append(f"step_{step}")
            state.kept.done(step)
        if state.counters.advancing:
            names.append(f"stage_{state.judge.stage.name}")
        if names or ending or state.clock.elapsed - self._saved_at >= state.config.train.checkpoint_seconds:
            names.append("last")
        return names

    def save(self, names: list[str], row: Row | None, reporter: Reporter, ending: bool = False) -> None:
        """`last` is overwritten all the time; those that stay get a table of the steps before them. Where the disk is
        full, training goes on, and the next call tries again; at the end of the run that is an error."""
        if self._folder is None or not names:
            return
        state, begun = self._state, self._state.clock.elapsed
        if broken := not_finite(state.agent.state_dict()):
            if not self._diverged:
                where = f"{broken[0]}, at {state.counters.env_steps:,} steps"
                reporter.warn(f"the training has diverged, weights are not finite ({where}): no checkpoint is saved")
            self._diverged = True
            self._write(reporter, ending)  # what the disk had no room for is of an agent that was finite
            return
        tensors, values = save_state(state)
        table = None if state.collector.cut or names == ["last"] else last_steps(state)
        row = moment(state) if row is None else row
        data, about = (
            checkpoint.to_bytes(tensors, values, row),
            {"step": state.counters.env_steps, "metrics": dict(row)},
        )
        self._owed |= {name: (data, about, None if name == "last" else table) for name in names}
        written = self._write(reporter, ending)
        self._saved_at = state.clock.elapsed
        if written:
            reporter.checkpoint(written, self._saved_at - begun)

    def _write(self, reporter: Reporter, ending: bool) -> list[str]:
        """All that is not on the disk yet; the names of what now is."""
        assert self._folder is not None
        written = []
        for name, (data, about, table) in list(self._owed.items()):
            try:
                checkpoint.write(self._folder / f"{name}.safetensors", data, about, table)
                written.append(name)
            except checkpoint.DiskFull as error:
                if ending:
                    raise
                again = "The training goes on; it is tried again with the next checkpoint"
                reporter.warn(f"{error} {again if name in RETRIED else 'The training goes on without it'}")
                if name in RETRIED:
                    continue
            del self._owed[name]
        return written

    def save_best(self, snapshot: Snapshot, values: Row, reporter: Reporter) -> None:
        """An earlier moment, with what is known of it by now: the file that would have been written then and there."""
        if self._folder is None:
            return
        record = self._state.judge.record
        own = ("evaluations", "next_evaluation", "due")  # of that moment; whatever else is known is known now
        known = {name: value for name, value in asdict(record).items() if name not in own}
        known = snapshot.state["judge"] | known
        tensors = snapshot.tensors | {f"judge/best/{name}": tensor for name, tensor in snapshot.agent.items()}
        row = snapshot.row | values | {"solved": float(record.solved)}
        state = snapshot.state | {"judge": known}
        about = {"step": snapshot.request.step, "metrics": dict(row)}
        self._owed["best"] = (checkpoint.to_bytes(tensors, state, row), about, snapshot.steps)
        self._write(reporter, ending=False)
