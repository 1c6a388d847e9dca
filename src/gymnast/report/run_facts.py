"""All that a run's folder says, read once. What is missing, broken or still being written is reported, not raised."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

from gymnast import config as configs
from gymnast.alerts.alert import Alert, read_alerts
from gymnast.config.files import is_preset, read_file, read_preset
from gymnast.config.layers import variant_names
from gymnast.core.errors import UserError
from gymnast.core.files import HUGE, read_bytes
from gymnast.core.tasks import ALL_SOLVED
from gymnast.core.text import printable
from gymnast.core.trust import Untrusted, require_trust
from gymnast.metrics.catalogue import catalogue
from gymnast.metrics.rows import STEP, is_late, step_of
from gymnast.report.charts.model import Points
from gymnast.runs import checkpoint
from gymnast.runs.references import Run, RunInfo
from gymnast.sinks.jsonl import read_rows

RETURN, EVALUATION = "rollout/ep_rew_mean", "eval/mean_reward"
BEST = "eval/best_mean_reward"
EXACT = "eval/exact_value"  # says more than any sample
SCORES = (RETURN, EVALUATION, "solved", "on_target", "verdict/mean")
UNFINISHED = ("interrupted", "killed", "crashed")
SHARE = "time/share/"

Rows = Sequence[Mapping[str, float]]
T = TypeVar("T")


class RunFacts:
    """Each file is read when it is first asked for, and once."""

    def __init__(self, run: Run, info: RunInfo | None = None) -> None:
        self.run = run
        self.info = run.read() if info is None else info
        self._problems: list[str] = []
        self._unknown: set[str] = set()

    @cached_property
    def rows(self) -> Rows:
        nothing: tuple[list[dict[str, float]], int] = ([], 0)
        rows, damaged = self._attempt(lambda: read_rows(self.run.metrics_path), nothing)
        if damaged:
            self._problems.append(f"{self.run.metrics_path}: {damaged} of its lines cannot be read")
        self._count(self.run.metrics_path, {name for row in rows for name in row})
        return rows

    @cached_property
    def settings(self) -> dict[str, Any]:
        """config.yaml as it lies there."""
        return self._attempt(lambda: read_file(self.run.config_path).data, {})

    @cached_property
    def alerts(self) -> list[Alert]:
        nothing: list[Alert] = []
        alerts = self._attempt(lambda: read_alerts(self.run.alerts_path), nothing)
        self._count(self.run.alerts_path, {name for alert in alerts for name in alert.evidence})
        for alert in alerts:
            alert.evidence = {name: found for name, found in alert.evidence.items() if name not in self._unknown}
        return alerts

    def _count(self, path: Path, names: Collection[str]) -> None:
        """Notes metrics that are not in the catalogue, of another version perhaps; they are skipped."""
        if unknown := [name for name in names if name not in catalogue()]:
            self._unknown.update(unknown)
            self._problems.append(
                f"{path}: {len(unknown)} of its metrics {'is' if len(unknown) == 1 else 'are'} unknown"
            )

    def _attempt(self, read: Callable[[], T], nothing: T) -> T:
        try:
            return read()
        except UserError as error:
            self._problems.append(str(error))
            return nothing

    @property
    def watched(self) -> bool:
        """False: made before alerts were kept, or without a row yet."""
        return os.path.lexists(self.run.alerts_path)

    @property
    def problems(self) -> list[str]:
        """Files that cannot be read, or are not to be."""
        _ = self.rows, self.config, self.alerts
        return self._problems

    @property
    def token(self) -> str:
        return self.info.token

    @property
    def algo(self) -> str:
        """With the preset's variant, where that has another name."""
        name, variant = self.info.algo, self.info.variant
        return name if variant in (None, name) else f"{name} ({variant})"

    @property
    def live(self) -> bool:
        return self.info.status == "running"

    @cached_property
    def env_facts(self) -> configs.EnvFacts | None:
        return configs.load_facts(self.info.env)

    @cached_property
    def config(self) -> configs.RunConfig | None:
        """None where config.yaml cannot be read, no longer fits this version, or names the code of somebody else."""
        try:
            require_trust(self.run.config_path, self.settings)  # checking it imports wrappers
            return configs.validate(self.settings)
        except Untrusted as error:
            self._problems.append(f"its settings are not checked: {error}")
            return None
        except UserError:
            return None

    @cached_property
    def latest(self) -> dict[str, float]:
        """The last value of every metric: not every row has all of them."""
        return {name: value for row in self.rows for name, value in row.items() if name not in self._unknown}

    @cached_property
    def written_at(self) -> dict[str, int]:
        """The step each of those is from."""
        return {name: int(step_of(row, name)) for row in self.rows for name in row}

    @property
    def summary(self) -> Mapping[str, Any]:
        """How it ended; nothing while it is trained (again): what lies there is of an earlier end."""
        return {} if self.live else self.info.summary

    @property
    def env_steps(self) -> int:
        return int(self._said("env_steps", STEP) or 0)

    @property
    def seconds(self) -> float | None:
        return self._said("seconds", "time/elapsed")

    @property
    def fps(self) -> float | None:
        """Env steps a second, the mean over the whole training."""
        if "fps" in self.summary:
            return self.summary["fps"]
        return self.env_steps / self.seconds if self.seconds else None

    @property
    def score(self) -> float | None:
        return self._said("score", BEST)

    @property
    def best_kind(self) -> str | None:
        """What the number of the best evaluation is: not always the mean of an evaluation. None: there is none."""
        best = self.latest.get(BEST)
        if best is None:
            return None
        if EXACT in self.latest:
            return "exact value"
        return "evaluation" if any(value == best for _, value in self.curve(EVALUATION)) else "mean of a verdict"

    @property
    def solved(self) -> bool | None:
        """None: not known, or there is no threshold."""
        said = self._said("solved", "solved")
        return None if said is None or (not said and self.threshold is None) else bool(said)

    @property
    def training_return(self) -> float | None:
        return self._said("training_return", RETURN)

    def _said(self, key: str, metric: str) -> float | None:
        """By the summary, or by the rows where it has no word of it (yet)."""
        return self.summary[key] if key in self.summary else self.latest.get(metric)

    @property
    def total_steps(self) -> int:
        return int(self._setting("train", "total_timesteps") or self.env_steps or 1)

    @property
    def threshold(self) -> float | None:
        if "threshold" in self.summary:
            return self.summary["threshold"]
        if self.settings.get("tasks"):  # each has its own, and the score is relative to them
            return ALL_SOLVED
        own = self._said("threshold", "verdict/threshold")
        own = self._setting("stop", "threshold") if own is None else own
        facts = self.env_facts if self.config is None else configs.scored_facts(self.config, self.env_facts)
        return facts.solved.threshold if own is None and facts is not None and facts.solved is not None else own

    @property
    def evaluated_on(self) -> str | None:
        """The env of the scores, where it is not the one of training."""
        return None if self.config is None else self.config.evaluated_on

    @property
    def stages(self) -> list[dict[str, Any]]:
        """What came of each stage of a curriculum; of a run that has ended, or is interrupted."""
        return self.summary.get("stages", [])

    @property
    def goal(self) -> float | None:
        """stop.target: what training goes on for when the env is solved."""
        if "target" in self.summary:
            return self.summary["target"]
        goal, threshold = self._setting("stop", "target"), self.threshold
        return None if goal is None or (threshold is not None and goal <= threshold) else goal

    @property
    def on_target(self) -> bool | None:
        """None: there is no target."""
        return None if self.goal is None else bool(self._said("on_target", "on_target"))

    def _setting(self, section: str, key: str) -> float | None:
        """A number of the config, also of one that an older version wrote and this one would refuse."""
        values = self.settings.get(section)
        value = values.get(key) if isinstance(values, dict) else None
        return value if isinstance(value, int | float) and abs(value) < HUGE else None

    def curve(self, metric: str, clock: str = STEP) -> Points:
        return points_of(self.rows, metric, clock)

    @cached_property
    def worth_a_look(self) -> list[str]:
        """Metrics other than the scores that matter most by the catalogue, and those an alert points at."""
        alarming = {name for alert in self.alerts for name in alert.evidence}
        known = [catalogue().get(name) for name in self.latest if name in catalogue() and name not in SCORES]
        chosen = [one for one in known if one.emphasis or one.name in alarming or one.name == EXACT]
        return [one.name for one in sorted(chosen, key=lambda one: one.order)]

    @cached_property
    def time_budget(self) -> dict[str, float]:
        """Seconds by phase, most first: each row's shares of the time since the row before."""
        spent: dict[str, float] = {}
        before = 0.0
        for row in self.rows:
            elapsed = before if is_late(row) else row.get("time/elapsed", before)
            for name, share in row.items():
                if name.startswith(SHARE):
                    phase = name.removeprefix(SHARE)
                    spent[phase] = spent.get(phase, 0.0) + share * (elapsed - before)
            before = elapsed
        return dict(sorted(spent.items(), key=lambda item: -item[1]))

    @property
    def checkpoints(self) -> list[checkpoint.CheckpointInfo]:
        return checkpoint.list_checkpoints(self.run.checkpoints_dir)

    @property
    def resumes_at(self) -> str | None:
        """Of a run that did not come to its end: where it goes on, what is lost, and what is not as it was."""
        last = next((item.step for item in self.checkpoints if item.name == "last"), None)
        if last is None or self.info.status not in UNFINISHED:
            return None
        lost = self.env_steps - last
        if lost <= 0 and self.came_to_its_end:
            return f"{last:,} steps, its end: only its summary, report and videos are missing"
        where = f"{last:,} steps, its last checkpoint" + (f"; {lost:,} steps after it are lost" if lost > 0 else "")
        if self.summary.get("exact_resume", True):
            return where
        return f"{where}; episodes in progress start again, as {self.summary['engine']} cannot restore them"

    @property
    def came_to_its_end(self) -> bool:
        """Whether there is nothing left to train, however its process ended."""
        stop = self.config.stop if self.config is not None else None
        met = stop is not None and stop.on_solved and (self.solved if self.goal is None else self.on_target)
        broken_off = self.info.status == "interrupted"  # after its last step: in its last evaluation or verdict
        return bool(met) or (self.env_steps >= self.total_steps and not broken_off)

    @property
    def crash(self) -> str | None:
        """The last line of a crashed run's log, which is the last line of a crashed env's traceback."""
        if self.info.status != "crashed":
            return None
        try:
            lines = read_bytes(self.run.log_path).decode(errors="replace").split("\n")
        except OSError:
            return None
        return next((printable(line.strip()) for line in reversed(lines) if line.strip()), None)

    @cached_property
    def preset(self) -> str | None:
        """The preset that the run's settings are compared with: its own, or its env's for this algorithm."""
        name = self.info.env
        if not is_preset(name):
            return None
        variants = variant_names(read_preset(name))
        if self.info.variant in variants:
            return f"{name}:{self.info.variant}"
        same = [variant for variant in variants if configs.load(f"{name}:{variant}").config.algo.name == self.info.algo]
        return f"{name}:{same[0]}" if same else None

    @cached_property
    def changed(self) -> list[configs.Difference] | None:
        """Settings that differ from the preset's, or from the defaults for an env without one; None: there is nothing
        to compare with. The seed is not counted."""
        if self.config is None or self.usual is None:
            return None
        return [found for found in configs.diff(self.usual.config, self.config) if found.key != "train.seed"]

    @cached_property
    def usual(self) -> configs.Resolved | None:
        """The settings that this run's are compared with."""
        try:
            return configs.load(self.preset or f"{self.info.env}:{self.info.algo}")
        except UserError:  # no preset, and no defaults for this algorithm
            return None

    @cached_property
    def _own_keys(self) -> set[str]:
        assert self.config is not None
        assert self.usual is not None
        return {found.key for found in configs.diff(self.usual.config, self.config)}

    def origin(self, key: str) -> str | None:
        """Where a setting has its value from; None: not known."""
        if self.config is None or self.usual is None:
            return None
        if key in self._own_keys:
            return "your setting"
        source = self.usual.source(key)
        return f"preset {source[8:].replace('.yaml', '')}" if source.startswith("presets/") else source

    @property
    def changes(self) -> dict[str, Any]:
        """What was set otherwise than in the preset or file when training began; no config is read where run.json
        says it."""
        known = self.info.changed
        found = {key: b for key, _, b in self.changed or ()} if known is None else known
        return {key: value for key, value in found.items() if not key.startswith("log.")}

    @property
    def target(self) -> str | None:
        """What starts such a run with `gymnast train`; None where it came from Python, or its file is not known."""
        files = [word for word in self.info.command if word.partition(":")[0].endswith((".yaml", ".yml"))]
        if files:
            return files[0]
        name, variant = self.info.env, self.info.variant
        if not is_preset(name):
            return f"{name}:{variant}" if variant else None
        return f"{name}:{variant}" if variant in variant_names(read_preset(name)) else None

    @property
    def videos(self) -> list[Path]:
        """Finished ones: a video that is being written has a hidden name."""
        return sorted(self.run.videos_dir.glob("[!.]*.mp4"))


def points_of(rows: Rows, metric: str, clock: str = STEP) -> Points:
    """Over steps, an evaluation in the background stands at the step of the agent that it scored; over seconds, at the
    time of its result, since nobody knew it earlier."""

    def at(row: Mapping[str, float]) -> float:
        if clock == "time/elapsed" or not row.get(STEP):
            return row[clock]
        return row[clock] * step_of(row, metric) / row[STEP]  # the other clocks run with the steps

    return [(at(row), row[metric]) for row in rows if metric in row and clock in row]
