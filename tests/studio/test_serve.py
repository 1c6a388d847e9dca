"""How Studio starts and ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import httpx
import pytest

from gymnast.runs.references import Run
from tests.processes import is_alive, running, wait_for
from tests.studio.conftest import ROOT, TOKEN, Studio, studio_of
from tests.warm import warm

ENDLESS = {"train.total_timesteps": 10**9, "stop.on_solved": False, "env.n_envs": 4, "eval.every": 0, "log.every": 256}


def refused(*options: str) -> str:
    done = warm.run(options)
    assert done.returncode == 2, done
    assert len(done.stderr.splitlines()) == 1, done.stderr
    return done.stderr


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_it_with_a_page_open(tmp_path: Path, number: signal.Signals) -> None:
    """SIGHUP is what a closed terminal sends."""
    with studio_of(tmp_path / "runs") as studio, studio.window() as window:
        window.ask("watch_runs")
        studio.process.send_signal(number)
        assert studio.process.wait(timeout=60) == 0


def test_a_started_run_outlives_studio_and_can_be_stopped(tmp_path: Path) -> None:
    with studio_of(tmp_path / "runs") as studio:
        run = Run(
            tmp_path / "runs" / studio.post("/start", env="CartPole-v1", set=ENDLESS, seed=3, tags=["long"])["id"]
        )
        info = run.read()
        assert (info.seed, info.tags, info.env) == (3, ["long"], "CartPole-v1")
        assert os.getpgid(info.pid) != os.getpgid(studio.process.pid)  # Ctrl-C in Studio's terminal is not for it
        studio.process.send_signal(signal.SIGINT)
        assert studio.process.wait(timeout=60) == 0
    assert is_alive(info.pid)
    wait_for(lambda: run.metrics_path.exists() and run.metrics_path.stat().st_size, "row of metrics")
    with studio_of(tmp_path / "runs") as studio:
        assert studio.get(f"/run/{run.id}")["status"] == "running"
        refusal = studio.api.post(f"/api/run/{run.id}/delete")
        assert refusal.status_code == 400
        assert "still being trained" in refusal.json()["error"]
        studio.post(f"/run/{run.id}/stop")
        wait_for(lambda: studio.get(f"/run/{run.id}")["status"] == "interrupted", "end of the run")
        assert not any(path.name.startswith(".output") for path in (tmp_path / "runs").iterdir())
        again = studio.api.post(f"/api/run/{run.id}/stop")
        assert again.status_code == 400
        assert "not being trained" in again.json()["error"]
        assert studio.post(f"/run/{run.id}/resume") == {"id": run.id}
        assert run.read().status == "running"
        studio.post(f"/run/{run.id}/stop")
        wait_for(lambda: not run.live(), "end of the resumed run")
        studio.post(f"/run/{run.id}/delete")
        assert not run.path.exists()


def test_a_check_under_way_ends_with_studio(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And there is one at a time."""
    monkeypatch.setenv("STUDIO_TEST_FOLDER", str(tmp_path))
    body = {"env": "tests.studio.envs:studio/Endless-v0"}
    with studio_of(tmp_path / "runs") as studio:
        for _ in range(2):
            with pytest.raises(httpx.ReadTimeout):
                studio.api.post("/api/check", json=body, timeout=3)
        wait_for(lambda: list(tmp_path.glob("[0-9]*")), "process that makes the env")
        (pid,) = (int(path.name) for path in tmp_path.glob("[0-9]*"))
        assert is_alive(pid)
        studio.process.send_signal(signal.SIGTERM)
        assert studio.process.wait(timeout=60) == 0
    wait_for(lambda: not is_alive(pid), "end of the check")


def test_other_machines_need_a_secret() -> None:
    said = refused("studio", "--host", "0.0.0.0", "--no-browser")
    assert "--token" in said
    assert "--token" in refused("studio", "--host", "0.0.0.0", "--no-browser", "--token", "short")
    assert "--token" in refused("studio", "--no-browser", "--token", "with spaces and ;")


def test_a_port_in_use_is_one_line(studio: Studio) -> None:
    assert "already in use" in refused("studio", "--no-browser", "--port", str(studio.port))


def test_what_is_no_run_and_no_env_is_one_line(tmp_path: Path) -> None:
    folder = ("--runs-dir", str(tmp_path), "--no-browser")
    assert "no runs yet" in refused("studio", "nosuchrun", *folder)
    assert "CartPole-v1" in refused("play", "CartPolo-v1", *folder)
    assert "no runs yet" in refused("play", "@last", *folder)


def test_the_browser_is_opened_without_the_secret(tmp_path: Path) -> None:
    """Every user of a machine can read the command line of a browser."""
    opened, browser = tmp_path / "opened", tmp_path / "browser"
    browser.write_text(f'#!/bin/sh\necho "$1" > {opened}\n')
    browser.chmod(0o755)
    command = [sys.executable, "-m", "gymnast", "studio", "--token", TOKEN, "--runs-dir", str(tmp_path / "runs")]
    with running(command, cwd=ROOT, env={**os.environ, "BROWSER": str(browser)}, stdout=subprocess.DEVNULL):
        wait_for(lambda: opened.exists() and opened.stat().st_size, "browser")
        url = opened.read_text().strip()
        assert TOKEN not in url
        first = httpx.get(url, timeout=100)
        assert (first.status_code, first.headers["location"]) == (303, "/runs")
        assert TOKEN in first.headers["set-cookie"]
        assert httpx.get(url, timeout=100).status_code == 403  # it opens the page once


def test_no_torch_in_the_server() -> None:
    """It would take a second to start and hundreds of megabytes, for a list of runs."""
    code = "import sys, gymnast.studio.app; sys.exit('torch' in sys.modules or 'gymnasium' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=False).returncode == 0
