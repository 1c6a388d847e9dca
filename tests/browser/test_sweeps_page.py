"""Sweeps in a real browser, while a tiny real one runs: the list, a training under way, its run, the report."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from threading import Event as Flag
from threading import Thread
from typing import TYPE_CHECKING, Any

import pytest

from gymnast.jobs.worker import Event, Job
from gymnast.verbs.sweep import run as sweeps
from gymnast.verbs.sweep.worker import run as train_cell
from tests.browser.conftest import Open
from tests.browser.serving import LIMIT, served

if TYPE_CHECKING:
    from playwright.sync_api import Browser

pytestmark = pytest.mark.timeout(300)
SETTINGS = ("eval.episodes=2", "stop.episodes=4")
ASKED: dict[str, Any] = {
    "search": ["algo.gamma=[0.9, 0.95]"],
    "space": None,
    "sampler": "random",
    "seed": 0,
    "seeds": 2,
    "against": None,
}


class Here:
    """Real trainings in this process, which starts none for a cell. The first one waits in its middle."""

    def __init__(self) -> None:
        self.begun, self.seen = Flag(), Flag()

    def run(self, job: Job) -> Training:
        return Training(self, job)

    def room(self, cores: int) -> int:
        return 1


class Training:
    def __init__(self, launcher: Here, job: Job) -> None:
        self.launcher, self.job = launcher, job

    def __iter__(self) -> Iterator[Event]:
        yield Event("result", train_cell(self, **self.job.call))  # type: ignore[arg-type]

    def event(self, **facts: Any) -> None:
        """What the cell says on the way."""
        self.launcher.begun.set()
        assert self.launcher.seen.wait(LIMIT / 1000)

    def close(self) -> None:
        self.launcher.seen.set()


def test_a_sweep_from_its_first_training_to_its_report(
    window: Open, chromium: Browser, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    launcher = Here()
    monkeypatch.setattr(sweeps, "open_launcher", lambda on: launcher)
    options = {"steps": 1024, "trials": 1, "jobs": 1, "name": "tiny", **ASKED}
    work = Thread(target=sweeps.sweep, args=("CartPole-v1:zoo", SETTINGS, tmp_path), kwargs=options)
    work.start()
    try:
        assert launcher.begun.wait(LIMIT / 1000)
        with served(tmp_path) as studio:
            one = window(studio)
            page = one.open("/sweeps")
            row = page.get_by_role("table", name="Sweeps").locator("tbody tr")
            assert row.locator(".badge").inner_text() == "running"
            row.get_by_role("link", name="tiny").click()
            live = page.get_by_role("table", name="Trainings").locator("tbody tr")
            live.get_by_role("progressbar").wait_for()
            assert live.locator(".badge").inner_text() == "running"
            live.get_by_role("link").click()
            page.locator(".run-head .hint").get_by_role("link", name="tiny").wait_for()  # the run says whose it is
            assert page.get_by_role("button", name="Delete").count() == 0
            page.locator(".run-head .hint").get_by_role("link", name="tiny").click()

            launcher.seen.set()
            report = page.frame_locator("iframe.report")
            report.get_by_role("heading", name="better one found").wait_for()
            # the preset and a draw on a search seed, both on two fresh ones
            one.wait("() => document.querySelectorAll('.trainings tbody tr').length === 6")
            assert page.locator(".trainings .badge", has_text="finished").count() == 6
            report.get_by_role("link", name="cells").click()
            report.get_by_role("link").first.click()
            report.get_by_text('"curve"').wait_for()
            page.goto(f"{studio.address}/api/sweep/tiny/file/report.html")  # alone: with an icon
            page.get_by_role("link", name="journal.log").click()
            page.get_by_text("op_code").wait_for()
    finally:
        launcher.seen.set()
        work.join()
