"""A run's folder, and the registry of runs.

    runs/k7f3q-cartpole-v1-ppo-s1/
      run.json        what and how it goes: env, variant, algo, seed, status, pid, host, versions, command, summary
      config.yaml     the resolved config; never changes
      metrics.jsonl   one row a line: the truth every chart and tracker mirrors
      alerts.json     what its rows say is wrong, most urgent first (alerts/)
      diagnostics.jsonl   histograms, observations, actions and layers, now and then (training/diagnostics.py)
      checkpoints/    best, last, step_N, stage_NAME (a stage's end): NAME.safetensors, NAME.json with the metrics of
                      exactly that moment, and (not of last) NAME.csv with some of the steps before it
      videos/         videos: best, step_N, what `gymnast video` made; NAME.mp4, and NAME.json with what it shows
      report.md       all of it on a page, made when training ends; report.html when `gymnast report --html` was asked
      log.txt         notices and warnings with their time
      lock            held by the process that trains
      stopping        it was asked to stop and has not ended yet
      heartbeat.json  what it does at this moment, every second while it is trained (heartbeat.py)

The set of folders IS the registry: there is no second file that could disagree with them or be corrupted by parallel
runs. A folder is built under a hidden name and renamed, so it appears whole or not at all.
"""

from __future__ import annotations

import math
import os
import re
import secrets
import shutil
import socket
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, fields, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, NotRequired

from pydantic import AfterValidator, Field, TypeAdapter
from typing_extensions import TypedDict

from gymnast.core.errors import UserError
from gymnast.core.files import open_to_append, read_json, sync_folder, write_json
from gymnast.core.text import printable
from gymnast.core.trust import is_own, made_on
from gymnast.core.typed import Count, Number, read_typed, typed
from gymnast.runs.lock import RunLock, one_writer

FIRST = "bcdfghjkmnpqrtvwxyz"  # no vowels: a token is never a word; no l, o, s: they look like 1, 0, 5
LETTERS = FIRST + "2346789"  # a token starts with a letter, so it is never a number
TOKEN_LENGTH = 5
RUN_ID = re.compile(rf"[{FIRST}][{LETTERS}]{{{TOKEN_LENGTH - 1}}}-[a-z0-9]+(-[a-z0-9]+)*-s[0-9]{{1,20}}")
STAGE = ".new-"  # how the folder of a run that is not complete yet begins
CHECKPOINT_SUFFIX = ".safetensors"
EMBEDDED = "ray"  # `on` of a run on a Ray cluster that its own follower has started on this machine
ENDINGS = ("finished", "interrupted", "crashed")

Interval = Annotated[list[Number], Field(min_length=2, max_length=2)]


class _Stage(TypedDict):
    """What came of a stage of a curriculum."""

    stage: str
    began: Count
    steps: Count
    score_at_end: Number | None
    score: Number | None
    forgetting: Number | None


class Tested(TypedDict):
    """What a verdict's test came to."""

    goal: Number
    shown: bool
    mean: Number
    episodes: Count
    lowest_return: Number
    lowest_return_known: bool
    unseen_failure_rate: Number


class TaskSummary(TypedDict):
    """How one of several tasks ended, in its env's own reward."""

    score: Number | None
    interval: Interval | None
    episodes: Count
    threshold: Number
    solved: bool
    test: NotRequired[Tested | None]


IN_SUMMARY: dict[str, TypeAdapter[Any]] = {  # what is not a number or null
    **dict.fromkeys(("solved", "on_target", "exact_resume", "fresh"), TypeAdapter(bool | None)),
    **dict.fromkeys(("env_steps", "episodes", "distinct", "best_at", "last_at"), TypeAdapter(Count | None)),
    "test": TypeAdapter(Tested | None),
    "interval": TypeAdapter(Interval | None),
    "tasks": TypeAdapter(dict[str, TaskSummary]),
    **dict.fromkeys(("stop_reason", "engine", "evaluated_on"), TypeAdapter(str | None)),
    "stages": TypeAdapter(list[_Stage]),
}
NUMBER = TypeAdapter(Number | None)


def _summary(data: dict[str, Any]) -> dict[str, Any]:
    return {key: typed(IN_SUMMARY.get(key, NUMBER), value) for key, value in data.items()}


def default_runs_dir() -> Path:
    return Path(os.environ.get("GYMNAST_RUNS") or "runs")


@dataclass(frozen=True)
class RunInfo:
    """What run.json says, with the status as it really is: "running" without a process behind it is "killed"."""

    path: Path
    id: str
    status: str = "unknown"  # running, finished, interrupted, crashed, killed
    created: str = ""  # ISO 8601, UTC
    updated: str = ""
    env: str = ""
    variant: str | None = None
    parent: str | None = None  # "RUN/CHECKPOINT" this one was started from
    name: str | None = None  # as the user calls it
    tags: list[str] = field(default_factory=list)
    changed: dict[str, Any] | None = None  # settings that are not its preset's or file's; None: not recorded
    algo: str = ""
    seed: Count = 0
    pid: Annotated[int, Field(ge=0, lt=2**31)] = 0
    host: str = ""  # of its process
    made_on: str | None = None  # the machine where its folder was made; None: made by an earlier version
    imported: str | None = None  # when it was unpacked from a zip file, ISO 8601; None: it was not
    machine: str = ""  # its processor and how many cores
    on: str | None = None  # where it is (or was) trained, as --on says it; None: on this machine
    resumed_at: list[Count] = field(default_factory=list)  # env steps
    versions: dict[str, str] = field(default_factory=dict)
    command: list[str] = field(default_factory=list)
    summary: Annotated[dict[str, Any], AfterValidator(_summary)] = field(default_factory=dict)

    @property
    def token(self) -> str:
        """The shortest reference that stays unique."""
        return self.id.split("-")[0]

    @property
    def is_own(self) -> bool:
        """Whether it was made on this machine: the code that others name is not imported unasked."""
        return is_own(vars(self))

    @property
    def has_plain_score(self) -> bool:
        """Whether the score is a mean return in `env`: not relative to several tasks, nor of a curriculum's stage."""
        return not (self.summary.get("tasks") or self.summary.get("stages"))

    @property
    def score(self) -> float | None:
        """What `@best` compares, higher is better: how a run ended or, of a killed one, its best evaluation."""
        score = self.summary.get("score")
        if score is None and self.status == "killed":
            with suppress(UserError):  # no evaluation yet, or a file that cannot be read
                best = read_typed(self.path / "checkpoints" / "best.json", BEST)
                score = best["metrics"].get("eval/mean_reward")
        return score if score is not None and math.isfinite(score) else None


class _Best(TypedDict):
    metrics: dict[str, Number]


RUN, BEST = TypeAdapter(RunInfo), TypeAdapter(_Best)


class RunList(list[RunInfo]):
    """The runs of a folder, newest first; those whose run.json cannot be read apart, with a line for each."""

    def __init__(self, runs: Sequence[RunInfo], damaged: list[RunInfo], warnings: list[str]) -> None:
        super().__init__(runs)
        self.damaged, self.warnings = damaged, warnings


class Run:
    """One run's folder. Cheap to make; reads and writes its files when asked."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.config_path = path / "config.yaml"
        self.metrics_path = path / "metrics.jsonl"
        self.alerts_path = path / "alerts.json"
        self.diagnostics_path = path / "diagnostics.jsonl"
        self.report_path = path / "report.md"
        self.log_path = path / "log.txt"
        self.checkpoints_dir = path / "checkpoints"
        self.videos_dir = path / "videos"
        self.stopping_path = path / "stopping"
        self.heartbeat_path = path / "heartbeat.json"
        self._lock = RunLock(path / "lock")

    @classmethod
    def open(cls, path: str | Path) -> Run:
        path = Path(path)
        if not os.path.lexists(path / "run.json"):
            raise UserError(f"{path} is not a run: it has no run.json.")
        return cls(path)

    @property
    def id(self) -> str:
        """The folder's name, fit for a terminal."""
        return printable(self.path.resolve().name)

    def checkpoint_path(self, name: str) -> Path:
        """Of "best", "last" or "step_20000"."""
        return self.checkpoints_dir / f"{name}{CHECKPOINT_SUFFIX}"

    def checkpoints(self) -> list[Path]:
        """Those that are there: best, last, then by step."""
        return sorted(self.checkpoints_dir.glob(f"[!.]*{CHECKPOINT_SUFFIX}"), key=checkpoint_order)

    def read(self) -> RunInfo:
        """UserError where run.json cannot be read."""
        try:
            info = typed(RUN, {**self._read_json(), "path": self.path, "id": self.id})
        except ValueError as error:
            raise UserError(f"{self.path / 'run.json'}: {error}. The run's other files are untouched.") from None
        return replace(info, status="killed") if info.status == "running" and not self._has_process(info) else info

    def update(self, **changes: Any) -> None:
        """Writes fields of run.json; `summary` is merged into what is there, every other field is replaced."""
        self.edit(lambda info: changes)

    def edit(self, change: Callable[[RunInfo], dict[str, Any]]) -> None:
        """The same with fields that follow from what is there: nobody else changes them in between."""
        known = {field.name for field in fields(RunInfo)} - {"path", "id", "created", "made_on", "imported"}
        with one_writer(self.path):
            changes = change(self.read())
            unknown = sorted(changes.keys() - known)
            if unknown:
                raise TypeError(f"run.json has no field that can be changed named {', '.join(unknown)}")
            data = self._read_json()
            if "host" in changes and not data.get("made_on"):  # whoever goes on with a run has not made it
                data["made_on"] = data.get("host")
            if "summary" in changes:
                changes["summary"] = {**data.get("summary", {}), **changes["summary"]}
            write_json(self.path / "run.json", {**data, **changes, "updated": now()})

    def start(self, updated: str | None = None) -> None:
        """This process trains into the run from now on (again). Refused while another one does, and if another one did
        since `updated`, when the run's checkpoint was read."""
        if not self._lock.acquire():
            raise UserError(f"run {self.id} is being trained by another process; wait for it or stop it first.")
        if updated is not None and self.read().updated != updated:
            self._lock.release()
            raise UserError(f"run {self.id} was changed by another process in the meantime; resume it again.")
        for left in (self.stopping_path, self.heartbeat_path):  # of a process that was killed before it could stop
            left.unlink(missing_ok=True)
        self.update(status="running", pid=os.getpid(), host=socket.gethostname(), on=None)

    def hold(self) -> bool:
        """This process alone brings the files of a run that is trained elsewhere; False: another one does."""
        return self._lock.acquire()

    def let_go(self) -> None:
        """The other half of `hold`."""
        self._lock.release()

    @property
    def is_held(self) -> bool:
        """Whether a process trains it here, or brings its files."""
        return self._lock.held()

    def mark_stopping(self) -> None:
        """Its process was asked to end: `runs stop` sends no second signal, which would end it without a checkpoint."""
        with suppress(OSError):  # a full disk must not keep it from ending
            self.stopping_path.touch()

    def finish(self, status: str, summary: Mapping[str, Any] | None = None) -> None:
        """The end of training, in whatever way it came."""
        if status not in ENDINGS:
            raise ValueError(f"status {status!r} is none of {ENDINGS}")
        self.update(status=status, summary=dict(summary or {}))
        self.stopping_path.unlink(missing_ok=True)
        self.heartbeat_path.unlink(missing_ok=True)
        self._lock.release()

    def live(self) -> bool:
        """Whether a process trains into this run now. Of a run on another host only its own word is known."""
        try:
            return self.read().status == "running"
        except UserError:  # a damaged run is one all the same
            return self._lock.held()

    def log(self, text: str) -> None:
        with open_to_append(self.log_path) as file:
            file.write(f"{datetime.now(UTC):%Y-%m-%d %H:%M:%S} {text}\n".encode(errors="backslashreplace"))

    def _has_process(self, info: RunInfo) -> bool:
        if info.on == EMBEDDED:  # it ends with the process that follows it
            return self._lock.held()
        if info.on or info.host != socket.gethostname():
            return True  # of another machine only its own word is known
        # The pid alone may belong to a stranger by now, the lock alone to a worker that outlived its parent.
        return _pid_alive(info.pid) and self._lock.held()

    def _read_json(self) -> dict[str, Any]:
        data = read_json(self.path / "run.json")
        if not isinstance(data, dict):
            raise UserError(f"{self.path / 'run.json'} is not a JSON object; the run's other files are untouched.")
        return data


def run_id(token: str, env: str, algo: str, seed: int) -> str:
    return f"{token}-{_slug(env)}-{_slug(algo)}-s{seed}"


def create_run(
    runs_dir: str | Path,
    config_yaml: str,
    *,
    env: str,
    algo: str,
    seed: int,
    token: str | None = None,
    **facts: Any,
) -> Run:
    """A new folder, complete, with status "running" and its lock held by this process. `facts`: more for run.json.
    `token`: the beginning of its id, where it was chosen on another machine."""
    runs_dir = Path(runs_dir)
    try:
        runs_dir.mkdir(parents=True, exist_ok=True)
        stage = _reserve(runs_dir, token)
    except OSError as error:
        raise UserError(f"cannot create a run in {runs_dir}: {error.strerror}. Choose another --runs-dir.") from error
    run = Run(runs_dir / run_id(stage.name.removeprefix(STAGE), env, algo, seed))
    about = {"id": run.id, "status": "running", **dict.fromkeys(("created", "updated"), now())}
    asked = {"env": env, "algo": algo, "seed": seed}
    process = {"pid": os.getpid(), "host": socket.gethostname(), "made_on": made_on()}
    try:
        (stage / "checkpoints").mkdir(exist_ok=True)
        (stage / "config.yaml").write_text(config_yaml, encoding="utf-8")
        (stage / "log.txt").touch()
        write_json(stage / "run.json", {**about, **asked, **process, **facts, "summary": {}})
        run._lock.acquire(stage / "lock")  # before anyone can see it; the lock belongs to the file, not its name
        os.rename(stage, run.path)
    except BaseException as error:  # a full disk, Ctrl-C: nothing is left that no command shows
        run._lock.release()
        shutil.rmtree(stage, ignore_errors=True)
        if isinstance(error, OSError):
            raise UserError(f"cannot create a run in {runs_dir}: {error.strerror}.") from error
        raise
    sync_folder(runs_dir)
    return run


def list_runs(runs_dir: str | Path) -> RunList:
    """Newest first. A folder that cannot be read becomes a warning; nothing raises."""
    runs, damaged, warnings = [], [], []
    try:
        folders = sorted(Path(runs_dir).iterdir())
    except (OSError, ValueError):  # ValueError: no name of a folder
        folders = []
    for folder in folders:
        if folder.name.startswith(".") or not os.path.lexists(folder / "run.json"):
            continue
        try:
            runs.append(Run(folder).read())
        except UserError as error:
            damaged.append(RunInfo(folder, Run(folder).id, "damaged"))
            warnings.append(str(error))
    return RunList(sorted(runs, key=lambda run: (run.created, run.id), reverse=True), damaged, warnings)


def _reserve(runs_dir: Path, token: str | None) -> Path:
    """A hidden folder whose token no run has. Whoever makes it owns the token; a kill leaves it spent and unseen."""
    while True:
        stage = runs_dir / f"{STAGE}{token or new_token(runs_dir)}"
        try:
            stage.mkdir(exist_ok=token is not None)
            return stage
        except FileExistsError:
            continue


def new_token(runs_dir: Path, taken: Collection[str] = ()) -> str:
    """One that no run in the folder has, and none of those that are `taken`."""
    while True:
        token = secrets.choice(FIRST) + "".join(secrets.choice(LETTERS) for _ in range(TOKEN_LENGTH - 1))
        if token not in taken and not any(runs_dir.glob(f"{token}-*")):
            return token


def checkpoint_order(path: Path) -> tuple[int, int, str]:
    rank = {"best": 0, "last": 1}.get(path.stem, 2)
    step = path.stem.removeprefix("step_")
    return rank, int(step) if step.isdecimal() else 0, path.stem


def _slug(name: str) -> str:
    words = "".join(char if char.isascii() and char.isalnum() else " " for char in name.lower()).split()
    return "-".join(words)[:48].strip("-") or "env"


def now() -> str:
    """ISO 8601, UTC."""
    return datetime.now(UTC).isoformat(timespec="microseconds")


def _pid_alive(pid: int) -> bool:
    if pid <= 0:
        return False
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True  # somebody else's process, but a process
    return True
