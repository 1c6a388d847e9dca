"""A run of somebody else in Studio: what its files name or advise runs after a question, and not before."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from gymnast.runs.references import Run
from tests.hostile import name_code
from tests.processes import wait_for
from tests.runs.report_runs import Gallery
from tests.studio.conftest import studio_of

pytestmark = pytest.mark.timeout(300)  # a process is started for a session, and another one for a run

SETTINGS = ("env.n_envs=4", "algo.n_steps=64", "algo.batch_size=64", "eval.episodes=2", "stop.episodes=2")
COMMAND = f"gymnast train theirs:CartPole-v1 --steps 256 {' '.join(f'--set {text}' for text in SETTINGS)}"


@pytest.fixture
def stranger(gallery: Gallery, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """An imported run; the module that it names is here and leaves a mark when it is imported."""
    run = Run(shutil.copytree(gallery.wild[0].path, tmp_path / "runs" / gallery.wild[0].id))
    name_code(run.path, "theirs:CartPole-v1")
    about, alerts = (json.loads((run.path / name).read_text()) for name in ("run.json", "alerts.json"))
    (run.path / "run.json").write_text(json.dumps({**about, "imported": "2026-01-01T00:00:00+00:00"}))
    for alert in alerts["alerts"]:
        alert["command"] = COMMAND
    run.alerts_path.write_text(json.dumps(alerts))
    code = tmp_path / "code"
    code.mkdir()
    (code / "theirs.py").write_text(f"open({str(tmp_path / 'marker')!r}, 'w').close()\n")
    monkeypatch.setenv("PYTHONPATH", str(code), prepend=":")
    return run


def test_pages_ask_before_code_of_an_imported_run_runs(stranger: Run, tmp_path: Path) -> None:
    alert = json.loads(stranger.alerts_path.read_text())["alerts"][0]["rule"]
    with studio_of(stranger.path.parent) as studio:
        studio.get(f"/run/{stranger.id}")  # the page itself imports nothing
        following = studio.get(f"/run/{stranger.id}/next")
        asked = [
            ("resume", {}, "theirs:CartPole-v1"),
            ("fix", {"alert": alert}, COMMAND),
            *(("next", {"command": one["command"]}, one["command"]) for one in following if one["starts"]),
        ]
        for button, body, named in asked:
            answer = studio.api.post(f"/api/run/{stranger.id}/{button}", json=body)
            assert answer.status_code == 409, (button, answer.text)
            assert "t was imported from a zip file" in answer.json()["asks"]
            assert named in answer.json()["asks"]
            assert "\n" not in answer.json()["error"]
        with studio.window() as window:
            for opening in ({"ref": stranger.id}, {"ref": f"{stranger.id}@last"}, {"ref": stranger.id, "trust": "yes"}):
                answer = window.ask("open", **opening)  # play, inspect and watch
                assert "theirs:CartPole-v1" in answer["asks"], opening
                assert f"run {stranger.id} needs code" in answer["error"]
            assert not (tmp_path / "marker").exists()
            assert "about" in window.ask("open", ref=stranger.id, trust=True)
        assert (tmp_path / "marker").exists()
        (tmp_path / "marker").unlink()
        started = studio.post(f"/run/{stranger.id}/fix", alert=alert, trust=True)["id"]
        assert (tmp_path / "marker").exists()
        advised = Run(stranger.path.parent / started)
        wait_for(lambda: not advised.live(), "end of the advised run")
        assert advised.read().status == "finished"


def test_links_out_of_a_run_are_not_shown(gallery: Gallery, tmp_path: Path) -> None:
    """Also where the folder of the runs is a link itself, which is followed."""
    run = Run(shutil.copytree(gallery.wild[0].path, tmp_path / "real" / gallery.wild[0].id))
    (tmp_path / "runs").symlink_to(tmp_path / "real")
    secret = tmp_path / "secret.txt"
    secret.write_text("nobody may read this\n")
    with studio_of(tmp_path / "runs") as studio:
        shown = studio.get(f"/run/{run.id}")
        assert shown["config_yaml"] == run.config_path.read_text()
        assert shown["log"]
        for path in (run.log_path, run.config_path, run.path / "output.txt", run.report_path):
            path.unlink(missing_ok=True)
            path.symlink_to(secret)
        assert "nobody" not in json.dumps(studio.get(f"/run/{run.id}"))
        assert studio.api.get(f"/api/run/{run.id}/file/report.md").status_code == 404
