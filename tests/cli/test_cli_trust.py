"""Nothing from a file runs: code that a run of somebody else brings or names is imported by no command unasked."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from tests.cli.conftest import Outcome, Trained, assert_answered, environment
from tests.hostile import name_code, zip_folder
from tests.warm import warm

MARK = "from pathlib import Path\nPath({path!r}).write_text('it ran')\n"
WRAPPER = "import gymnasium\nclass Wrapper(gymnasium.Wrapper):\n    pass\n"


class Place:
    """A working directory with the default folder of runs, and code that says so when it is imported."""

    def __init__(self, folder: Path, trained: Trained) -> None:
        self.folder, self.trained, self.marker = folder, trained, folder / "marker"
        self.code = MARK.format(path=str(self.marker)) + WRAPPER

    def stranger(self, env_id: str, wrapper: str | None = None) -> Path:
        """A copy of a run, not yet among the runs, that names code."""
        run = self.folder / "stranger"
        shutil.copytree(self.trained.path, run)
        name_code(run, env_id, wrapper)
        return run

    def run(self, *words: str | Path) -> Outcome:
        ended = warm.run(words, environment(), self.folder)
        return Outcome(ended.returncode, ended.stdout, ended.stderr)

    def commands(self, ref: str) -> list[list[str]]:
        """All that would make an env, or check a config."""
        config = f"runs/{ref}/config.yaml"
        return [
            ["eval", ref, "--episodes", "1"],
            ["video", ref],
            ["resume", ref, "--steps", "1600"],
            ["config", "check", config],
            ["config", "show", config],
            ["train", config, "--steps", "256"],
            ["autotune", ref],
            ["sweep", "--from", ref],
        ]


@pytest.fixture
def place(tmp_path: Path, trained: Trained) -> Place:
    return Place(tmp_path, trained)


def test_a_zip_does_not_bring_its_own_code(place: Place) -> None:
    """The env id names a module inside of the zip, and the folder's name is one that Python could import."""
    run = place.stranger("runs.evil7.evil:CartPole-v1")
    (run / "evil.py").write_text(place.code)
    (run / "__init__.py").write_text(place.code)
    imported = place.run("runs", "import", zip_folder(run, place.folder / "evil.zip", "evil7"), "--json")
    assert imported.code == 0, imported.err
    assert imported.json["named"] == "evil7"
    assert imported.json["skipped"] == ["__init__.py", "evil.py"]
    assert imported.out.splitlines()[:1] != [""]
    ref = imported.json["run"]
    assert ref == place.trained.path.name  # what its run.json says, since that is an id
    assert not list((place.folder / "runs").rglob("*.py"))
    for words in place.commands(ref):
        answer = place.run(*words)
        assert_answered(answer, str(words), code=2)
        assert f"run {ref} needs code that is no part of Gymnast, 'runs.evil7.evil:CartPole-v1'" in answer.err
        assert "it was imported" in answer.err
        assert "with --trust" in answer.err
    for words in (["runs", "list"], ["runs", "show", ref], ["report", ref], ["runs", "compare", "@all"]):
        assert place.run(*words).code == 0, words
    assert not place.marker.exists()


def test_code_in_a_runs_folder_is_never_imported(place: Place) -> None:
    """A folder that was copied, not imported, and claims to be of this machine; not even with --trust."""
    run = place.stranger("runs.evil7.evil:CartPole-v1")
    (run / "evil.py").write_text(place.code)
    (place.folder / "runs").mkdir()
    run.rename(place.folder / "runs" / "evil7")
    (place.folder / "runs" / "loose.py").write_text(place.code)
    for words in place.commands("evil7")[:-1]:  # a sweep says it of every config
        answer = place.run(*words, "--trust")
        last = answer.err.splitlines()[-1]  # a tuning says first what it begins
        assert answer.code == 2, answer.err
        assert f"the code of 'runs.evil7.evil' lies in {place.folder / 'runs'}" in last, answer.err
    for module in ("runs.evil7.evil", "runs.loose"):
        answer = place.run("train", f"{module}:CartPole-v1", "--steps", "256")
        assert_answered(answer, module, code=2)
        assert "code from there is never imported" in answer.err
    assert not place.marker.exists()


@pytest.mark.parametrize("by", ["id", "wrapper"])
def test_an_imported_run_names_code_that_is_here(place: Place, by: str) -> None:
    """A module of the user's own, which the run may use if the user says so."""
    (place.folder / "mine.py").write_text(place.code)
    run = place.stranger("mine:CartPole-v1" if by == "id" else "CartPole-v1", None if by == "id" else "mine:Wrapper")
    ref = place.run("runs", "import", zip_folder(run, place.folder / "x.zip", run.name), "--json").json["run"]
    named = "mine:CartPole-v1" if by == "id" else "mine:Wrapper"
    for words in place.commands(ref)[:4]:
        answer = place.run(*words)
        assert_answered(answer, str(words), code=2)
        assert repr(named) in answer.err
    for words in (["runs", "list"], ["runs", "show", ref], ["report", ref], ["report", ref, "--html"]):
        assert place.run(*words).code == 0, words
    assert not place.marker.exists()
    assert "its settings are not checked" in place.run("runs", "show", ref).out
    trusted = place.run("eval", ref, "--episodes", "1", "--trust")
    assert (trusted.code, place.marker.exists()) == (0, True), trusted.err


def test_a_run_that_was_made_here_needs_no_word(place: Place) -> None:
    (place.folder / "mine.py").write_text(place.code)
    run = place.stranger("mine:CartPole-v1")
    (place.folder / "runs").mkdir()
    run.rename(place.folder / "runs" / "own")
    about = place.folder / "runs" / "own" / "run.json"
    data = json.loads(about.read_text())
    assert data["made_on"]
    about.write_text(json.dumps({**data, "made_on": "another machine"}))
    answer = place.run("eval", "own", "--episodes", "1")
    assert_answered(answer, "of another machine", code=2)
    assert "it was made on another machine" in answer.err
    assert not place.marker.exists()
    about.write_text(json.dumps(data))
    assert place.run("eval", "own", "--episodes", "1").code == 0
    assert place.marker.exists()
