"""train, resume and eval through the command, with real runs."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

from gymnast.sinks.jsonl import read_metrics
from tests.cli.conftest import ROOT, TINY, Command, Outcome, Trained, environment
from tests.processes import running, wait_for

STEP = "time/total_timesteps"
PROMISED = {"run", "env_steps", "seconds", "fps", "solved", "eval_mean", "interval", "episodes", "stop_reason"}


def status(path: Path) -> str:
    return str(json.loads((path / "run.json").read_text())["status"])


def test_quiet_json_prints_one_line_and_the_folder_says_the_same(trained: Trained) -> None:
    assert trained.first.out.count("\n") == 1
    assert trained.first.err == ""
    result = trained.first.json
    assert result.keys() >= PROMISED
    assert (result["env_steps"], result["stop_reason"], result["solved"]) == (1024, "steps", False)
    assert result["episodes"] == 4  # stop.episodes
    assert result["interval"][0] <= result["eval_mean"] <= result["interval"][1]
    kept = json.loads((trained.path / "run.json").read_text())
    assert kept["status"] == "finished"
    assert kept["summary"]["score"] == result["eval_mean"]
    names = {path.name for path in (trained.path / "checkpoints").glob("*.safetensors")}
    assert names == {"best.safetensors", "last.safetensors", "step_512.safetensors", "step_1024.safetensors"}


def test_the_plain_console_shows_notices_rows_and_the_summary(trained: Trained) -> None:
    out = trained.second.err
    assert f"a new run from {trained.first.json['run']} at 1,024 steps" in out
    assert "algo.gamma: 0.99 -> 0.9" in out
    assert "1,536 100.0%" in out  # the last row: all steps done
    assert "NOT SOLVED" in out
    assert "\x1b[" not in out  # no colours where there is no terminal
    token = trained.second.json["run"].split("-")[0]
    assert f"gymnast resume {token} --steps 3072 --runs-dir" in out  # what to do next, ready to be copied


def test_resume_of_a_run_that_is_over_says_how_to_train_longer(gymnast: Command, trained: Trained) -> None:
    outcome = gymnast("resume", trained.first.json["run"], "--runs-dir", trained.runs_dir)
    assert outcome.code == 2
    assert "has done its 1,024 steps" in outcome.err
    assert "--steps 2048" in outcome.err


def test_resume_with_another_threshold_judges_the_best_agent_again(call: Command, tmp_path: Path) -> None:
    """That agent was judged by the old threshold. Nothing else is judged in the new run: it has no evaluations."""
    common = ("--quiet", "--json", "--runs-dir", tmp_path)
    goals = ("--set", "stop.threshold=12", "--set", "stop.target=null", "--set", "stop.on_solved=false")
    first = call("train", "CartPole-v1", *TINY, "--seed", "1", *goals, "--set", "stop.episodes=50", *common).json
    assert first["solved"]
    for threshold, solved in (("9.5", True), ("400", False)):
        other = ("--set", f"stop.threshold={threshold}", "--set", "eval.every=0", "--set", "stop.on_solved=true")
        result = call("resume", first["run"], "--steps", "1280", *other, *common).json
        assert (result["solved"], result["best_at"]) == (solved, first["best_at"])


def test_resume_with_another_setting_is_a_new_run_from_there(trained: Trained) -> None:
    result = trained.second.json
    assert (result["env_steps"], result["run"] == trained.first.json["run"]) == (1536, False)
    path = trained.runs_dir / result["run"]
    assert json.loads((path / "run.json").read_text())["parent"] == f"{trained.first.json['run']}/last"
    rows = [json.loads(line) for line in (path / "metrics.jsonl").read_text().splitlines()]
    # the history came along and goes on without a gap or a repetition: a row every rollout of 8 x 32 steps
    assert [row["time/total_timesteps"] for row in rows] == [256, 512, 768, 1024, 1280, 1536]
    assert status(trained.path) == "finished"  # the old one is as it was
    assert len((trained.path / "metrics.jsonl").read_text().splitlines()) == 4


def test_eval_for_machines_and_for_people(gymnast: Command, trained: Trained) -> None:
    options = ("--stochastic", "--runs-dir", trained.runs_dir, "--json")
    machine = gymnast("eval", trained.first.json["run"], *options)
    assert machine.code == 0, machine.err
    assert machine.out.count("\n") == 1
    result = machine.json
    assert (result["checkpoint"], result["episodes"], result["policy"]) == ("best", 4, "stochastic")  # stop.episodes
    assert gymnast("eval", trained.first.json["run"], "--episodes", "6", *options).json["episodes"] == 6
    assert result["solved"] == (result["eval_mean"] >= 475)
    human = gymnast("eval", trained.first.json["run"], *options[:-1]).out
    assert "4 fresh episodes, stochastic" in human
    assert f"{result['eval_mean']:.2f}" in human
    assert "NOT SOLVED" in human


def wait_for_row(path: Path, beyond: int, process: subprocess.Popen[str]) -> Path:
    """Until some run under `path` has metrics later than `beyond` env steps; its folder."""

    def found() -> list[Path]:
        files = path.glob("*/metrics.jsonl")
        return [file.parent for file in files if any(row[STEP] > beyond for row in read_metrics(file))]

    return wait_for(found, "row", process)[0]


def interrupted(args: list[str], runs_dir: Path, number: int, beyond: int = 0) -> tuple[Path, Outcome]:
    command = [sys.executable, "-m", "gymnast", *args, "--runs-dir", str(runs_dir), "--quiet", "--json"]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with running(command, cwd=ROOT, env=environment(), text=True, **pipes) as process:
        folder = wait_for_row(runs_dir, beyond, process)
        if beyond == 0:
            assert status(folder) == "running"
        process.send_signal(number)
        out, err = process.communicate()
    return folder, Outcome(process.returncode, out, err)


def test_signals_leave_a_run_that_goes_on_where_it_stopped(trained: Trained, tmp_path: Path) -> None:
    """More steps than any machine does in a minute: only a signal ends this. It starts from another run's agent."""
    never_ending = ["train", "CartPole-v1", "--steps", "50000000", "--set", "log.every=256", "--set", "eval.every=0"]
    folder, first = interrupted([*never_ending, "--init-from", str(trained.path)], tmp_path, signal.SIGINT)
    assert (first.code, first.err) == (130, "")
    assert first.json["stop_reason"] == "interrupted"
    assert status(folder) == "interrupted"
    done = first.json["env_steps"]
    assert json.loads((folder / "run.json").read_text())["parent"] == f"{trained.path.name}/best"
    assert f"initialised from {trained.path.name}/best" in (folder / "log.txt").read_text()

    # a resumed run is the same run: it goes on after the step it stopped at
    same, second = interrupted(["resume"], tmp_path, signal.SIGTERM, beyond=done)
    assert (second.code, second.err) == (130, "")
    assert (same, status(same)) == (folder, "interrupted")
    assert second.json["env_steps"] > done
    steps = [json.loads(line)["time/total_timesteps"] for line in (same / "metrics.jsonl").read_text().splitlines()]
    assert steps == list(range(2048, steps[-1] + 1, 2048))  # a row every rollout: none is missing, none is there twice


def test_warnings_of_an_env_are_lines_that_a_terminal_may_get(gymnast: Command) -> None:
    env = "tests.envs_for_tests:test/Troubled-v0"
    outcome = gymnast("envs", "check", env, "--set", "env.kwargs.trouble=warn", "--set", "env.max_episode_steps=9")
    (said,) = {line for line in outcome.err.splitlines() if "hot" in line}
    assert said.startswith("gymnast: warning: hot \\x1b]0;title\\x07 and loud (")
    assert "envs_for_tests.py, line " in said


def test_an_env_that_crashes_ends_the_run_with_its_traceback(gymnast: Command, tmp_path: Path) -> None:
    target = ("tests.envs_for_tests:test/Crashing-v0", "--set", "algo.n_steps=32", *TINY)
    outcome = gymnast("train", *target, "--quiet", "--json", "--runs-dir", tmp_path)
    assert outcome.code == 1
    assert "the gearbox is on fire" in outcome.err  # what the env raised
    assert "envs_for_tests.py" in outcome.err  # and where
    assert "the gearbox is on fire" in outcome.json["error"]
    assert "What next:\n  gymnast train tests.envs_for_tests:test/Crashing-v0" in outcome.err
    assert "gymnast envs check tests.envs_for_tests:test/Crashing-v0" in outcome.err
    (folder,) = tmp_path.iterdir()
    assert status(folder) == "crashed"
    shown = gymnast("runs", "show", "--runs-dir", tmp_path)
    assert "RuntimeError: the gearbox is on fire" in shown.out
