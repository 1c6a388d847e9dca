"""What the pages get is what the verbs and the files say."""

from __future__ import annotations

import json
import random
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from gymnast.core.errors import UserError
from gymnast.report.run_facts import EVALUATION, RETURN, RunFacts
from gymnast.runs.references import Run
from gymnast.sinks.jsonl import read_metrics
from gymnast.studio.changes_api import advised
from gymnast.studio.library import APART, COLOURS, Library
from gymnast.studio.series import columns
from gymnast.verbs.runs.compare import compare_runs
from gymnast.verbs.runs.show import list_all_runs
from tests.hostile import mutated, put_special
from tests.runs.report_runs import Gallery
from tests.studio.conftest import Studio, studio_of

SAME = ("env", "algo", "variant", "seed", "status", "created", "name", "tags", "score", "training_return", "solved")


def test_the_list_says_what_runs_list_says(studio: Studio, gallery: Gallery) -> None:
    with studio.window() as window:  # it also gets what takes longer to read
        rows: dict[str, dict[str, Any]] = {}
        window.ask("watch_runs", revision=-1)
        while len(rows) < 9 or not all(row["spark"] for row in rows.values() if row["id"] != gallery.broken.id):
            rows |= {row["id"]: row for row in window.pushed("runs")["changed"]}
    facts = {one.info.id: one for one in list_all_runs(gallery.folder).runs}
    assert rows.keys() == facts.keys()
    for name, row in rows.items():
        one = facts[name]
        said = {key: getattr(one.info, key, None) if key in vars(one.info) else getattr(one, key) for key in SAME}
        assert {key: row[key] for key in SAME} == said, name
        assert row["env_steps"] == one.env_steps
        assert row["alerts"] == len(one.alerts)
        returns = [value for _, value in one.curve(RETURN)]
        assert row["spark"] == pytest.approx(returns, rel=1e-3), name  # fewer than 40 rows: all of them
    assert rows[gallery.killed.id]["status"] == "killed"
    listed = [row["id"] for row in studio.get("/runs")["runs"]]
    assert listed == [one.info.id for one in list_all_runs(gallery.folder).runs]


def test_a_run_is_shown_as_in_its_report(studio: Studio, gallery: Gallery) -> None:
    wild = gallery.wild[0]
    facts, shown = RunFacts(wild), studio.get(f"/run/{wild.id}")
    assert shown["latest"] == pytest.approx(facts.latest, nan_ok=True)
    assert [alert["name"] for alert in shown["alerts"]] == [alert.rule for alert in facts.alerts]
    assert [alert["command"] for alert in shown["alerts"]] == [alert.command for alert in facts.alerts]
    assert {one["phase"]: one["seconds"] for one in shown["time_budget"]} == pytest.approx(facts.time_budget)
    changed = {one["key"]: one for one in shown["settings"] if one["default"] is not None}
    assert changed["algo.learning_rate"]["value"] == "1.0"
    assert changed["algo.learning_rate"]["default"] == "lin_0.003"
    assert changed["algo.learning_rate"]["about"]
    origins = {one["key"]: one["origin"] for one in shown["settings"]}
    assert origins["algo.learning_rate"] == "your setting"
    assert origins["algo.gamma"] == "preset CartPole-v1 (ppo)"
    assert origins["agent.memory"] == "default"
    assert {one["name"] for one in shown["checkpoints"]} == {path.stem for path in wild.checkpoints()}
    assert shown["config_yaml"] == wild.config_path.read_text()
    assert studio.get(f"/run/{gallery.broken.id}")["crash"]
    assert studio.get("/run/@last")["id"] == list_all_runs(gallery.folder).runs[0].info.id
    assert any(one["command"].startswith("gymnast train") for one in studio.get(f"/run/{wild.id}/next"))
    last = json.loads(wild.diagnostics_path.read_text().splitlines()[-1])
    assert studio.get(f"/run/{wild.id}/diagnostics")["data"]["histograms"] == last["histograms"]


def test_a_best_evaluation_says_what_it_is(studio: Studio, gallery: Gallery, tmp_path: Path) -> None:
    assert studio.get(f"/run/{gallery.lake.id}")["verdict"]["best_kind"] == "exact value"
    assert studio.get(f"/run/{gallery.lake.id}")["verdict"]["test"] == {}  # the exact value decides
    killed = studio.get(f"/run/{gallery.killed.id}")
    assert (killed["verdict"]["best_kind"], killed["score_kind"]) == ("evaluation", "evaluation")
    assert killed["fps"] == pytest.approx(killed["env_steps"] / killed["seconds"])  # the mean, not the last row's
    copy = shutil.copytree(gallery.killed.path, tmp_path / "judged")
    rows = read_metrics(Run(copy).metrics_path)
    rows[-1]["eval/best_mean_reward"] = 123.0  # that a verdict put in the place of the best evaluation
    Run(copy).metrics_path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert RunFacts(Run(copy)).best_kind == "mean of a verdict"


@pytest.mark.parametrize(
    "axis, clock",
    [
        ("env_steps", "time/total_timesteps"),
        ("vector_steps", "time/vec_steps"),
        ("updates", "time/updates"),
        ("seconds", "time/elapsed"),
    ],
)
def test_curves_have_the_numbers_of_the_file(studio: Studio, gallery: Gallery, axis: str, clock: str) -> None:
    run = gallery.tuned[0]
    found = studio.get(f"/run/{run.id}/metrics", names=f"{RETURN},{EVALUATION},none", axis=axis)
    rows = [row for row in read_metrics(run.metrics_path) if RETURN in row]
    assert found["series"][RETURN]["x"] == pytest.approx([row[clock] for row in rows])
    assert found["series"][RETURN]["y"] == pytest.approx([row[RETURN] for row in rows])
    assert found["series"]["none"] == {"x": [], "y": []}
    assert len(found["series"][EVALUATION]["x"]) == len(RunFacts(run).curve(EVALUATION))


def test_a_long_curve_becomes_means_with_extremes() -> None:
    points = [(float(index), float(index % 10)) for index in range(1000)]
    points[5] = (5.0, float("nan"))
    few = columns(points, most=100)  # stretches of ten: 0, 1, ... 9
    assert [len(few[name]) for name in ("x", "y", "low", "high")] == [100] * 4
    assert few["x"][1] == 19
    assert (few["low"][1], few["y"][1], few["high"][1]) == (0, 4.5, 9)
    assert (few["low"][0], few["y"][0], few["high"][0]) == (0, 40 / 9, 9)  # without the one that is not a number
    assert few["bad"] == [5]
    assert columns([(1.0, float("inf")), (2.0, 3.0)]) == {"x": [1.0, 2.0], "y": [None, 3.0], "bad": [1.0]}
    endless = [(float(index), float("nan")) for index in range(1000)]
    assert columns(endless, most=300)["bad"] == [float(index) for index in range(0, 1000, 4)]


def test_every_metric_has_a_meaning(studio: Studio) -> None:
    subjects = studio.get("/catalogue")
    assert {"rollout", "eval", "train", "time", "net"} <= {subject["name"] for subject in subjects}
    assert all(metric["about"] for subject in subjects for metric in subject["metrics"])


def test_a_comparison_says_what_runs_compare_says(studio: Studio, gallery: Gallery) -> None:
    refs = [run.id for run in (*gallery.tuned, *gallery.wild)]
    said = compare_runs(refs, gallery.folder, "seed").to_json()
    found = studio.get("/compare", ref=refs)
    assert found["reasons"] == said["reasons"]
    assert [curve["ids"] for curve in found["curves"]] == [refs[:2], refs[2:]]
    assert {one["key"] for one in found["differences"]} == set(said["config"])
    curve = found["curves"][0]
    assert len(curve["x"]) == len(curve["low"]) == len(curve["high"])
    assert all(low <= y <= high for low, y, high in zip(curve["low"], curve["y"], curve["high"], strict=True))
    assert (found["threshold"], found["optimum"]) == (475, 500)
    assert (found["measured_on"], found["measured_until"]) == (said["curve"], said["curve_until"])
    (steps,) = [one["values"] for one in found["measures"] if one["name"] == "steps_to_threshold"]
    assert [one["value"] for one in steps] == ["never", "never"]  # a few thousand steps are not enough
    ends = [RunFacts(run).curve(found["metric"])[-1][0] for run in gallery.tuned]
    assert [one["at"] for one in curve["ended"]] == [end for end in ends if end < 0.98 * max(ends)]
    alone = studio.get("/compare", ref=refs, group="none", metric="train/approx_kl", axis="updates")
    assert [curve["ids"] for curve in alone["curves"]] == [[ref] for ref in refs]
    assert alone["metric"] == "train/approx_kl"
    for params in ({}, {"ref": "nosuchrun"}, {"ref": refs[0], "metric": "no/such"}):
        assert studio.api.get("/api/compare", params=params).status_code in (400, 404)


def test_an_unknown_address_is_a_page_for_people_and_one_line_for_programs(studio: Studio) -> None:
    person = studio.api.get("/nosuch", headers={"Accept": "text/html,*/*"})
    assert person.status_code == 404
    assert "app.js" in person.text
    for path in ("/nosuch", "/api/nosuch"):
        program = studio.api.get(path, headers={"Accept": "text/html" if path.startswith("/api") else "*/*"})
        assert (program.status_code, program.json()) == (404, {"error": "there is nothing at this address."})


def test_tags_and_deletion(own_studio: Studio, gallery: Gallery) -> None:
    ref = gallery.tuned[0].id
    assert own_studio.post(f"/run/{ref}/tag", add=["good", "good", "fast"])["tags"][ref] == ["good", "fast"]
    assert own_studio.post(f"/run/{ref}/tag", add=["new"], remove=["good"])["tags"][ref] == ["fast", "new"]
    assert Run(own_studio.runs_dir / ref).read().tags == ["fast", "new"]
    for wrong in ({"add": ["two words"]}, {"add": "text"}, {"add": [1]}):
        assert own_studio.api.post(f"/api/run/{ref}/tag", json=wrong).status_code == 400
    own_studio.post(f"/run/{ref}/delete")
    assert own_studio.api.get(f"/api/run/{ref}").status_code == 404
    assert not (own_studio.runs_dir / ref).exists()


def test_a_change_is_of_the_run_with_that_id_only(own_studio: Studio, gallery: Gallery) -> None:
    """A window that shows a run which is gone must not change another one."""
    ref = gallery.tuned[0].id
    shutil.copytree(own_studio.runs_dir / ref, own_studio.runs_dir / f"{ref}-copy")
    own_studio.post(f"/run/{ref}/delete")
    for gone in (ref, "@last"):
        for change in ("delete", "stop", "resume", "tag", "fix", "report"):
            assert own_studio.api.post(f"/api/run/{gone}/{change}", json={"add": ["x"]}).status_code == 404, change
    assert Run(own_studio.runs_dir / f"{ref}-copy").read().tags == []
    assert own_studio.get(f"/run/{ref}")["id"] == f"{ref}-copy"  # looking is not changing


def test_a_fix_starts_the_advised_run(own_studio: Studio, gallery: Gallery) -> None:
    wild = gallery.wild[0]
    alert = next(one for one in own_studio.get(f"/run/{wild.id}")["alerts"] if one["command"])
    started = own_studio.post(f"/run/{wild.id}/fix", alert=alert["name"])
    changes = own_studio.get(f"/run/{started['id']}")["changes"]
    assert changes.get("algo.learning_rate") != 1.0
    assert own_studio.api.post(f"/api/run/{wild.id}/fix", json={"alert": "none"}).status_code == 400


@pytest.mark.parametrize(
    "command",
    [
        "rm -rf /",
        "gymnast runs delete @last --yes",
        "gymnast train",
        "gymnast train --help",
        "gymnast train CartPole-v1 --runs-dir /tmp",
        "gymnast train CartPole-v1 --set a=1 --init-from x",
        "gymnast train CartPole-v1 --set",
        "gymnast train CartPole-v1 'open",
        "",
    ],
)
def test_only_a_training_is_started_from_a_file(command: str) -> None:
    with pytest.raises(UserError, match="not a command"):
        advised(command)


def test_an_advised_training_is_taken() -> None:
    words = ["train", "CartPole-v1", "--set", "a.b=1", "--set", "c=[1, 2]"]
    assert advised("gymnast train CartPole-v1 --set a.b=1 --set 'c=[1, 2]'") == words


def test_a_next_step_is_started_from_the_page(own_studio: Studio, gallery: Gallery) -> None:
    wild = gallery.wild[0]
    steps = own_studio.get(f"/run/{wild.id}/next")
    assert [step["command"].split()[1] for step in steps if step["page"]] == ["runs"], "a comparison is a page"
    assert all(step["command"].split()[1] in ("train", "resume") for step in steps if step["starts"])
    seed = next(step for step in steps if step["starts"] and f"--seed {wild.read().seed}" in step["command"])
    started = own_studio.post(f"/run/{wild.id}/next", command=seed["command"])
    assert own_studio.get(f"/run/{started['id']}")["changes"] == {}, "the preset as it is"
    own_studio.post(f"/run/{started['id']}/stop")
    for command in ("gymnast train CartPole-v1", "rm -rf /", next(s["command"] for s in steps if not s["starts"])):
        assert own_studio.api.post(f"/api/run/{wild.id}/next", json={"command": command}).status_code == 400


def test_runs_have_different_colours_and_keep_them(gallery: Gallery, tmp_path: Path) -> None:
    for number in range(COLOURS + 1):
        shutil.copytree(gallery.tuned[0].path, tmp_path / f"run-{number:02}")
    library = Library(tmp_path)
    library.refresh()
    first = {row["id"]: row["colour"] for row in library.since(-1).rows}
    assert sorted(Counter(first.values()).values()) == [1] * (COLOURS - 1) + [2]
    assert {first[name] for name in sorted(first)[:APART]} == set(range(APART)), "those that are far apart come first"
    again = Library(tmp_path)
    assert {name: again.colour_of(name) for name in first} == first, "Studio is started again"
    shutil.rmtree(tmp_path / "run-03")
    shutil.copytree(gallery.tuned[0].path, tmp_path / "new")
    library.refresh()
    now = {row["id"]: row["colour"] for row in library.since(-1).rows}
    assert {name: colour for name, colour in now.items() if name != "new"} == {
        name: colour for name, colour in first.items() if name != "run-03"
    }
    assert max(Counter(now.values()).values()) <= 2


def test_settings_are_checked_as_on_the_command_line(studio: Studio) -> None:
    good = studio.post("/check", env="CartPole-v1:a2c", set={"algo.gamma": "0.5"})
    assert good["problems"] == []
    rows = {row["key"]: row for row in good["explained"]}
    assert rows["algo.gamma"]["value"] == "0.5"
    assert rows["algo.gamma"]["source"].startswith("--set")
    assert rows["algo.name"]["value"] == "a2c"
    bad = studio.post("/check", env="CartPole-v1", set={"algo.gamma": "2", "algo.gama": 1, "env.n_envs": -1})
    assert {problem["key"] for problem in bad["problems"]} == {"algo.gamma", "algo.gama", "env.n_envs"}
    assert "must be at most 1" in next(one["text"] for one in bad["problems"] if one["key"] == "algo.gamma")
    refused = studio.api.post("/api/start", json={"env": "CartPole-v1", "set": {"algo.gamma": 2}})
    assert refused.status_code == 400
    assert "algo.gamma" in refused.json()["error"]
    unknown = studio.post("/check", env="CartPolo-v1")
    assert "CartPole-v1" in unknown["problems"][0]["text"]
    own = studio.post("/check", env="tests.envs_for_tests:test/Counting-v0")  # no preset: made in another process
    assert {"env.id", "algo.gamma"} <= {row["key"] for row in own["explained"]}


@pytest.mark.parametrize("body", [b"", b"[]", b"{", b"\xff", b'{"env": 1}', b'{"env": "--help"}', b"[" * 100_000])
def test_what_is_no_request_is_one_line(studio: Studio, body: bytes) -> None:
    for path in ("/api/check", "/api/start"):
        answer = studio.api.post(path, content=body)
        assert answer.status_code in (200, 400)
        said = answer.json()
        assert said.get("error") or said.get("problems")


def test_broken_files_break_nothing(gallery: Gallery, tmp_path: Path) -> None:
    """Files as a kill, a bad disk or a stranger leaves them: every address answers, with what is left or one line."""
    rng, names = random.Random(0), ("run.json", "metrics.jsonl", "alerts.json", "config.yaml", "diagnostics.jsonl")
    runs_dir = tmp_path / "runs"
    for index in range(40):
        copy = runs_dir / f"{index:02}-{gallery.wild[0].id}"
        shutil.copytree(gallery.wild[0].path, copy)
        victim = copy / names[index % len(names)]
        victim.write_bytes(mutated(victim.read_bytes(), rng))
    for kind in ("fifo", "folder", "device", "loop", "nowhere"):
        copy = runs_dir / f"{kind}-{gallery.wild[0].id}"
        shutil.copytree(gallery.wild[0].path, copy)
        put_special(copy / names[len(kind) % len(names)], kind)
    with studio_of(runs_dir) as studio, studio.window() as window:
        window.ask("watch_runs")
        rows = {row["id"] for row in window.pushed("runs")["changed"]}
        assert len(rows) == 45
        for ref in sorted(rows):
            for place in ("", "/metrics?names=rollout/ep_rew_mean", "/diagnostics", "/next", "/file/metrics.jsonl"):
                answer = studio.api.get(f"/api/run/{ref}{place}")
                assert answer.status_code in (200, 400, 404), f"{ref}{place}: {answer.text[:300]}"
        assert window.ask("watch_runs")  # it still answers
