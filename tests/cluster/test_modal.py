"""The Modal launcher against Modal's own types: the function by `.local()`, the client by a double that checks every
call's arguments. What needs Modal's servers is not run here: see docs/scale.md."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

modal = pytest.importorskip("modal")

from gymnast.core.errors import UserError  # noqa: E402
from gymnast.core.files import write_json  # noqa: E402
from gymnast.jobs.launchers import modal_app, open_launcher  # noqa: E402
from gymnast.jobs.launchers.modal import ModalKept, ModalLauncher  # noqa: E402
from gymnast.jobs.mirror import Known, apply  # noqa: E402
from gymnast.jobs.pool import ENDS  # noqa: E402
from gymnast.jobs.worker import Event, Job, Resources  # noqa: E402
from gymnast.runs.folder import Run  # noqa: E402
from gymnast.verbs.remote.follow import PRICE, Follower  # noqa: E402
from tests.cluster.modal_double import DoubleCall, DoubleModal, DoubleVolume  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore:.*executing locally")


@pytest.fixture
def double(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> DoubleModal:
    volume = DoubleVolume(tmp_path / "container", tmp_path / "volume")
    found = DoubleModal(volume, modal_app.run_job)
    monkeypatch.setenv("MODAL_TOKEN_ID", "ak-1")
    monkeypatch.setenv("MODAL_TOKEN_SECRET", "as-1")
    monkeypatch.setattr(modal_app, "volume", volume)
    monkeypatch.setattr(modal_app, "MOUNT", str(volume.work))
    monkeypatch.setattr(modal_app, "COMMIT_SECONDS", 0.1)
    monkeypatch.setattr("gymnast.jobs.launchers.modal.LOOK_SECONDS", 0.05)
    monkeypatch.setattr(modal_app.app, "deploy", found.deploy)
    monkeypatch.setattr(modal.Function, "from_name", found.from_name)
    monkeypatch.setattr(modal.Volume, "from_name", found.volume_from_name)
    monkeypatch.setattr(modal.FunctionCall, "from_id", found.call_from_id)
    return found


def count(folder: Path, until: int, cores: int = 1) -> Job:
    arguments = {"until": until}
    return Job("tests.jobs_for_tests:count", arguments, packages=("tests",), cores=cores, folder=folder)


def rows_of(folder: Path) -> list[int]:
    return [int(line) for line in (folder / "rows.jsonl").read_text().splitlines()]


def test_a_spawned_job_is_found_again_by_another_process(double: DoubleModal, tmp_path: Path) -> None:
    launcher = ModalLauncher()
    launcher.submit("k7f3q-count", count(tmp_path / "k7f3q-count", until=60, cores=3))
    assert double.deployed
    assert double.options == [{"cpu": 3.0}]  # the cores that the job uses
    kept = launcher.find("k7f3q-count")  # by the id of the call, which is on the volume
    assert kept is not None
    known: Known = {}
    events: list[Event] = []
    while not (events and events[-1].kind in ENDS):
        new, changed = kept.news(known, len(events))
        events += new
        apply(tmp_path / "here", changed, known)
    assert events[-1].kind == "result"
    assert events[-1].data["from"] == 0
    assert events[-1].data["core_seconds"] > 3 * 60 * 0.02  # three cores, sixty numbers of 20 ms
    assert rows_of(tmp_path / "here") == list(range(60))
    assert double.volume.commits > 1  # visible while it ran
    kept.forget()
    assert launcher.find("k7f3q-count") is None


def test_a_second_call_of_a_run_takes_nothing_from_the_first(double: DoubleModal, tmp_path: Path) -> None:
    for place in (double.volume.work, double.volume.seen):  # one that was stopped and never forgotten
        (place / "k7f3q-count").mkdir()
        (place / "k7f3q-count" / "stop").write_text("stop")
        (place / "k7f3q-count" / "events.jsonl").write_text('["result", {"from": 7}]\n')
    kept = ModalLauncher().submit("k7f3q-count", count(tmp_path / "k7f3q-count", until=3))
    events: list[Event] = []
    while not (events and events[-1].kind in ENDS):
        events += kept.news({}, len(events))[0]
    assert (events[-1].kind, events[-1].data["from"]) == ("result", 0)


def test_a_preempted_job_goes_on_from_what_was_committed(double: DoubleModal, tmp_path: Path) -> None:
    """Modal calls the function again with the same arguments. The first container has left 25 numbers on the volume."""
    arguments: dict[str, Any] = {
        "name": "x",
        "work": "tests.jobs_for_tests:count",
        "arguments": {"until": 25},
        "packages": ["tests"],
        "cores": 1,
        "folder": "x",
    }
    modal_app.run_job.local(**arguments)
    modal_app.run_job.local(**{**arguments, "arguments": {"until": 40}})
    events = (double.volume.seen / "x" / "events.jsonl").read_text().splitlines()
    assert '"from": 25' in events[-1]
    assert rows_of(double.volume.seen / "x" / "files") == list(range(40))


def test_files_of_another_moment_than_the_index_are_read_the_next_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A commit of several files is not one moment, and another one may come between two reads."""
    volume = DoubleVolume(tmp_path / "container", tmp_path / "volume")
    monkeypatch.setattr("gymnast.jobs.launchers.modal.LOOK_SECONDS", 0.0)
    kept = ModalKept("x", DoubleCall("fc-0", lambda: None), volume)  # type: ignore[arg-type]
    here, known = tmp_path / "here", Known()
    kept_events = volume.seen / "x" / "events.jsonl"

    def look(complete: bool, index: dict[str, list[int]], **files: bytes) -> dict[str, bytes]:
        for name, data in files.items():
            path = volume.seen / "x" / "files" / name.replace("_", ".")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
        write_json(volume.seen / "x" / "index.json", {"files": index})
        kept_events.write_text('["result", {}]\n')
        events, changed = kept.news(known, 0)
        assert bool(events) == complete  # with the end whoever follows forgets the volume
        apply(here, changed, known)
        return {path.name: path.read_bytes() for path in here.iterdir()}

    old = {"a.json": [1, 1, 3], "b.jsonl": [2, 1, 6]}
    whole = {"a.json": b"old", "b.jsonl": b"1\n2\n3\n"}
    # one is not there yet, one has rows that the index does not know
    assert look(False, {**old, "late.json": [3, 1, 4]}, a_json=b"old", b_jsonl=b"1\n2\n3\n4\n") == whole
    assert set(known) == set(whole)
    # the index is older than a file that was replaced
    assert look(False, {**old, "a.json": [4, 2, 4]}, a_json=b"newer") == whole
    assert look(True, {**old, "a.json": [5, 3, 5]})["a.json"] == b"newer"
    # rows that were cut off in place
    assert look(True, {"b.jsonl": [2, 4, 2]}, b_jsonl=b"9\n") == {"b.jsonl": b"9\n"}
    # an index that cannot be read is not an empty one
    (volume.seen / "x" / "index.json").unlink()
    assert kept._changes(known) == ([], False)


def test_a_run_of_a_pool(double: DoubleModal, tmp_path: Path) -> None:
    run = open_launcher("modal").run(count(tmp_path / "counted", until=5))
    *others, last = run
    assert last.kind == "result"
    assert [event.data["number"] for event in others if event.kind == "event"] == [1, 2, 3, 4, 5]
    assert rows_of(tmp_path / "counted") == list(range(5))


def test_a_job_that_fails_says_why(double: DoubleModal) -> None:
    *_, last = open_launcher("modal").run(Job("tests.jobs_for_tests:fail", {"how": "other"}, packages=("tests",)))
    assert last.kind == "error"
    assert last.data["why"] == "ConnectionError: the server is down"


def ended(double: DoubleModal, error: Exception, tmp_path: Path) -> Event:
    """The last event of a call that ended with this error and without a word."""

    def fail() -> None:
        raise error

    kept = ModalKept("x", DoubleCall("fc-0", fail), double.volume)  # type: ignore[arg-type]
    while not (events := kept.news({}, 0)[0]):
        pass
    return events[-1]


def test_a_function_that_fails_ends_the_run_with_its_own_error(double: DoubleModal, tmp_path: Path) -> None:
    """Modal raises the function's exception here, of whatever type it is."""
    full = OSError(28, "No space left on device")
    for error, why in (
        (full, f"Modal: OSError: {full}"),
        (TimeoutError("the server\nis slow"), "Modal: TimeoutError: the server"),
        (KeyError(), "Modal: KeyError"),
        (modal.exception.FunctionTimeoutError("Task's current input hit its timeout"), "Modal: Task's current input"),
    ):
        event = ended(double, error, tmp_path)
        assert event.kind == "error"
        assert event.data["why"].startswith(why)
    with pytest.raises(UserError, match=r"^--on modal: no way$"):  # the call may go on
        ended(double, modal.exception.ConnectionError("no way"), tmp_path)


def test_many_jobs_are_one_deploy_and_each_has_what_it_reserves(double: DoubleModal, tmp_path: Path) -> None:
    from modal._utils.function_utils import parse_gpu_config

    launcher = ModalLauncher()
    asked = [Resources(), Resources(gpu=0.5, memory=3 * 2**29), Resources(gpu=1, labels={"gpu": "A100-80GB"})]
    for number, resources in enumerate(asked):
        arguments = {"number": number}
        launcher.submit(
            f"x{number}", Job("tests.jobs_for_tests:double", arguments, resources=resources, packages=("tests",))
        )
    assert len(double.deployed) == 1
    assert double.options == [
        {"cpu": 1.0},
        {"cpu": 1.0, "memory": 1536, "gpu": "T4"},
        {"cpu": 1.0, "gpu": "A100-80GB"},
    ]
    assert parse_gpu_config("A100-80GB").gpu_type == "A100-80GB"
    other = Job("tests.jobs_for_tests:double", {}, packages=("tests",), resources=Resources(labels={"room": "4"}))
    with pytest.raises(UserError, match=r"^train\.resources\.labels\.room: Modal has no such label"):
        launcher.submit("y", other)


def test_a_container_has_the_modules_that_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    assert modal_app.sources() == ["gymnast"]
    monkeypatch.setenv(modal_app.SOURCES, "my_envs, more")
    assert modal_app.sources() == ["gymnast", "my_envs", "more"]


def test_cost_is_core_seconds_times_the_price(
    double: DoubleModal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One core-hour at 0.5 costs 0.5; half of it a quarter."""
    monkeypatch.setenv(PRICE, "0.5")

    class Ended:
        def news(self, known: Known, heard: int) -> Any:
            from gymnast.jobs.mirror import Change

            data = b'{"status": "finished", "summary": {"score": 1.0}, "env": "CartPole-v1"}'
            return [Event("result", {"core_seconds": 1800.0})], [Change("run.json", (1, 1, len(data)), 0, data)]

    Follower(Ended(), tmp_path / "k7f3q-x", {"on": "modal"}).update()  # type: ignore[arg-type]
    info = Run(tmp_path / "k7f3q-x").read()
    assert info.summary == {"score": 1.0, "core_seconds": 1800.0, "cost": 0.25}
    assert (info.status, info.on) == ("finished", "modal")


def test_without_a_token_it_is_one_line(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("MODAL_CONFIG_PATH", str(tmp_path / "none.toml"))
    for name in ("MODAL_TOKEN_ID", "MODAL_TOKEN_SECRET"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(UserError, match=r"^--on modal: Modal has no token on this machine\. Run: modal token new$"):
        open_launcher("modal")


def test_a_container_has_the_packages_that_are_here() -> None:
    found = modal_app.requirements()
    assert any(name.startswith("torch==") for name in found)
    assert all("==" in name and "+" not in name for name in found)
