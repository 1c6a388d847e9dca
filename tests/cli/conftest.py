"""The command as a user runs it: another process, its exit code, what it prints and what it leaves on the disk."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import unicodedata
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.warm import ROOT, warm

# For what a command starts: a library that takes all cores is slow beyond patience where other tests run next to it
ONE_THREAD = {"OMP_NUM_THREADS": "1"}
LARGEST_ANSWER = 200_000  # characters

# As little training as makes a whole run: 4 rollouts of 8 envs x 32 steps = 1,024 env steps
# rollouts of 256 steps, whatever the preset
TINY = (
    "--steps",
    "1024",
    "--set",
    "env.n_envs=8",
    "--set",
    "algo.n_steps=32",
    "--set",
    "eval.episodes=2",
    "--set",
    "stop.episodes=4",
)

# Makes packages look as if they were not installed: no finder knows them, so neither import nor find_spec does
BLOCKER = """
import importlib.machinery, os
blocked = set(os.environ["BLOCKED_PACKAGES"].split(","))
original = importlib.machinery.PathFinder.find_spec
def find_spec(name, path=None, target=None):
    return None if name.partition(".")[0] in blocked else original(name, path, target)
importlib.machinery.PathFinder.find_spec = staticmethod(find_spec)
"""

# Runs the command in this process, then says which packages that has imported
REPORTER = """
import json, sys
from gymnast.cli import main
sys.argv = ["gymnast", *sys.argv[1:]]
try:
    main()
except SystemExit as end:
    sys.stderr.write(json.dumps([end.code, sorted({name.partition(".")[0] for name in sys.modules})]))
"""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Each of these starts several processes, one after the other."""
    for item in items:
        if item.path.parent == Path(__file__).parent:
            item.add_marker(pytest.mark.timeout(300))


@dataclass(frozen=True)
class Outcome:
    code: int
    out: str
    err: str

    @property
    def json(self) -> dict[str, Any]:
        """The last line of standard output, by JSON's own grammar: no NaN."""

        def refuse(word: str) -> None:
            raise AssertionError(f"{word} is not JSON")

        data = json.loads(self.out.splitlines()[-1], parse_constant=refuse)
        assert isinstance(data, dict)
        return data


Command = Callable[..., Outcome]


def environment(**extra: str) -> dict[str, str]:
    clean = {key: value for key, value in os.environ.items() if key not in ("GYMNAST_RUNS", "COLUMNS", "FORCE_COLOR")}
    return {**clean, **extra}


def run_command(*args: str | Path, **extra: str) -> Outcome:
    """With variables of its own a process starts from nothing: some are read by Python itself, or by an import."""
    if extra and extra != ONE_THREAD:
        command = [sys.executable, "-m", "gymnast", *map(str, args)]
        ended = subprocess.run(command, cwd=ROOT, env=environment(**extra), capture_output=True, text=True, check=False)
    else:
        ended = warm.run(args, environment(**extra))
    return Outcome(ended.returncode, ended.stdout, ended.stderr)


@pytest.fixture(scope="session")
def gymnast() -> Command:
    """gymnast("runs", "list", ...) -> Outcome."""
    return run_command


@pytest.fixture(scope="session")
def without(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Command]:
    """without("Box2D") -> a command on a machine where that package is not installed."""
    folder = tmp_path_factory.mktemp("blocker")
    (folder / "sitecustomize.py").write_text(BLOCKER)

    def on_a_machine_without(*packages: str) -> Command:
        path = os.pathsep.join(filter(None, (str(folder), os.environ.get("PYTHONPATH"))))
        return lambda *args: run_command(*args, PYTHONPATH=path, BLOCKED_PACKAGES=",".join(packages))

    return on_a_machine_without


@pytest.fixture(scope="session")
def packages_of() -> Callable[..., set[str]]:
    """packages_of("runs", "list") -> the top-level packages that this command imports."""

    def imported(*args: str | Path) -> set[str]:
        command = [sys.executable, "-c", REPORTER, *map(str, args)]
        process = subprocess.run(command, cwd=ROOT, env=environment(), capture_output=True, text=True, check=False)
        code, packages = json.loads(process.stderr.splitlines()[-1])
        assert code == 0, process.stderr
        return set(packages)

    return imported


@pytest.fixture
def call(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Command:
    """The command in this process: hundreds of calls in seconds. A traceback fails the test by itself."""

    def run(*args: str | Path) -> Outcome:
        from gymnast.cli import main

        monkeypatch.setattr(sys, "argv", ["gymnast", *map(str, args)])
        with pytest.raises(SystemExit) as end:
            main()
        return Outcome(int(end.value.code or 0), *capfd.readouterr())

    return run


def assert_answered(outcome: Outcome, case: str, lines: int = 1, code: int | None = None) -> None:
    """Done, or a line that says why not; never endless, never with what a terminal would obey."""
    assert outcome.code in ((0, 2) if code is None else (code,)), f"{case}: {outcome}"
    if outcome.code == 2:
        assert outcome.err.startswith("gymnast: "), f"{case}: {outcome.err[:500]}"
        assert len(outcome.err.splitlines()) == lines, f"{case}: {outcome.err[:500]}"
    text = outcome.out + outcome.err
    assert len(text) < LARGEST_ANSWER, f"{case}: {len(text)} characters"
    escapes = {c for c in text if unicodedata.category(c) in ("Cc", "Cs", "Cf") and c != "\n"}
    assert not escapes, f"{case}: {escapes}"


@dataclass(frozen=True)
class Trained:
    """A folder with two runs: `first`, done after 1,024 steps, and `second`, which goes on from it to 1,536."""

    runs_dir: Path
    first: Outcome
    second: Outcome

    @property
    def path(self) -> Path:
        return self.runs_dir / self.first.json["run"]


@pytest.fixture(scope="session")
def trained(gymnast: Command, tmp_path_factory: pytest.TempPathFactory) -> Trained:
    """For looking at only: every test of a session shares it."""
    runs_dir = tmp_path_factory.mktemp("trained") / "runs"
    kept = ("--set", "train.checkpoint_every=512", "--quiet", "--json")
    first = gymnast("train", "CartPole-v1", *TINY, "--seed", "1", *kept, "--runs-dir", runs_dir)
    assert first.code == 0, first.err
    longer = ("--steps", "1536", "--set", "algo.gamma=0.9", "--json")
    second = gymnast("resume", "@last", *longer, "--runs-dir", runs_dir)
    assert second.code == 0, second.err
    return Trained(runs_dir, first, second)
