"""Evaluation in the background changes when a number is known, and no number."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from gymnast import PPO
from gymnast.config import RunConfig
from gymnast.core.files import TEMPORARY
from gymnast.jobs.worker import Event, Worker
from gymnast.judge import background
from gymnast.metrics.catalogue import catalogue
from gymnast.report.run_facts import RunFacts
from gymnast.runs import checkpoint
from gymnast.runs.references import Run, RunInfo
from gymnast.sinks.jsonl import read_metrics
from gymnast.training.loop import Result, train
from gymnast.training.state import TrainState, restore
from tests.invariants.conftest import small_config
from tests.invariants.test_resume import equal, without_time
from tests.processes import running, wait_for

Rows = list[dict[str, float]]
NORMALISED = {"normalize_obs": True, "normalize_reward": True, "hidden": [16]}
ABOUT_JUDGING = ("eval/", "verdict/", "solved")


class Heard(Worker):
    """The real worker, and a count of what it reported."""

    made: list[Heard]
    reports: int

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        Heard.made.append(self)

    def hear(self, seconds: float | None = 0.0) -> Event | None:
        event = super().hear(seconds)
        Heard.reports += event is not None and event.kind == "result"
        return event

    def wait_for_answer(self) -> None:
        if not self.free and not self._output.closed:  # a free one has nothing to say
            self._answers.poll(300_000)


@pytest.fixture
def heard(monkeypatch: pytest.MonkeyPatch) -> type[Heard]:
    monkeypatch.setattr(background, "Worker", Heard)
    monkeypatch.setattr(background, "NICENESS", 0)  # a busy machine shall not decide how these tests end
    monkeypatch.setattr(background, "LAST_RESULT_SECONDS", 300.0)
    Heard.made, Heard.reports = [], 0
    return Heard


def patient(rows: Rows, then: Any = None) -> Any:
    """An observer that lets the worker finish before training goes on: these runs are shorter than its start."""

    def observe(row: dict[str, float]) -> None:
        rows.append(row)
        if Heard.made and "train/loss" in row:
            Heard.made[-1].wait_for_answer()
        if then is not None:
            then(row)

    return observe


def training(rows: Rows) -> Rows:
    """The rows of training, without what is said of evaluations in them."""
    return [
        {name: value for name, value in row.items() if not name.startswith(ABOUT_JUDGING)}
        for row in rows
        if "train/loss" in row
    ]


def judged(rows: Rows) -> dict[tuple[str, float], dict[str, float]]:
    """What was found out, by the step of the agent it was found out about."""
    found: dict[tuple[str, float], dict[str, float]] = {}
    for row in without_time(rows):
        for kind in ("eval", "verdict"):
            if f"{kind}/step" in row:
                key = kind, row[f"{kind}/step"]
                assert key not in found  # reported once
                found[key] = {name: value for name, value in row.items() if name.startswith(f"{kind}/")}
    return found


def both_ways(
    make_session: Any, threshold: float | None = None, folder: Path | None = None, **sections: Any
) -> list[tuple[TrainState, Result, Rows]]:
    """The same run with evaluations inline and in the background."""
    runs = []
    for in_background in (False, True):
        settings = sections | {"eval": {**sections.get("eval", {}), "background": in_background}}
        session = make_session(small_config(**settings), threshold)
        rows: Rows = []
        place = None if folder is None else folder / str(in_background)
        runs.append((session, train(session, checkpoints=place, observer=patient(rows)), rows))
    return runs


@pytest.mark.parametrize("env, algo", [("CartPole-v1", "ppo"), ("Pendulum-v1", "a2c"), ("FrozenLake-v1", "reinforce")])
def test_every_number_is_the_same(env: str, algo: str, make_session: Any, heard: type[Heard]) -> None:
    often = {"every": 512, "episodes": 2, "policy": "both"}
    budget = {"total_timesteps": 2048, "seed": 1}
    inline, behind = both_ways(make_session, name=algo, env_id=env, agent=NORMALISED, eval=often, train=budget)
    # 2048 steps, evaluated every 512: three looks in the background, the last one inline
    assert heard.reports == 3
    assert judged(inline[2]) == judged(behind[2])
    assert [step for kind, step in judged(behind[2]) if kind == "eval"] == [512, 1024, 1536, 2048]
    equal(training(inline[2]), training(behind[2]))
    for name, tensor in inline[0].agent.state_dict().items():
        assert torch.equal(tensor, behind[0].agent.state_dict()[name]), name
    late = [row for row in behind[2] if "train/loss" not in row]
    assert [row["eval/step"] < row["time/total_timesteps"] for row in late] == [True] * 3
    assert all(list(row) == list(catalogue().sort(row)) for row in behind[2])


def test_the_best_checkpoint_is_the_file_that_inline_evaluation_writes(
    make_session: Any, heard: type[Heard], tmp_path: Path
) -> None:
    """Whole: agent, optimizer, envs, random numbers and counters of the moment that was evaluated."""
    both_ways(make_session, folder=tmp_path, train={"total_timesteps": 4096, "seed": 2})
    files = [checkpoint.load(tmp_path / name / "best.safetensors") for name in ("False", "True")]
    inline, behind = files
    assert heard.reports == 3
    assert inline.step is not None
    assert inline.step < 4096  # or the background had no part in it: another seed is needed
    assert inline.tensors.keys() == behind.tensors.keys()
    for name, tensor in inline.tensors.items():
        assert torch.equal(tensor, behind.tensors[name]), name
    for other in ("elapsed", "config", "alerts"):  # alerts have seen the report with the row, or have not seen it yet
        del inline.state[other], behind.state[other]
    assert inline.state == behind.state
    equal([inline.metrics], [behind.metrics])
    tables = [(tmp_path / name / "best.csv").read_text() for name in ("False", "True")]
    assert tables[0] == tables[1]


@pytest.mark.parametrize("watch, threshold", [("eval", 60.0), ("train", 30.0)])
def test_a_verdict_judges_the_frozen_copy(
    watch: str, threshold: float, make_session: Any, heard: type[Heard], tmp_path: Path
) -> None:
    """A threshold that is reached half-way: the run stops later, but for the same agent with the same episodes."""
    stop = {"on_solved": True, "episodes": 10, "watch": watch}
    (a, inline, _), (b, behind, rows) = both_ways(
        make_session, threshold, tmp_path, stop=stop, train={"total_timesteps": 30_000, "seed": 1}
    )
    assert heard.reports > 0
    assert (inline.stop_reason, behind.stop_reason) == ("solved", "solved")
    assert inline.verdict is not None
    assert behind.verdict is not None
    assert inline.verdict.evaluation.returns.tolist() == behind.verdict.evaluation.returns.tolist()
    assert inline.verdict.attempts == behind.verdict.attempts
    assert a.judge.record.best_at == b.judge.record.best_at == inline.env_steps < behind.env_steps
    assert rows[-1]["solved"] == 1.0
    weights = checkpoint.load(tmp_path / "True" / "best.safetensors").tensors
    for name, tensor in a.agent.state_dict().items():  # the inline run ended with the agent that passed
        assert torch.equal(tensor, weights[f"agent/{name}"]), name


def test_resumed_equals_uninterrupted(make_session: Any, heard: type[Heard], tmp_path: Path) -> None:
    """A look under way at an interruption is part of the checkpoint, and taken again. What holds: rows of training are
    equal, every evaluation is reported once with the same numbers; only between which rows may differ."""
    config = small_config(agent=NORMALISED, eval={"background": True, "policy": "both"})
    whole, rows = make_session(config), Rows()
    train(whole, observer=patient(rows))

    first = Rows()

    def interrupt(row: dict[str, float]) -> None:
        if row["time/total_timesteps"] == 2048 and "train/loss" in row:  # an evaluation is due: its copy is made next
            os.kill(os.getpid(), signal.SIGTERM)

    stopped = make_session(config)
    assert train(stopped, checkpoints=tmp_path, observer=patient(first, interrupt)).stop_reason == "interrupted"
    saved = checkpoint.load(tmp_path / "last.safetensors")
    waiting = saved.state["judge"]["waiting"]
    assert waiting[-1]["request"]["step"] == 2048
    second = Rows()
    resumed = make_session(config)
    assert restore(resumed, saved.tensors, saved.state) == []
    train(resumed, observer=patient(second))
    equal(training(rows), training(first + second))
    assert judged(rows) == judged(first + second)
    for name, tensor in whole.agent.state_dict().items():
        assert torch.equal(tensor, resumed.agent.state_dict()[name]), name


def test_a_dead_worker_is_reported_once_and_harmless(make_session: Any, heard: type[Heard]) -> None:
    killed: list[int] = []

    def kill(row: dict[str, float]) -> None:
        if heard.made and not killed and heard.reports == 1:
            killed.append(heard.made[0].pid)
            os.kill(killed[0], signal.SIGKILL)

    expected = Rows()
    train(make_session(small_config()), observer=expected.append)
    rows = Rows()
    session = make_session(small_config(eval={"background": True}))
    with pytest.warns(UserWarning, match="killed by signal 9") as warned:
        result = train(session, observer=patient(rows, kill))
    assert killed
    assert result.stop_reason == "steps"
    assert len([w for w in warned if "background" in str(w.message)]) == 1
    assert len(heard.made) == 1  # it is not started again
    assert judged(rows) == judged(expected)


def test_an_env_that_fails_there_is_reported_and_evaluated_here(make_session: Any, heard: type[Heard]) -> None:
    """Whatever a worker cannot do: here it cannot find the env, which only this process has registered."""
    import gymnasium as gym

    name = "OnlyHere-v0"
    if name not in gym.registry:
        gym.register(name, entry_point="gymnasium.envs.classic_control:CartPoleEnv", max_episode_steps=50)
    rows = Rows()
    with pytest.warns(UserWarning, match="OnlyHere-v0"):
        train(make_session(small_config(env_id=name, eval={"background": True})), observer=patient(rows))
    assert len([key for key in judged(rows) if key[0] == "eval"]) == 4


def test_training_does_not_wait_for_a_worker_that_gets_no_time(
    make_session: Any, heard: type[Heard], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Stopped at its start: the run ends all the same, with every evaluation."""
    monkeypatch.setattr(background, "LAST_RESULT_SECONDS", 0.1)

    def stop(row: dict[str, float]) -> None:
        if len(heard.made) == 1:
            os.kill(heard.made[0].pid, signal.SIGSTOP)

    rows = Rows()

    def observe(row: dict[str, float]) -> None:
        rows.append(row)
        stop(row)

    train(make_session(small_config(eval={"background": True, "every": 256})), observer=observe)
    assert [step for kind, step in judged(rows) if kind == "eval"] == list(range(256, 4097, 256))


def test_auto_leaves_short_runs_alone(make_session: Any, heard: type[Heard], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(background, "cores", lambda: 2)
    rows = Rows()
    train(make_session(small_config(eval={"background": "auto"})), observer=rows.append)
    assert heard.made == []
    assert len(judged(rows)) > 0
    monkeypatch.setattr(background, "SHORT_RUN_SECONDS", 0.0)
    train(make_session(small_config(eval={"background": "auto"})), observer=lambda row: None)
    assert len(heard.made) == 1


def test_an_env_object_is_evaluated_inline_with_a_line(heard: type[Heard]) -> None:
    import gymnasium as gym

    model = PPO(env=lambda: gym.make("CartPole-v1"), set={"eval.every": 512, "eval.background": True}, n_steps=64)
    with pytest.warns(UserWarning, match="an env object cannot be sent"):
        model.learn(1024)
    assert "eval/mean_reward" in model.metrics
    assert heard.made == []


def workers_of(pid: int) -> list[int]:
    # ww: whole lines, however narrow the terminal
    command = ["ps", "-A", "-ww", "-o", "pid=,ppid=,args="]
    listed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    rows = (line.split(maxsplit=2) for line in listed.splitlines())
    return [int(child) for child, parent, args in rows if int(parent) == pid and "jobs/child.py" in args]


def alive(pid: int) -> bool:
    listed = subprocess.run(["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, text=True, check=False)
    return listed.stdout.strip()[:1] not in ("", "Z")  # one that has ended and waits for its parent to ask is a Z


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_no_worker_outlives_the_run(number: signal.Signals, tmp_path: Path) -> None:
    settings = ["eval.background=true", "eval.every=1024", "log.video=20000", "stop.on_solved=false"]
    command = [sys.executable, "-m", "gymnast", "train", "CartPole-v1", "--quiet", "--runs-dir", str(tmp_path)]
    command += ["--steps", "10000000", *(word for setting in settings for word in ("--set", setting))]
    with running(command) as process:
        # One evaluates, one makes videos by steps: the best would wait for the first, which a busy machine starves
        workers = wait_for(lambda: (found := workers_of(process.pid))[1:] and found, "second worker", process)
        process.send_signal(number)
        process.wait(60)
    wait_for(lambda: not any(alive(pid) for pid in workers), "end of the workers")
    (run,) = tmp_path.iterdir()
    assert read_metrics(run / "metrics.jsonl")
    if number == signal.SIGINT:
        assert process.returncode == 130
        assert json.loads((run / "run.json").read_text())["status"] == "interrupted"
        assert not list(run.rglob(f"*{TEMPORARY}"))  # not of a video under way either


def test_a_report_stands_where_its_agent_was(tmp_path: Path) -> None:
    """On a chart over steps or updates; over seconds, where it was known. Its row takes no time from its neighbours."""
    counted = {"time/total_timesteps": 4096.0, "time/updates": 16.0, "time/elapsed": 9.0}
    rows: Rows = [
        {"time/total_timesteps": 2048.0, "time/updates": 8.0, "time/elapsed": 4.0, "time/fps": 512.0},
        counted | {"eval/step": 1024.0, "eval/mean_reward": 7.0, "solved": 0.0},
        counted | {"time/elapsed": 10.0, "time/fps": 340.0, "eval/step": 4096.0, "eval/mean_reward": 9.0},
    ]
    for row in (rows[0], rows[2]):
        row |= {"time/share/env": 0.5, "time/share/update": 0.5}
    (tmp_path / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    facts = RunFacts(Run(tmp_path), RunInfo(tmp_path, "x"))
    # 1024 of 4096 steps is a quarter: update 4 of 16
    assert facts.curve("eval/mean_reward") == [(1024.0, 7.0), (4096.0, 9.0)]
    assert facts.curve("eval/mean_reward", "time/updates") == [(4.0, 7.0), (16.0, 9.0)]
    assert facts.curve("eval/mean_reward", "time/elapsed") == [(9.0, 7.0), (10.0, 9.0)]
    assert facts.time_budget == {"env": 5.0, "update": 5.0}  # half of 4 s and half of the next 6 s


def test_the_config_says_what_is_wrong() -> None:
    from gymnast.config import ConfigError

    with pytest.raises((ConfigError, ValueError), match="background"):
        RunConfig.model_validate(small_config().model_dump() | {"eval": {"background": "often"}})
