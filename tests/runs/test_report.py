"""The page about a run, `runs plot` and `runs compare`: of real runs that ended well, badly, or not yet."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from click.testing import CliRunner

from gymnast.cli import app
from gymnast.core.errors import UserError
from gymnast.report.next_steps import _other_seed, next_steps
from gymnast.report.page import return_chart
from gymnast.report.run_facts import RETURN, RunFacts
from gymnast.runs.references import Run
from gymnast.sinks.jsonl import read_metrics
from gymnast.verbs.train import start
from tests.runs.report_runs import ROLLOUT, SMALL, Gallery, refs
from tests.unit.test_docs import leaf_of

Verb = Callable[..., str]


@pytest.fixture(scope="module")
def gallery(tmp_path_factory: pytest.TempPathFactory) -> Gallery:
    return Gallery(tmp_path_factory.mktemp("gallery"))


@pytest.fixture
def gymnast(gallery: Gallery) -> Verb:
    """The command in this process; a user's mistake is raised."""

    def run(*args: str | Path) -> str:
        words = [*map(str, args), "--runs-dir", str(gallery.folder)]
        return CliRunner().invoke(app, words, catch_exceptions=False, standalone_mode=False).stdout

    return run


def page_of(run: Run) -> str:
    return run.report_path.read_text(encoding="utf-8")


def data_of(gymnast: Verb, *args: str | Path) -> dict[str, Any]:
    result = json.loads(gymnast(*args, "--json").splitlines()[-1])
    assert isinstance(result, dict)
    return result


def test_every_run_has_its_page_when_it_ends(gallery: Gallery) -> None:
    expected = {
        gallery.wild[0]: "# NOT SOLVED: CartPole-v1, ppo, seed 1",
        gallery.lake: "# NOT SOLVED: FrozenLake-v1, ppo, seed 1",
        gallery.blind: "# NOT JUDGED: CartPole-v1, ppo, seed 1",
        gallery.broken: "# CRASHED: tests.envs_for_tests:test/Troubled-v0, ppo, seed 1",
        gallery.stopped: "# INTERRUPTED: CartPole-v1, ppo, seed 1",
    }
    for run, headline in expected.items():
        assert page_of(run).startswith(headline), run.id


def test_the_page_says_what_the_folder_says(gallery: Gallery) -> None:
    run = gallery.tuned[0]
    summary = run.read().summary
    page = page_of(run)
    low, high = summary["interval"]
    assert f"{summary['eval_mean']:.2f}, 95 % interval {low:.2f} to {high:.2f}" in page
    assert "4 fresh episodes, greedy" in page
    assert "return  ▪ training   ◆ evaluation" in page
    rows = read_metrics(run.metrics_path)
    steps = [f"{int(row['time/total_timesteps']):,}" for row in rows]
    assert steps[-1] == "3,072"  # 12 rollouts of 8 envs x 32 steps
    first = next(line for line in page.splitlines() if re.match(r"\| +256 \|", line))
    assert f"{rows[0]['train/entropy']:.4f}" in first
    for key in ("`algo.n_steps`", "`eval.episodes`"):  # what the test's settings change in the preset
        assert key in page
    assert "`algo.gamma`" not in page.partition("## Settings")[2]
    assert "train.seed" not in page.partition("## Settings")[2].partition("## Made with")[0]
    assert "[checkpoints/last.safetensors](checkpoints/last.safetensors)" in page


def test_seconds_by_phase_add_up_to_the_runs_time(gallery: Gallery) -> None:
    """Shares of a row add up to 1 and are of the time since the row before: their sum is what the last row says."""
    facts = RunFacts(gallery.tuned[0])
    assert sum(facts.time_budget.values()) == pytest.approx(facts.latest["time/elapsed"], rel=0.02)
    assert list(facts.time_budget.values()) == sorted(facts.time_budget.values(), reverse=True)


def test_an_exact_value_stands_beside_the_sampled_one(gallery: Gallery, gymnast: Verb) -> None:
    verdict = data_of(gymnast, "report", gallery.lake.id)["verdict"]
    assert verdict["optimum"] == pytest.approx(0.7442, abs=1e-4)
    assert verdict["exact_value"] + verdict["regret"] == pytest.approx(verdict["optimum"])
    assert f"{verdict['exact_value']:.4f}, by the transition table" in page_of(gallery.lake)


def test_alerts_come_with_cause_and_command(gallery: Gallery, gymnast: Verb) -> None:
    page = page_of(gallery.wild[0])
    data = data_of(gymnast, "report", gallery.wild[0].id)
    assert data["alerts"], "a learning rate of 1 must trip a rule"
    alert = data["alerts"][0]
    assert f"**{alert['rule']}** ({alert['severity']})" in page
    assert f"**Likely cause:** {alert['cause']}" in page.replace("\\", "")  # a blank before the stars: not bold
    assert data["next"][0]["command"].startswith(alert["command"])  # the most urgent advice comes first
    assert data["next"][0]["command"].endswith(f"--runs-dir {gallery.folder}")
    assert "None: no rule fired." in page_of(gallery.stopped)
    (gallery.lake.path / "alerts.json").rename(gallery.lake.path / "away.json")
    try:
        assert "No alerts recorded." in gymnast("report", gallery.lake.id)  # a run from before there were any
    finally:
        (gallery.lake.path / "away.json").rename(gallery.lake.path / "alerts.json")


def test_what_to_try_next_fits_the_run_and_exists(gallery: Gallery, gymnast: Verb) -> None:
    ended_badly = [gallery.broken, gallery.stopped, gallery.killed]
    runs = [gallery.tuned[0], gallery.wild[0], gallery.lake, gallery.blind, *ended_badly]
    steps = {run.id: data_of(gymnast, "report", run.id)["next"] for run in runs}
    for step in (step for found in steps.values() for step in found):
        words = step["command"].split()[1:]
        command, rest = leaf_of(words)
        known = {option for parameter in command.params for option in parameter.opts}
        assert {word for word in rest if word.startswith("--")} <= known, step
    stopped, killed, broken = gallery.stopped, gallery.killed, gallery.broken
    assert steps[stopped.id][0]["command"].startswith(f"gymnast resume {stopped.id.split('-')[0]} ")
    assert steps[killed.id][0]["command"].startswith("gymnast resume zzzzz ")
    assert any(step["command"].startswith("gymnast envs check tests.envs_for_tests:") for step in steps[broken.id])
    assert steps[broken.id][0]["why"] == "go on at 256 steps, its last checkpoint"  # of its first update
    assert any(step["command"].startswith("gymnast train CartPole-v1:ppo --seed 1") for step in steps[gallery.blind.id])


def test_a_run_without_a_checkpoint_starts_again(gallery: Gallery, tmp_path: Path) -> None:
    path = tmp_path / gallery.broken.path.name
    shutil.copytree(gallery.broken.path, path, ignore=shutil.ignore_patterns("last.*"))
    info = json.loads((path / "run.json").read_text())
    (path / "run.json").write_text(json.dumps(info | {"command": ["gymnast", "train", "CartPole-v1"]}))
    (first, *_) = next_steps(RunFacts(Run(path)))
    assert first == ("gymnast train CartPole-v1", "start again: it left no checkpoint")


def test_a_solved_run_says_what_showed_it(gallery: Gallery, gymnast: Verb) -> None:
    """Any score solves it at a threshold of 5: every episode of CartPole lasts longer than that."""
    run = gallery.train("CartPole-v1", "stop.threshold=5", "stop.on_solved=true", seed=5, steps=4 * ROLLOUT)
    data = data_of(gymnast, "report", run.id)
    assert data["verdict"]["headline"] == "SOLVED"
    assert data["env_steps"] == 2 * ROLLOUT  # at its first evaluation, after 512 steps
    assert "A test showed a mean above the threshold of 5, with an error of at most 5 % of runs." in page_of(run)
    commands = [step["command"] for step in data["next"]]
    assert commands[0] == f"gymnast video {run.read().token} --runs-dir {gallery.folder}"
    assert commands[1] == "gymnast benchmark CartPole-v1:ppo --seeds 5"
    shutil.rmtree(run.path)


def test_a_run_in_training_and_runs_that_ended_badly(gallery: Gallery) -> None:
    assert gallery.seen_live.startswith("# STILL TRAINING: CartPole-v1")
    assert "256 of 3,072 steps" in gallery.seen_live
    broken = page_of(gallery.broken)
    assert "the gearbox is on fire" in broken
    assert "No episode ended" in broken  # Troubled-v0 has no end
    blind = page_of(gallery.blind)
    assert "Never evaluated" in blind
    assert "◆" not in blind
    assert "Stopped: by the user" in page_of(gallery.stopped)


def test_a_live_run_is_not_written_to_by_others(gallery: Gallery, gymnast: Verb) -> None:
    killed = gallery.killed
    killed.report_path.unlink(missing_ok=True)
    data = json.loads((killed.path / "run.json").read_text())
    (killed.path / "run.json").write_text(json.dumps({**data, "host": "elsewhere"}))  # of another host its word counts
    assert gymnast("report", killed.id).startswith("# STILL TRAINING")
    assert not killed.report_path.exists()
    (killed.path / "run.json").write_text(json.dumps(data))
    assert gymnast("report", killed.id).startswith("# KILLED")
    assert "Its process ended without a word" in page_of(killed)


def test_a_run_without_rows_or_with_broken_files_has_a_page_too(gallery: Gallery, gymnast: Verb) -> None:
    path = gallery.folder / "yyyyy-cartpole-v1-ppo-s1"
    shutil.copytree(gallery.tuned[0].path, path)
    lines = (path / "metrics.jsonl").read_text().splitlines()
    first = json.loads(lines[0]) | {"rollout/ep_rew_mean": "NaN", "train/entropy": "NaN", "train/approx_kl": "Infinity"}
    (path / "metrics.jsonl").write_text("\n".join([json.dumps(first), *lines[1:], lines[-1][:20]]))
    assert "| 256 |" in re.sub(" +", " ", gymnast("report", "yyyyy"))
    (path / "metrics.jsonl").unlink()
    (path / "config.yaml").write_text("env: [")
    (path / "alerts.json").write_text("{}")
    page = gymnast("report", "yyyyy")
    assert "No metrics were written" in page
    assert page.count("**Problem: **") == 2
    compared = gymnast("runs", "compare", "yyyyy", gallery.tuned[0].id)
    assert "yyyyy has written no metrics" in compared
    with pytest.raises(UserError, match="no return to plot: yyyyy"):
        gymnast("runs", "plot", "yyyyy")
    shutil.rmtree(path)


def test_rows_and_alerts_that_no_run_writes_do_not_keep_the_page_from_being_shown(
    gallery: Gallery, gymnast: Verb, tmp_path: Path
) -> None:
    """A share of the time beyond all, a return that is huge and constant, a command that no shell could read."""
    path = gallery.folder / "qqqqq-cartpole-v1-ppo-s1"
    shutil.copytree(gallery.wild[0].path, path)
    rows = [json.loads(line) for line in (path / "metrics.jsonl").read_text().splitlines()]
    odd = {RETURN: -1e18, "time/share/env": 1e9}
    kept = ("time/total_timesteps", "time/elapsed")
    (path / "metrics.jsonl").write_text("".join(json.dumps({k: row[k] for k in kept} | odd) + "\n" for row in rows))
    alerts = json.loads((path / "alerts.json").read_text())
    alerts["alerts"] = [alert | {"command": 'gymnast train "x', "patch": {"a": 1}} for alert in alerts["alerts"]]
    (path / "alerts.json").write_text(json.dumps(alerts))
    page = gymnast("report", "qqqqq")
    assert "cannot be made" not in page
    assert 'gymnast train "x' in page
    assert gymnast("report", "qqqqq", "--html", "--out", tmp_path / "x.html")
    assert "-1,000,000,000,000,000,000" in gymnast("runs", "plot", "qqqqq", "--metric", RETURN)
    gymnast("runs", "plot", "qqqqq", "--metric", RETURN, "--out", tmp_path / "x.png")
    assert "cannot be shown" not in gymnast("runs", "show", "qqqqq")
    shutil.rmtree(path)


def test_a_run_whose_returns_are_huge_and_constant(tmp_path: Path) -> None:
    """It comes to its end, with a page; every episode of 5 steps returns -5e18."""
    settings = [*SMALL, "env.engine=sync"]
    done = start("tests.envs_for_tests:test/Ruinous-v0", settings, tmp_path, 1, 2 * ROLLOUT, quiet=True)
    run = Run(tmp_path / done.run)
    assert run.read().status == "finished"
    assert "cannot be made" not in page_of(run)
    assert {"report", "failed"} & set(run.log_path.read_text().split()) == set()
    words = ["runs", "show", run.id, "--runs-dir", str(tmp_path)]
    assert "-5,000,000,000" in CliRunner().invoke(app, words, catch_exceptions=False, standalone_mode=False).stdout


def test_a_part_that_cannot_be_made_is_a_line_of_the_page(
    gallery: Gallery, gymnast: Verb, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*args: Any) -> Any:
        raise ValueError("math domain error")

    monkeypatch.setattr("gymnast.report.page.return_chart", fails)
    monkeypatch.setattr("gymnast.terminal.runs.return_chart", fails)
    page = gymnast("report", gallery.tuned[0].id)
    assert page.count("**Problem: **this section cannot be made: ValueError: math domain error") == 1
    assert "## Settings" in page
    shown = gymnast("runs", "show", gallery.tuned[0].id)
    assert "problem: this part cannot be shown: ValueError: math domain error" in shown
    assert "metrics at" in shown


def test_videos_are_linked(gallery: Gallery, gymnast: Verb) -> None:
    videos = gallery.tuned[1].path / "videos"
    videos.mkdir()
    (videos / "best.mp4").write_bytes(b"")
    (videos / "best.json").write_text(json.dumps({"parts": [{"step": 2048}]}))
    (videos / "my video.mp4").write_bytes(b"")
    page = gymnast("report", gallery.tuned[1].id)
    assert "[videos/best.mp4](videos/best.mp4): video of the agent at 2,048 steps" in page
    assert "(videos/my%20video.mp4)" in page
    gymnast("report", gallery.tuned[1].id, "--html")
    html = (gallery.tuned[1].path / "report.html").read_text(encoding="utf-8")
    assert '<video controls preload="metadata" src="videos/my%20video.mp4"></video>' in html


def test_a_small_video_is_part_of_the_html(gallery: Gallery, gymnast: Verb, tmp_path: Path) -> None:
    videos = gallery.wild[1].path / "videos"
    videos.mkdir()
    (videos / "best.mp4").write_bytes(b"\0" * 9)
    gymnast("report", gallery.wild[1].id, "--html", "--out", tmp_path / "page.html")
    assert 'src="data:video/mp4;base64,AAAAAAAAAAAA"' in (tmp_path / "page.html").read_text(encoding="utf-8")
    shutil.rmtree(videos)


def test_the_page_says_whose_score_it_is_and_draws_what_was_learned_with(gallery: Gallery, gymnast: Verb) -> None:
    run = next(run for run in gallery.wild if run.read().summary["last_at"] != run.read().summary["best_at"])
    summary, data = run.read().summary, data_of(gymnast, "report", run.id)
    agent = f"the best, at {summary['best_at']:,} steps; the last evaluation, at {summary['last_at']:,}: "
    assert data["verdict"]["agent"].startswith(agent)
    assert agent in page_of(run)
    assert agent in gymnast("runs", "show", run.id)
    chart = return_chart(RunFacts(run))
    assert [curve.name for curve in chart.curves] == ["training", "evaluation", "verdict"]
    evaluations, verdict = chart.curves[1:]
    row = next(row for row in read_metrics(run.metrics_path) if "eval/mean_reward" in row)
    error = 2 * row["eval/std_reward"] / row["eval/episodes"] ** 0.5
    assert evaluations.band[0][2] - evaluations.points[0][1] == pytest.approx(error)
    assert verdict.band[0][1:] == pytest.approx(tuple(summary["interval"]))
    gymnast("report", run.id, "--html")
    html = (run.path / "report.html").read_text(encoding="utf-8")
    for name in ("rollout/ep_len_mean", "train/value_loss", "train/policy_gradient_loss", "train/grad_norm"):
        assert f">{name}</text>" in html
    assert "prefers-color-scheme: dark" in html
    assert "over the run" in page_of(run)
    assert "▁" not in html  # blocks stand in for pictures in Markdown only


def test_an_unfinished_run_says_where_it_goes_on(gallery: Gallery, gymnast: Verb) -> None:
    """With the engine's word on episodes that it cannot take up."""
    where = "256 steps, its last checkpoint"
    assert where in gymnast("runs", "show", gallery.stopped.id)
    assert f"(go on at {where})" in page_of(gallery.stopped)
    path = gallery.folder / gallery.stopped.id.replace(gallery.stopped.id.split("-")[0], "qqqqq")
    shutil.copytree(gallery.stopped.path, path)
    Run(path).update(summary={"engine": "envpool", "exact_resume": False, "env_steps": 300})
    shown = " ".join(gymnast("runs", "show", "qqqqq").split())
    shutil.rmtree(path)
    assert f"{where}; 44 steps after it are lost; episodes in progress start again, as envpool cannot" in shown


class Checked(HTMLParser):
    """Tags that are closed in order; what a page would fetch or run."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[str] = []
        self.links: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.links += [value or "" for name, value in attrs if name in ("href", "src")]
        assert not [name for name, _ in attrs if name.startswith("on")]
        if tag not in ("meta", "br"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)


def test_html_stands_alone_and_escapes_everything(gallery: Gallery, gymnast: Verb, tmp_path: Path) -> None:
    path = gallery.folder / "xxxxx-cartpole-v1-ppo-s1"
    shutil.copytree(gallery.wild[0].path, path)
    evil = '<script>alert("x")</script>'
    data = json.loads((path / "run.json").read_text())
    (path / "run.json").write_text(json.dumps({**data, "env": evil, "host": evil, "command": ["gymnast", evil]}))
    alerts = json.loads((path / "alerts.json").read_text())
    alerts["alerts"][0] |= {"message": evil, "cause": evil}
    (path / "alerts.json").write_text(json.dumps(alerts))
    out = tmp_path / "page.html"
    assert gymnast("report", "xxxxx", "--html", "--out", out) == f"wrote {out}\n"
    text = out.read_text(encoding="utf-8")
    page = Checked()
    page.feed(text)
    assert page.open == []
    assert "script" not in page.tags
    assert "&lt;script&gt;" in text
    assert page.tags.count("svg") >= 4  # the return and the metrics that matter
    assert not [link for link in page.links if "//" in link]
    config = next(link for link in page.links if link.endswith("config.yaml"))
    assert (out.parent / config).resolve() == (path / "config.yaml").resolve()  # links lead back to the run
    in_code = re.compile("```.*?```|`[^`]+`", re.DOTALL)  # shown as it is
    words = in_code.sub("", gymnast("report", "xxxxx"))
    assert "\\<script" in words
    assert not re.search(r"(?<!\\)<script", words)  # nor does Markdown take it for HTML
    shutil.rmtree(path)


def test_where_a_page_goes(gallery: Gallery, gymnast: Verb, tmp_path: Path) -> None:
    run = gallery.tuned[0]
    assert gymnast("report", run.id, "--html") == f"wrote {run.path / 'report.html'}\n"
    assert "[report.html](report.html)" in gymnast("report", run.id)
    assert gymnast("report", run.id, "--out", tmp_path / "a.md") == f"wrote {tmp_path / 'a.md'}\n"
    with pytest.raises(UserError, match=r"must end in \.html"):
        gymnast("report", run.id, "--html", "--out", tmp_path / "a.md")
    with pytest.raises(UserError, match="cannot write"):
        gymnast("report", run.id, "--out", tmp_path / "missing" / "a.md")


def test_compare_names_what_differs(gallery: Gallery, gymnast: Verb) -> None:
    tuned, wild = gallery.tuned[0], gallery.wild[0]
    human = gymnast("runs", "compare", tuned.id, wild.id)
    rate = RunFacts(tuned).settings["algo"]["learning_rate"]
    assert re.search(rf"algo\.learning_rate +{re.escape(str(rate))} +1\.0", human)
    assert f"B has algo.learning_rate 1.0 instead of {rate}." in human
    data = data_of(gymnast, "runs", "compare", tuned.id, wild.id)
    assert set(data["config"]) == {"algo.learning_rate"}
    assert data["versions"] == {}
    assert any(counts == [0, 1] for counts in data["alerts"].values())
    scores = [run.read().summary["score"] for run in (tuned, wild)]
    assert data["differences"][0]["score"]["value"] == pytest.approx(scores[1] - scores[0])
    assert "low" not in data["differences"][0]["score"]  # one run a side has no interval
    assert any("only one run each: another seed alone can make such a difference" in line for line in data["reasons"])


def test_groups_of_seeds_have_intervals(gallery: Gallery, gymnast: Verb) -> None:
    joined = data_of(gymnast, "runs", "compare", refs(gallery.tuned), refs(gallery.wild))
    alone = data_of(gymnast, "runs", "compare", *(run.id for run in [*gallery.tuned, *gallery.wild]))  # by config
    assert [len(side["runs"]) for side in joined["sides"]] == [2, 2]
    assert joined["measures"] == alone["measures"]
    found = joined["measures"]["score"][0]
    scores = [run.read().summary["score"] for run in gallery.tuned]
    assert found["value"] == pytest.approx(sum(scores) / 2)  # of two runs nothing is cut off
    assert (found["low"], found["high"]) == pytest.approx((min(scores), max(scores)))  # both drawn twice: 1 in 4 each
    assert "train.seed" not in joined["config"]
    apart = data_of(gymnast, "runs", "compare", *(run.id for run in gallery.tuned))  # seeds against each other
    assert apart["config"] == {"train.seed": [1, 2]}
    assert len(data_of(gymnast, "runs", "compare", "@all:CartPole-v1", "--group", "none")["sides"]) == 7
    with pytest.raises(UserError, match="on two sides"):
        gymnast("runs", "compare", refs(gallery.tuned), refs(gallery.tuned))


def test_repeats_of_a_seed_are_no_replications(gallery: Gallery, gymnast: Verb) -> None:
    """The killed run is a copy of the first wild one, the interrupted one has the settings and seed of the first tuned
    one: neither makes an interval narrower."""
    wild, tuned = gallery.wild[0], gallery.tuned[0]
    note = f"{gallery.killed.read().token} repeats {wild.read().token}, same settings and seed: counted once"
    data = data_of(gymnast, "runs", "compare", refs(gallery.tuned), refs([*gallery.wild, gallery.killed]))
    assert [len(side["runs"]) for side in data["sides"]] == [2, 2]
    assert note in data["history"][1]
    drawn = data_of(gymnast, "runs", "plot", wild.id, gallery.killed.id)
    assert [side["runs"] for side in drawn["panels"][0]["sides"].values()] == [1]
    assert note in drawn["notes"]
    pair = data_of(gymnast, "runs", "compare", tuned.id, gallery.stopped.id)
    assert any("the same settings and seed: a repeat" in line for line in pair["reasons"])


def test_better_is_said_only_of_what_is_shown(gallery: Gallery, gymnast: Verb) -> None:
    """Two runs a side can stand in 6 orders: that all of one side come first is chance in 2 of 6 cases."""
    both = data_of(gymnast, "runs", "compare", refs(gallery.tuned), refs(gallery.wild))["reasons"][0]
    assert both.startswith(("No difference is shown: score", "No difference can be seen: score"))
    seeds = data_of(gymnast, "runs", "compare", *(run.id for run in gallery.tuned))["reasons"][0]
    (a_low, a_high), (b_low, b_high) = (run.read().summary["interval"] for run in gallery.tuned)
    overlap = max(a_low, b_low) <= min(a_high, b_high)
    assert seeds.startswith("No difference can be seen between their agents" if overlap else "The agent of B is")


def test_what_a_run_has_not_is_not_null(gallery: Gallery, gymnast: Verb) -> None:
    """A2C has no clip range."""
    few = ["env.n_envs=8", "eval.episodes=2", "stop.episodes=4"]
    a2c = Run(gallery.folder / start("CartPole-v1:a2c", few, gallery.folder, steps=ROLLOUT, quiet=True).run)
    data = data_of(gymnast, "runs", "compare", gallery.tuned[0].id, a2c.id)
    assert data["config"]["algo.clip_range"][1] == "n/a"
    assert any("no algo.clip_range (A: " in line for line in data["reasons"])
    shutil.rmtree(a2c.path)


def test_the_list_tells_runs_apart(gallery: Gallery, gymnast: Verb, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")  # narrow terminals lose columns
    named = gallery.train("CartPole-v1", "algo.gamma=0.9", steps=ROLLOUT, name="short", tags=("gamma", "try"))
    other = gallery.train("tests.envs_for_tests:test/Counting-v0", steps=ROLLOUT)
    try:
        runs = {run["run"]: run for run in data_of(gymnast, "runs", "list")["runs"]}
        assert runs[gallery.wild[0].id]["changes"]["algo.learning_rate"] == 1.0
        assert "algo.learning_rate" not in runs[gallery.tuned[0].id]["changes"]
        assert runs[other.id]["solved"] is None  # there is no threshold
        assert runs[gallery.stopped.id]["training_return"] == RunFacts(gallery.stopped).latest["rollout/ep_rew_mean"]
        human = gymnast("runs", "list")
        assert re.search(rf"{named.read().token} +short +CartPole-v1 .*gamma=0\.9.* gamma, try", human)

        def listed(*words: str) -> list[str]:
            return [run["run"] for run in data_of(gymnast, "runs", "list", *words)["runs"]]

        for words in (("--tag", "gamma", "--tag", "try"), ("--name", "sho"), ("--limit", "1", "--name", "short")):
            assert listed(*words) == [named.id]
        assert listed("--env", "FrozenLake-v1") == [gallery.lake.id]
        assert listed("--status", "crashed") == [gallery.broken.id]
        assert listed("--algo", "a2c", "--solved") == []
        scores = [runs[name]["score"] for name in listed("--sort", "score", "--env", "CartPole-v1")]
        known = [score for score in scores if score is not None]
        assert scores == [*sorted(known, reverse=True), *[None] * (len(scores) - len(known))]
        assert data_of(gymnast, "runs", "show", "short")["run"] == named.id  # its name is a reference
    finally:
        for run in (named, other):
            shutil.rmtree(run.path)
    assert "none of the" in gymnast("runs", "list", "--name", "short")
    with pytest.raises(UserError, match="--name '@x': a name is one word"):
        gallery.train("CartPole-v1", name="@x")


def test_what_does_not_compare_is_said(gallery: Gallery, gymnast: Verb) -> None:
    other = data_of(gymnast, "runs", "compare", gallery.tuned[0].id, gallery.lake.id)
    assert other["reasons"] == ["Runs of different envs (CartPole-v1, FrozenLake-v1): their scores do not compare."]
    assert other["differences"] == []
    printed = gymnast("runs", "compare", gallery.tuned[0].id, gallery.blind.id, gallery.stopped.id, gallery.broken.id)
    assert f"{gallery.blind.read().token} was never evaluated" in printed
    assert f"{gallery.stopped.read().token} was interrupted at 256 of 3,072 steps" in printed
    assert f"{gallery.broken.read().token} crashed at" in printed
    assert "Name a second run" in gymnast("runs", "compare", gallery.tuned[0].id)


def test_a_resumed_run_says_so(gallery: Gallery, gymnast: Verb) -> None:
    from gymnast.verbs.train import resume

    path = gallery.folder / gallery.stopped.id.replace(gallery.stopped.id.split("-")[0], "wwwww")
    shutil.copytree(gallery.stopped.path, path)
    resume("wwwww", [], gallery.folder, quiet=True)
    assert Run(path).read().resumed_at == [ROLLOUT]
    assert "Resumed at 256 steps." in page_of(Run(path))
    assert "wwwww was resumed at 256 steps" in gymnast("runs", "compare", "wwwww", gallery.tuned[0].id)
    shutil.rmtree(path)


def test_plot_draws_every_clock_and_metric(gallery: Gallery, gymnast: Verb) -> None:
    run = gallery.tuned[0]
    rows = read_metrics(run.metrics_path)
    for x, clock in {"vec_steps": "time/vec_steps", "updates": "time/updates", "seconds": "time/elapsed"}.items():
        panel = data_of(gymnast, "runs", "plot", run.id, "--x", x, "--metric", "entropy")["panels"][0]
        (side,) = panel["sides"].values()
        assert side["line"] == [[row[clock], row["train/entropy"]] for row in rows]
    human = gymnast("runs", "plot", run.id, "--metric", "entropy", "--metric", "eval/mean_reward")
    assert "12 updates" not in human
    assert human.count("3,072 env steps") == 2


def test_an_evaluation_stands_where_its_agent_was(gallery: Gallery, gymnast: Verb) -> None:
    """Evaluated in the background: asked for after 512 steps of 8 envs, reported in the row of 1,024."""
    path = gallery.folder / "vvvvv-cartpole-v1-ppo-s1"
    shutil.copytree(gallery.tuned[0].path, path)
    row = {"time/total_timesteps": 1024, "time/vec_steps": 128, "eval/mean_reward": 9, "eval/step": 512}
    (path / "metrics.jsonl").write_text(json.dumps(row) + "\n")
    for x, place in (("steps", 512), ("vec_steps", 64)):
        panel = data_of(gymnast, "runs", "plot", "vvvvv", "--x", x, "--metric", "eval/mean_reward")["panels"][0]
        assert panel["sides"]["vvvvv"]["line"] == [[place, 9]]
    shutil.rmtree(path)


def test_plot_puts_seeds_together(gallery: Gallery, gymnast: Verb) -> None:
    names = [run.id for run in [*gallery.tuned, *gallery.wild]]
    data = data_of(gymnast, "runs", "plot", *names, "--metric", "train/entropy")
    rate = RunFacts(gallery.tuned[0]).settings["algo"]["learning_rate"]
    assert list(data["panels"][0]["sides"]) == [f"learning_rate={rate}", "learning_rate=1.0"]
    assert data["title"] == "CartPole-v1"
    side = next(iter(data["panels"][0]["sides"].values()))
    last = [RunFacts(run).latest["train/entropy"] for run in gallery.tuned]
    assert side["line"][-1] == pytest.approx([12 * ROLLOUT, sum(last) / 2])
    assert side["band"][-1] == pytest.approx([12 * ROLLOUT, min(last), max(last)])
    apart = data_of(gymnast, "runs", "plot", *names, "--metric", "train/entropy", "--group", "none")
    assert len(apart["panels"][0]["sides"]) == 4


def test_plot_says_what_is_missing(gallery: Gallery, gymnast: Verb, tmp_path: Path) -> None:
    blind, tuned = gallery.blind, gallery.tuned[0]
    printed = gymnast("runs", "plot", blind.id, tuned.id, "--metric", "eval/mean_reward")
    assert f"{blind.read().token} has no eval/mean_reward" in printed
    assert "do not compare" in gymnast("runs", "plot", tuned.id, gallery.lake.id)
    with pytest.raises(UserError, match="Did you mean 'entropy'"):
        gymnast("runs", "plot", tuned.id, "--metric", "entrpy")
    with pytest.raises(UserError, match=r"Did you mean 'approx_kl'.*`gymnast runs show \w+ --json` lists all"):
        gymnast("runs", "plot", tuned.id, "--metric", "kl")
    with pytest.raises(UserError, match=r"none of these runs has train/std\. They have: train/"):
        gymnast("runs", "plot", tuned.id, "--metric", "train/std")
    with pytest.raises(UserError, match="must end in one of"):
        gymnast("runs", "plot", tuned.id, "--out", tmp_path / "a.gif")
    with pytest.raises(UserError, match="no run of Pong"):
        gymnast("runs", "plot", "@all:Pong")


@pytest.mark.parametrize(("name", "magic"), [("a.png", b"\x89PNG"), ("a.svg", b"<?xml")])
def test_plot_writes_pictures(gallery: Gallery, gymnast: Verb, tmp_path: Path, name: str, magic: bytes) -> None:
    out = tmp_path / name
    printed = gymnast("runs", "plot", refs(gallery.tuned), refs(gallery.wild), gallery.lake.id, "--out", out)
    assert out.read_bytes().startswith(magic)
    assert f"wrote {out}" in printed
    assert "┤" not in printed
    assert "┤" in gymnast("runs", "plot", refs(gallery.tuned), "--out", out, "--text")


def test_a_run_from_python_has_its_page_too(tmp_path: Path) -> None:
    from gymnast import PPO

    model = PPO("CartPole-v1", n_steps=64, n_envs=1, seed=1, runs_dir=str(tmp_path))
    model.learn(128)
    assert model.run is not None
    page = page_of(model.run)
    assert page.startswith("# NOT JUDGED: CartPole-v1, ppo, seed 1")
    assert "128 of 128 steps" in page
    assert "These differ from the preset CartPole-v1:ppo" in page  # stable-baselines3's defaults are not the preset's


def test_another_seed_is_advised_with_the_settings_that_were_typed() -> None:
    typed = ["gymnast", "train", "mine:Grid-v0", "--set", "env.wrappers=[one_hot]", "--seed", "4", "--steps", "9"]
    info = SimpleNamespace(command=typed, seed=4, env="mine:Grid-v0")
    facts: Any = SimpleNamespace(info=info, target="mine:Grid-v0:ppo")
    expected = "gymnast train mine:Grid-v0 --set 'env.wrappers=[one_hot]' --steps 9 --seed 5 --runs-dir x"
    assert _other_seed(facts, " --runs-dir x") == expected
    info.command = ["pytest"]
    assert _other_seed(facts, "") == "gymnast train mine:Grid-v0:ppo --seed 5"
