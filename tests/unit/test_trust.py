"""Whose code runs: what a config names, which run is the user's own, and where a module lies."""

from __future__ import annotations

import json
import os
import socket
import sys
from pathlib import Path
from typing import Any

import pytest

from gymnast.core.errors import UserError
from gymnast.core.trust import Untrusted, allow, code_in, origin_of, require_trust, run_above, run_that_holds
from gymnast.envs.suites import import_users_module
from gymnast.report.html import _embedded
from gymnast.runs.references import Run
from gymnast.verbs.extras import check_picture
from gymnast.verbs.remote.start import is_left_alone
from gymnast.video.encode import Encoder
from tests.unit.test_run import make

NAMING = {"env": {"id": "mine:Env-v0"}}


@pytest.mark.parametrize(
    ("config", "named"),
    [
        ({"env": {"id": "CartPole-v1", "wrappers": ["frame_stack", {"time_limit": {"steps": 5}}]}}, []),
        ({"env": {"id": "mine:Env-v0"}}, ["mine:Env-v0"]),
        ({"env": {"wrappers": ["mine:A", {"mine:B": {"x": 1}}, {"name": "mine:C", "kwargs": {}}]}}, list("ABC")),
        ({"env": {"wrappers": "mine:A"}}, ["A"]),
        ({"eval": {"env": {"id": "mine:Env-v0"}}}, ["mine:Env-v0"]),
        ({"stages": {"one": {"env": {"wrappers": ["mine:A"]}}}}, ["A"]),
        ({"tasks": [{"env": {"id": "mine:Env-v0"}}]}, ["mine:Env-v0"]),
        ({"train": {"central": {"where": "ray://10.0.0.1:10001"}}}, ["ray://10.0.0.1:10001"]),
        ({"train": {"central": {"where": "local"}}}, []),
        ({"env": {"kwargs": {"of": [{"env": "mine:Env-v0"}], "map": "a: b", "time": "10:30"}}}, ["mine:Env-v0"]),
        ("no mapping", []),
    ],
)
def test_what_a_config_names(config: Any, named: list[str]) -> None:
    assert code_in(config) == [name if ":" in name else f"mine:{name}" for name in named]


def test_a_python_file_as_an_id_is_code() -> None:
    """Such an id is answered with the ids that the file registers, which takes importing it."""
    assert code_in({"env": {"id": "victim.py"}}) == ["victim.py"]


def test_whose_a_run_is(tmp_path: Path) -> None:
    run = make(tmp_path / "runs")
    about = json.loads((run.path / "run.json").read_text())
    assert origin_of(run.path) is None
    cases = [
        ({"made_on": "a, b"}, "it was made on a, b"),
        ({"made_on": None}, None),  # of an earlier version: its host is this one
        ({"made_on": None, "host": "other"}, "it was made on other"),
        ({"imported": "2026-01-01T00:00:00+00:00"}, "it was imported from a zip file"),
        ({"imported": True, "made_on": about["made_on"]}, "it was imported from a zip file"),
        ({"made_on": ["x"]}, "it was made on ['x']"),
    ]
    for change, said in cases:
        (run.path / "run.json").write_text(json.dumps({**about, **change}))
        assert origin_of(run.path) == said, change
    (run.path / "run.json").write_text("[]")
    assert origin_of(run.path) == "nobody knows where it was made"


def test_going_on_with_a_run_does_not_make_it_own(tmp_path: Path) -> None:
    """Of an earlier version, whose run.json has no `made_on`."""
    for host, own in ((socket.gethostname(), True), ("elsewhere", False)):
        run = make(tmp_path / host)
        about = json.loads((run.path / "run.json").read_text())
        del about["made_on"]
        (run.path / "run.json").write_text(json.dumps({**about, "host": host}))
        assert run.read().is_own == own
        run.start()
        run.finish("finished")
        assert run.read().host == socket.gethostname()
        assert run.read().is_own == own


def test_a_file_of_a_run_is_refused_until_it_is_allowed(tmp_path: Path) -> None:
    """By any path to it; allowing one run allows no other."""
    runs = [make(tmp_path / "runs", seed=seed) for seed in (1, 2)]
    for run in runs:
        about = json.loads((run.path / "run.json").read_text())
        (run.path / "run.json").write_text(json.dumps({**about, "made_on": "elsewhere"}))
    (tmp_path / "link").symlink_to(runs[0].path)
    (tmp_path / "my.yaml").symlink_to(runs[0].config_path)
    paths = [runs[0].config_path, tmp_path / "link" / "config.yaml", tmp_path / "my.yaml", runs[0].checkpoint_path("x")]
    for path in paths:
        with pytest.raises(Untrusted, match=f"run {runs[0].id} needs code .* 'mine:Env-v0', and it was made on"):
            require_trust(path, NAMING)
        require_trust(path, {"env": {"id": "CartPole-v1"}})  # which names none
    require_trust(tmp_path / "own.yaml", NAMING)  # in no run
    with pytest.raises(Untrusted, match="nobody knows where it was made"):
        require_trust(tmp_path / "model.safetensors", NAMING, {})
    allow(runs[0].checkpoint_path("best"))
    for path in paths:
        require_trust(path, NAMING)
    with pytest.raises(Untrusted):
        require_trust(runs[1].config_path, NAMING)


def test_where_a_module_lies_is_found_without_importing_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    run = make(tmp_path / "lib" / "runs")
    own = run.path.rename(tmp_path / "lib" / "runs" / "evil7")
    marker = tmp_path / "marker"
    code = f"open({str(marker)!r}, 'w').close()\n"
    places = ("lib", "lib/runs", "lib/runs/evil7", "lib/runs/evil7/checkpoints", "good_package")
    (tmp_path / "good_package").mkdir()
    for place in places:
        (tmp_path / place / "__init__.py").write_text(code)
        (tmp_path / place / "code_here.py").write_text(code)
    (tmp_path / "linked.py").symlink_to(own / "code_here.py")
    for module in ("lib.runs.evil7.code_here", "lib.runs.evil7.checkpoints.code_here", "lib.runs.code_here", "linked"):
        assert run_that_holds(module) is not None, module
        with pytest.raises(UserError, match="code from there is never imported"):
            import_users_module(module, "env.id")
    for module in (
        "lib.code_here",
        "good_package.code_here",
        "json",
        "os.path",
        "gymnasium.envs",
        "__main__",
        "no.such",
    ):
        assert run_that_holds(module) is None, module
    assert not marker.exists()
    assert not [name for name in sys.modules if name.partition(".")[0] in ("lib", "linked", "good_package")]
    assert run_above(own / "checkpoints" / "x") == own
    monkeypatch.chdir(own)  # a user who stands in a run's folder
    monkeypatch.syspath_prepend(own)
    assert run_that_holds("code_here") == own


def test_no_cluster_is_connected_to_for_a_run_from_elsewhere(tmp_path: Path) -> None:
    """What a cluster sends is code."""
    run = make(tmp_path)
    run.update(status="running", on="ray://127.0.0.1:1")
    assert is_left_alone(run)
    about = json.loads((run.path / "run.json").read_text())
    (run.path / "run.json").write_text(json.dumps({**about, "made_on": "elsewhere"}))
    assert not is_left_alone(Run(run.path))


def test_pictures_and_videos_replace_no_fifo(tmp_path: Path) -> None:
    for name in ("x.png", "x.mp4"):
        os.mkfifo(tmp_path / name)
    with pytest.raises(UserError, match="is not a regular file"):
        check_picture("--out", tmp_path / "x.png")
    with pytest.raises(UserError, match="not a regular file"):
        Encoder(tmp_path / "x.mp4", 16, 16, 30)
    assert (tmp_path / "x.mp4").is_fifo()
    assert {path.name for path in tmp_path.iterdir()} == {"x.png", "x.mp4"}


def test_a_page_embeds_no_file_that_a_link_leads_to(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("nobody may read this")
    run = tmp_path / "run"
    run.mkdir()
    (run / "own.mp4").write_bytes(b"1")
    (run / "link.mp4").symlink_to(tmp_path / "secret")
    assert _embedded(run, "own.mp4").endswith("MQ==")
    assert _embedded(run, "link.mp4") == ""
