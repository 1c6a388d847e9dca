"""A page follows a training: every point, in order, with the numbers of the file."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import sys
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

import pytest

from gymnast.report.run_facts import EVALUATION, RETURN
from gymnast.runs.references import Run
from gymnast.sinks.jsonl import JsonlSink, read_metrics
from gymnast.studio.app import make_app
from gymnast.studio.followed import FollowedRun, Tail
from gymnast.studio.library import Library
from gymnast.studio.live import Watcher
from gymnast.studio.session import Sessions
from gymnast.studio.socket import Client
from tests.processes import running, state_of, wait_for
from tests.runs.report_runs import Gallery
from tests.studio.conftest import ROOT, Studio, studio_of


def in_its_own_thread(work: Coroutine[Any, Any, None]) -> None:
    """Tests with a browser leave an event loop running in the main thread of their process."""
    with ThreadPoolExecutor(1) as pool:
        pool.submit(asyncio.run, work).result()


SMALL = (
    "env.n_envs=4",
    "algo.n_steps=64",
    "eval.every=2048",
    "log.every=256",
    "eval.episodes=2",
    "stop.on_solved=false",
    "stop.episodes=4",
)
KL = "train/approx_kl"


@pytest.fixture
def own_runs(gallery: Gallery, tmp_path: Path) -> Path:
    return Path(shutil.copytree(gallery.folder, tmp_path / "runs"))


def endless(runs_dir: Path) -> list[str]:
    words = [word for text in SMALL for word in ("--set", text)]
    command = [sys.executable, "-m", "gymnast", "train", "CartPole-v1", "--steps", str(10**9), *words]
    return [*command, "--quiet", "--runs-dir", str(runs_dir)]


def test_a_page_gets_every_point_of_a_training(tmp_path: Path) -> None:
    runs_dir = tmp_path / "runs"
    with studio_of(runs_dir) as studio, studio.window() as window:
        window.ask("watch_runs", revision=-1)
        with running(endless(runs_dir), cwd=ROOT) as process:
            (row,) = window.pushed("runs")["changed"]
            assert (row["status"], row["env"]) == ("running", "CartPole-v1")
            run = Run(runs_dir / row["id"])
            drawn = studio.get(f"/run/{run.id}/metrics", names=f"{KL},{RETURN}")
            window.ask("watch_run", run=run.id, names=[KL, RETURN], have=drawn["rows"])
            got = {name: list(zip(*(drawn["series"][name][key] for key in "xy"), strict=True)) for name in (KL, RETURN)}
            progress: list[float] = []
            status = "running"
            while status == "running":
                message = window.next(lambda message: message.get("type") in ("metrics", "run"))
                for name, more in message.get("series", {}).items():
                    got[name] += zip(more["x"], more["y"], strict=True)
                if message["type"] == "run":
                    progress.append(message["row"]["progress"])
                    status = message["row"]["status"]
                    if len(set(progress)) == 4 and not run.stopping_path.exists():
                        studio.post(f"/run/{run.id}/stop")
            process.wait(timeout=60)
        rows = read_metrics(run.metrics_path)
        for name in (KL, RETURN):
            assert got[name] == [(row["time/total_timesteps"], row[name]) for row in rows if name in row], name
        assert status == "interrupted"
        assert progress == sorted(progress)
        assert len(set(progress)) >= 4  # it moved


def test_a_page_hears_what_a_run_does_between_its_rows(tmp_path: Path) -> None:
    """And that nothing is heard of one: a process that is stopped writes no heartbeat."""
    runs_dir = tmp_path / "runs"
    never = ("--set", "log.every=1000000000", "--set", "eval.every=0", "--set", "log.diagnostics=0")
    with studio_of(runs_dir) as studio, studio.window() as window:
        with running([*endless(runs_dir), *never], cwd=ROOT) as process:
            run = Run(wait_for(lambda: list(runs_dir.glob("[!.]*")), "run", process)[0])
            window.ask("watch_run", run=run.id, names=[KL])

            def hears(fits: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
                message = window.next(lambda one: one.get("type") == "run" and fits(one["row"]))
                return cast("dict[str, Any]", message["row"])

            first = hears(lambda row: row["now"] is not None)
            assert first["now"]["phase"] in ("starting", "collecting", "learning", "saving")
            hears(lambda row: row["now"]["elapsed"] > first["now"]["elapsed"])
            assert len(read_metrics(run.metrics_path)) <= 1
            process.send_signal(signal.SIGSTOP)
            wait_for(lambda: state_of(process.pid) == "T", "process that is stopped", process)
            os.utime(run.heartbeat_path, (0, 0))
            assert hears(lambda row: row["now"]["late"] > 60)
            assert next(row for row in studio.get("/runs")["runs"])["now"]["late"] > 60
            process.send_signal(signal.SIGCONT)
            hears(lambda row: row["now"]["late"] == 0)
            process.send_signal(signal.SIGINT)
            process.wait(timeout=60)
        assert hears(lambda row: row["status"] == "interrupted")["now"] is None
        assert not run.heartbeat_path.exists()


def test_new_changed_and_deleted_runs_are_pushed_to_every_window(own_studio: Studio, gallery: Gallery) -> None:
    studio, ref = own_studio, gallery.lake.id
    with studio.window() as first, studio.window() as second:
        revision = studio.get("/runs")["revision"]
        for window in (first, second):
            window.ask("watch_runs", revision=revision)

        def heard(window: Any, run: str) -> dict[str, Any]:
            def fits(message: dict[str, Any]) -> bool:
                rows = [row["id"] for row in message.get("changed", ())]
                return run in [*rows, *message.get("removed", ())]

            return window.next(fits)  # type: ignore[no-any-return]

        for window in (first, second):
            heard(window, ref)  # its second half
        studio.post(f"/run/{ref}/tag", add=["seen"])
        studio.get("/runs")  # whoever asks in between takes nothing from the others
        for window in (first, second):
            (row,) = [row for row in heard(window, ref)["changed"] if row["id"] == ref]
            assert row["tags"] == ["seen"]
            assert row["spark"]  # what was shown stays
        shutil.copytree(studio.runs_dir / ref, studio.runs_dir / "copy-of-it")
        for window in (first, second):
            heard(window, "copy-of-it")
        studio.post(f"/run/{ref}/delete")
        for window in (first, second):
            assert ref in heard(window, ref)["removed"]


def test_a_run_that_is_gone_is_said(own_studio: Studio, gallery: Gallery) -> None:
    with own_studio.window() as window:
        window.ask("watch_run", run=gallery.lake.id, names=[RETURN])
        own_studio.post(f"/run/{gallery.lake.id}/delete")
        assert window.pushed("gone")["run"] == gallery.lake.id
        assert "error" in window.ask("watch_run", run="nosuchrun")
        assert "error" in window.ask("watch_run", run="../outside")
        assert "error" in window.ask("watch_run")
        assert "names: must be a list" in window.ask("watch_run", run=gallery.tuned[0].id, names=5)["error"]


def test_a_tail_reads_what_is_new(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    tail = Tail(path)
    assert tail.read() is False  # no file yet
    lines = [json.dumps({"time/total_timesteps": step, RETURN: float(step)}) + "\n" for step in (1, 2, 3)]
    path.write_text(lines[0] + lines[1][:9])
    assert tail.read() is True
    assert tail.read() is False  # half a line is none
    with path.open("a") as file:
        file.write(lines[1][9:] + "no row\n" + lines[2])
    assert tail.read() is True
    assert [row[RETURN] for row in tail.rows] == [1, 2, 3]
    assert tail.latest[RETURN] == 3
    JsonlSink.truncate(path, 1)  # as `resume` does
    assert tail.read() is True
    assert [row[RETURN] for row in tail.rows] == [1]
    assert (tail.latest[RETURN], tail.generation) == (1, 1)
    path.unlink()
    assert tail.read() is False


def test_what_has_not_changed_is_not_read_again(
    gallery: Gallery, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(gallery.folder, tmp_path / "runs", copy_function=shutil.copy2)
    library = Library(tmp_path / "runs")
    library.refresh()
    library.complete(1000)
    library.refresh()  # those that had changed within the last second
    reads: list[str] = []
    read = Run.read
    monkeypatch.setattr(Run, "read", lambda run: (reads.append(run.id), read(run))[1])
    monkeypatch.setattr("gymnast.studio.library.SETTLED", 0)
    library.refresh()
    reads.clear()
    library.refresh()
    assert reads == []
    (tmp_path / "runs" / gallery.lake.id / "report.md").unlink()
    library.refresh()
    assert set(reads) == {gallery.lake.id}


def test_a_run_that_is_damaged_during_a_look_does_not_end_it(own_runs: Path, gallery: Gallery) -> None:
    library = Library(own_runs)
    library.refresh()
    (own_runs / gallery.killed.id / "run.json").write_text("{")
    library.complete(1000)
    rows = {row["id"]: row for row in library.since(-1).rows}
    assert rows[gallery.lake.id]["spark"]  # that of another run was read


def test_a_folder_that_vanishes_during_a_look_takes_no_other_run_along(
    own_runs: Path, gallery: Gallery, monkeypatch: pytest.MonkeyPatch
) -> None:
    library = Library(own_runs)
    library.refresh()
    before = {row["id"] for row in library.since(-1).rows}
    scandir = os.scandir

    @contextmanager
    def late(path: Path) -> Iterator[list[os.DirEntry[str]]]:
        with scandir(path) as entries:
            found = list(entries)
        monkeypatch.undo()
        shutil.rmtree(own_runs / gallery.lake.id)
        yield found

    monkeypatch.setattr(os, "scandir", late)
    library.refresh()
    assert {row["id"] for row in library.since(-1).rows} == before - {gallery.lake.id}


def test_a_look_that_fails_is_not_the_last(
    own_runs: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    looks: list[int] = []

    def refresh(library: Library) -> None:
        looks.append(1)
        if len(looks) < 3:
            raise RuntimeError("a look failed")
        real(library)

    real = Library.refresh
    monkeypatch.setattr(Library, "refresh", refresh)
    monkeypatch.setattr("gymnast.studio.live.CALM", 0.01)
    pushed: list[dict[str, Any]] = []

    class Page:
        push = staticmethod(pushed.append)

    async def look() -> None:
        watcher = Watcher(Library(own_runs))
        await watcher._watch_runs(cast(Client, Page()), {})
        following = asyncio.create_task(watcher.follow())
        async with asyncio.timeout(60):
            while not pushed:
                await asyncio.sleep(0.01)
        following.cancel()

    in_its_own_thread(look())
    assert pushed[0]["type"] == "runs"
    assert capsys.readouterr().err.count("RuntimeError: a look failed") == 2


def test_sessions_are_closed_even_if_following_has_failed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    closed: list[Sessions] = []

    async def fail(watcher: Watcher) -> None:
        raise RuntimeError("following failed")

    async def close(sessions: Sessions) -> None:
        closed.append(sessions)

    async def live() -> None:
        app = make_app(tmp_path, "token", "127.0.0.1", 1)
        async with app.router.lifespan_context(app):
            await asyncio.sleep(0)

    monkeypatch.setattr(Watcher, "follow", fail)
    monkeypatch.setattr(Sessions, "close", close)
    with pytest.raises(RuntimeError, match="following failed"):
        in_its_own_thread(live())
    assert len(closed) == 1


def test_the_time_to_go_follows_from_the_last_rows(gallery: Gallery, monkeypatch: pytest.MonkeyPatch) -> None:
    facts = FollowedRun(gallery.tuned[0])
    assert facts.eta is None  # it has ended
    monkeypatch.setattr(FollowedRun, "live", True)
    # 100 steps in 10 seconds, 50 of 150 to go: 5 seconds
    facts.rows[:] = [
        {"time/total_timesteps": 0.0, "time/elapsed": 0.0},
        {"time/total_timesteps": 100.0, "time/elapsed": 10.0},
    ]
    monkeypatch.setattr(FollowedRun, "total_steps", 150)
    monkeypatch.setattr(FollowedRun, "env_steps", 100)
    assert facts.eta == 5.0


def test_evaluations_stand_at_the_step_of_their_agent(studio: Studio, gallery: Gallery) -> None:
    run = gallery.tuned[0]
    found = studio.get(f"/run/{run.id}/metrics", names=EVALUATION)["series"][EVALUATION]
    rows = [row for row in read_metrics(run.metrics_path) if EVALUATION in row]
    assert found["x"] == sorted(row.get("eval/step", row["time/total_timesteps"]) for row in rows)
