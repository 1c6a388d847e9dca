"""Jobs on a Ray cluster: the same answers as on this machine, cores reserved, files brought back, nodes that die."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from gymnast.core.errors import UserError
from gymnast.jobs.launchers import open_launcher
from gymnast.jobs.launchers.ray import RayLauncher
from gymnast.jobs.mirror import Change, Known, apply
from gymnast.jobs.pool import ENDS, run_all
from gymnast.jobs.worker import Event, Job
from tests.cluster.conftest import kill_node
from tests.processes import wait_for

pytestmark = pytest.mark.timeout(600)


def job(work: str, folder: Path | None = None, cores: int = 1, **arguments: Any) -> Job:
    return Job(f"tests.jobs_for_tests:{work}", arguments, packages=("tests",), cores=cores, folder=folder)


@pytest.fixture(scope="module")
def launcher(cluster: Any) -> RayLauncher:
    found = open_launcher(cluster.address)
    assert isinstance(found, RayLauncher)
    return found


def rows_of(folder: Path) -> list[int]:
    return [int(line) for line in (folder / "rows.jsonl").read_text().splitlines()]


def files_of(number: int) -> list[Change]:
    """A job that has counted so far."""
    rows = "".join(f"{one}\n" for one in range(number))
    checkpoint = json.dumps({"number": number})
    files = {"rows.jsonl": rows.encode(), "checkpoints/last.json": checkpoint.encode()}
    return [Change(path, (0, 0, 0), 0, data) for path, data in files.items()]


def test_answers_are_those_of_a_worker_here(launcher: RayLauncher) -> None:
    """Each of the two nodes has one core, so that two jobs at once run on two nodes."""
    assert launcher.room(cores=1) == 2
    assert launcher.most_cores == 1
    jobs = {number: job("double", number=number) for number in (1, 2)}
    found = list(run_all(list(jobs), 2, lambda number: launcher.run(jobs[number])))
    ends = {number: event for number, event in found if event.kind in ENDS}
    assert ends == {number: Event("result", {"double": 2 * number}) for number in jobs}
    assert len({event.data["node"] for _, event in found if event.kind == "placed"}) == 2


def test_an_error_is_one_line_and_not_tried_again(launcher: RayLauncher) -> None:
    placed, end = launcher.run(job("fail", how="other"))
    assert placed.kind == "placed"
    assert end == Event("error", {"why": "ConnectionError: the server is down"})


def test_a_node_that_dies_loses_nothing_but_time(launcher: RayLauncher, cluster: Any, tmp_path: Path) -> None:
    """300 numbers of 20 ms each: the node is killed in the middle, at number 50."""
    folder = tmp_path / "counted"
    placed: list[str] = []
    last = None
    for event in launcher.run(job("count", folder, until=300)):
        if event.kind == "placed":
            placed.append(event.data["node"])
        elif event.kind == "event" and event.data["number"] == 50:
            assert rows_of(folder)[:50] == list(range(50))  # they are here while it works
            kill_node(cluster, placed[0])
        last = event
    assert last is not None
    assert last.kind == "result"
    assert last.data["from"] >= 50  # from what was here when the node died
    assert len(placed) == 2
    assert placed[0] != placed[1]
    assert rows_of(folder) == list(range(300))


def test_a_process_that_is_killed_is_started_again_from_its_checkpoint(launcher: RayLauncher, tmp_path: Path) -> None:
    """After every 12 of 60 numbers: more often than it may be without a new checkpoint between."""
    folder = tmp_path / "counted"
    *events, last = launcher.run(job("count", folder, until=60, lives=12))
    assert last == Event("result", {"from": 60})
    assert [event.data["number"] for event in events if event.kind == "event"] == list(range(1, 61))
    assert rows_of(folder) == list(range(60))
    first, *again = [event.data for event in events if event.kind == "placed"]
    assert "why" not in first
    assert [place["why"] for place in again] == 5 * ["its process was killed by signal 9 (SIGKILL)"]


def test_a_process_that_is_killed_without_progress_is_given_up(launcher: RayLauncher) -> None:
    *events, last = launcher.run(job("fail", how="kill"))
    assert [event.kind for event in events] == 4 * ["placed"]  # once, and three times again
    why = "its process was killed by signal 9 (SIGKILL), 4 times one after the other without a new checkpoint"
    assert last == Event("error", {"why": why})


@pytest.mark.slow
def test_a_large_answer_is_lost_with_its_node(launcher: RayLauncher, cluster: Any) -> None:
    """It stays in the node's object store until it is fetched; the next node is asked, and nothing crashes."""
    import ray

    class Large:
        def node(self) -> str:
            return str(ray.get_runtime_context().get_node_id())

        def news(self) -> bytes:
            return bytes(300_000)

    actor: Any = ray.remote(num_cpus=1)(Large).remote()
    node = ray.get(actor.node.remote())
    call = actor.news.remote()
    ray.wait([call], fetch_local=False)
    kill_node(cluster, node[:6])
    with pytest.raises(ray.exceptions.RayActorError):
        launcher._head.answer(call)


def test_a_new_submit_is_not_fooled_by_files_of_an_old_one(
    launcher: RayLauncher, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The head died, and its disk still has what the run was then. Here it has got further since."""
    import ray

    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    folder = tmp_path / "counted"
    for number in (5, 10):
        apply(folder, files_of(number), {})
        kept = launcher.submit("counted", job("count", folder, until=number))
        _, changed = kept.news({}, 0)
        assert {change.path: change.data for change in changed}["checkpoints/last.json"] == files_of(number)[-1].data
        ray.kill(kept._keeper)
        wait_for(lambda: launcher.find("counted") is None, "end of the keeper")
    assert len(list(tmp_path.glob("gymnast-kept-counted-*"))) == 2


def test_a_detached_job_is_found_again_stopped_and_forgotten(launcher: RayLauncher, tmp_path: Path) -> None:
    """Nobody follows it at first. Another process would find it as `find` does here: by its name."""
    launcher.submit("counting", job("count", tmp_path / "elsewhere", until=100))
    with pytest.raises(UserError, match="counting is being trained on this cluster already"):
        launcher.submit("counting", job("count", tmp_path / "elsewhere", until=100))
    kept = launcher.find("counting")
    assert kept is not None
    known: Known = {}
    events: list[Event] = []
    while not (events and events[-1].kind in ENDS):
        new, changed = kept.news(known, len(events))
        events += new
        apply(tmp_path / "here", changed, known)
    assert events[-1] == Event("result", {"from": 0})
    assert rows_of(tmp_path / "here") == list(range(100))  # the last event came with the last files
    assert not (tmp_path / "elsewhere").exists()
    kept.forget()
    assert launcher.find("counting") is None
