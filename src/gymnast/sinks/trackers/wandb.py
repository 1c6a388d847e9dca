"""Weights & Biases. Runs in a tracker's worker (see `process.py`).

Every log has the run's one step key, so charts of any metric line up, whenever it arrives. Without an API key or a
network the run is kept offline in its folder, for `wandb sync`.
"""

from __future__ import annotations

import os
import tempfile
import traceback
from collections.abc import Mapping
from typing import Any

from gymnast.alerts.alert import Alert
from gymnast.alerts.text import alert_line
from gymnast.metrics.rows import STEP
from gymnast.runs.archive import zip_run
from gymnast.runs.references import Run
from gymnast.sinks.trackers.sink import UPLOAD_SECONDS
from gymnast.sinks.trackers.tracker import MediaTracker, Opening

PROJECT = "gymnast"


class WandbTracker(MediaTracker):
    package = extra = "wandb"
    brings = "runs in Weights & Biases"

    def __init__(self, opening: Opening) -> None:
        os.environ.setdefault("WANDB_ERROR_REPORTING", "false")  # no network but the user's own
        import wandb

        self.sdk, self._opening = wandb, opening
        self._count = opening.logged + 1
        try:
            self._run = self._open(None)
            why = "" if not self._run.offline else "offline, as WANDB_MODE says"
        except wandb.Error as error:  # no key, a bad one, or nobody answers: the numbers are kept all the same
            first = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
            wandb.teardown()  # what was half opened still has the run's id
            self._run, why = self._open("offline"), f"offline ({first})"
        self._run.define_metric(STEP)
        self._run.define_metric("*", step_metric=STEP)
        if why:
            self.note = f"wandb: {why}; upload it later with: wandb sync {opening.folder}/offline-run-*"
        elif self._run.disabled:
            self.note = "wandb: disabled, as WANDB_MODE says"
        else:
            self.note = f"wandb: {self._run.url}"
            self._set_up_workspace()

    def _set_up_workspace(self) -> None:
        from gymnast.sinks.trackers.wandb_workspace import set_up_workspace

        try:
            set_up_workspace(self._run.entity, self._run.project)
        except Exception:  # whatever its package raises: a layout is not worth a run's curves
            traceback.print_exc()

    def _open(self, mode: Any) -> Any:
        run = self._opening.run
        return self.sdk.init(
            project=os.environ.get("WANDB_PROJECT", PROJECT),
            id=run.id,
            name=run.name,
            resume="allow",
            config=run.config,
            tags=[run.env[:64], run.algo],
            dir=run.place / "trackers",
            mode=mode,
            settings=self.sdk.Settings(console="off", init_timeout=UPLOAD_SECONDS / 2),
        )

    def write(self, step: int, row: Mapping[str, Any]) -> None:
        # W&B's own counter only orders the logs. It goes on where an earlier part of the run left it, so that parts
        # written offline can be uploaded one after the other.
        self._run.log({STEP: step, **row}, step=self._count, commit=True)
        self._count += 1

    def diagnostics(self, step: int, record: Mapping[str, Any]) -> None:
        """Gradients by parameter are in the rows; here is what has a shape."""
        shapes, actions = self.histograms(record), record["actions"]
        if "frequency" in actions:
            shares = zip(actions["labels"], actions["frequency"], strict=True)
            shapes |= {f"actions/{label}": share for label, share in shares}
        self.write(step, shapes)

    def alert(self, step: int, data: Mapping[str, Any]) -> None:
        alert = Alert.from_json(data)
        level = {"error": "ERROR", "warning": "WARN", "info": "INFO"}[alert.severity]
        text = f"{self._opening.run.id} at {step:,} steps. {alert_line(alert)}"
        self._run.alert(alert.rule, text, level=level, wait_duration=0)

    def close(self, status: str) -> None:
        if status != "killed":
            self._keep_files()
        self._run.finish(exit_code=0 if status in ("finished", "interrupted") else 1)

    def _keep_files(self) -> None:
        """The best agent, and everything in the run's folder but what trackers put there."""
        run = Run.open(self._opening.run.place)
        best = [path for path in sorted(run.checkpoints_dir.glob("best.*")) if path.is_file()]
        if best:
            model = self.sdk.Artifact(f"{run.id}-best", type="model", metadata=dict(run.read().summary))
            for path in [*best, run.config_path]:
                model.add_file(str(path))
            self._run.log_artifact(model, aliases=["best"])
        with tempfile.TemporaryDirectory() as folder:
            archive = self.sdk.Artifact(f"{run.id}-run", type="run")
            archive.add_file(str(zip_run(run, folder, without=("trackers",)).path))
            self._run.log_artifact(archive)
