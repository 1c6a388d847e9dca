"""Sweeps in Studio: the list says how far each is, and a finished one has its report."""

from __future__ import annotations

import json
from pathlib import Path

from gymnast.runs.lock import RunLock
from tests.studio.conftest import studio_of


def put(folder: Path, cells: int, report: str | None) -> Path:
    (folder / "cells").mkdir(parents=True)
    (folder / "sweep.json").write_text(json.dumps({"target": "CartPole-v1:ppo"}))
    for seed in range(cells):
        (folder / "cells" / f"abc-s{seed}.json").write_text("{}")
    if report is not None:
        (folder / "report.md").write_text(f"# {report}\n\nmore\n")
        (folder / "report.html").write_text(f"<h1>{report}</h1>")
    return folder


def test_sweeps_and_their_reports(tmp_path: Path) -> None:
    sweeps = tmp_path / "sweeps"
    put(sweeps / "done", 3, "No better one found: sweep of CartPole-v1:ppo")
    under_way = put(sweeps / "under-way", 1, None)
    put(sweeps / "stopped", 2, None)
    (tmp_path / "report.html").write_text("not of a sweep")
    lock = RunLock(under_way / "lock")
    assert lock.acquire()
    with studio_of(tmp_path) as studio:
        found = {row["name"]: row for row in studio.get("/sweeps")}
        assert {name: (row["status"], row["cells"]) for name, row in found.items()} == {
            "done": ("finished", 3),
            "under-way": ("running", 1),
            "stopped": ("interrupted", 2),
        }
        assert found["done"]["result"] == "No better one found: sweep of CartPole-v1:ppo"
        assert found["done"]["target"] == "CartPole-v1:ppo"
        answer = studio.browser.get("/api/sweep/done/file/report.html")
        assert answer.text == "<h1>No better one found: sweep of CartPole-v1:ppo</h1>"
        assert "default-src 'none'" in answer.headers["content-security-policy"]
        cells = studio.browser.get("/api/sweep/done/file/cells")
        assert 'href="cells/abc-s0.json"' in cells.text  # seen from /api/sweep/done/file/
        assert studio.browser.get("/api/sweep/done/file/cells/abc-s0.json").text == "{}"
        assert studio.get("/sweep/done")["trainings"] == []  # files that hold no cell
        for path in ("stopped/file/report.html", "nothing", "../file/x", "%2e%2e", "done/file/..%2f..%2freport.html"):
            assert studio.browser.get(f"/api/sweep/{path}").status_code == 404
        assert studio.browser.get("/sweeps").status_code == 200
        assert studio.browser.get("/sweeps/done").status_code == 200
