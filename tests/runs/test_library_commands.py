"""Libraries that are commands: our config as their arguments, what their output says, and processes that take turns."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from gymnast import config as configs
from gymnast.core.errors import UserError
from gymnast.verbs.speed.libraries import LIBRARIES, baselines_for, cleanrl, purejaxrl, sample_factory
from gymnast.verbs.speed.libraries.command import COMPILED, RUNNERS, STEPS, Command, Commands
from tests.processes import is_alive, running, state_of, wait_for


def config(target: str = "CartPole-v1:zoo", *overrides: str) -> configs.RunConfig:
    return configs.load(target, overrides).config


def options(command: Command) -> dict[str, str]:
    """{"gamma": "0.98"} of "--gamma 0.98" and of "--gamma=0.98"; a flag alone has an empty value."""
    found: dict[str, str] = {}
    name = ""
    for word in command.arguments:
        if word.startswith("--"):
            name, _, found[name] = word[2:].partition("=")
        elif name:
            found[name] = f"{found[name]} {word}".strip()
    return found


# CleanRL


def test_the_zoos_cartpole_for_cleanrl() -> None:
    command, notes = cleanrl.translate(config())
    assert command.arguments[:2] == ("-m", "cleanrl.ppo")
    assert options(command) == {
        "env-id": "CartPole-v1",
        "seed": "0",
        "total-timesteps": STEPS,
        "num-envs": "8",
        "num-steps": "32",
        "num-minibatches": "1",  # 8 x 32 = 256 in batches of 256
        "update-epochs": "20",
        "learning-rate": "0.001",
        "gamma": "0.98",
        "gae-lambda": "0.8",
        "clip-coef": "0.2",
        "ent-coef": "0.0",
        "vf-coef": "1.0",  # of half the squared error: our 0.5 of the whole
        "max-grad-norm": "0.5",
        "anneal-lr": "",  # lin_0.001: to nothing at the end
        "norm-adv": "",
        "no-clip-vloss": "",
        "cuda": "",  # where there is one, like our auto
    }
    assert notes == ["algo.clip_range stays at its start 0.2: it cannot be scheduled there"]


def test_what_cleanrl_cannot_be_told() -> None:
    command, notes = cleanrl.translate(
        config(
            "CartPole-v1:zoo",
            "algo.learning_rate={start: 0.001, end: 0.0005}",
            "algo.clip_range=0.1",
            "algo.clip_range_vf=0.1",
            "algo.target_kl=0.02",
            "agent.hidden=[32]",
            "env.reward.scale=2",
            "train.device=cpu",
        )
    )
    said = options(command)
    assert {"no-anneal-lr", "clip-vloss", "no-cuda"} <= said.keys()
    assert (said["clip-coef"], float(said["target-kl"])) == ("0.1", pytest.approx(0.03))  # ours stops at 1.5 times it
    assert notes == [
        "env.reward.scale is 1.0 there, not 2.0",
        "agent.hidden is [64, 64] there, not [32]",
        "algo.learning_rate stays at its start 0.001: it cannot be scheduled there",
        "algo.target_kl is checked once an epoch there, not after every batch",
    ]


def test_cleanrl_has_a_script_for_each_kind_of_task() -> None:
    continuous, notes = cleanrl.translate(config("Pendulum-v1"))
    assert continuous.arguments[1] == "cleanrl.ppo_continuous_action"
    assert any(note.startswith("agent.rescale_actions is false there") for note in notes)
    pong, notes = cleanrl.translate(config("ALE/Pong-v5:zoo", "env.kwargs.noop_max=10"))
    assert pong.arguments[1] == "cleanrl.ppo_atari"
    assert options(pong)["env-id"] == "PongNoFrameskip-v4"
    assert "cv2" in pong.needs
    assert notes[0] == "env.kwargs.noop_max is 30 there"
    assert not any(note.startswith(("agent.", "env.reward")) for note in notes)


def test_what_cleanrl_prints() -> None:
    command, _ = cleanrl.translate(config())
    # One report an update: 8 x 32 steps. The figure itself is an average since the start, and is not used.
    assert command.progress("SPS: 1873\n", 512) == 768
    assert command.progress("global_step=744, episodic_return=[23.]\n", 512) == 512
    assert command.progress("model saved to runs/CartPole-v1__ppo__1__1763250000/ppo.cleanrl_model\n", 512) == 512


# Sample Factory


def test_the_zoos_cartpole_for_sample_factory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gymnast.verbs.speed.libraries.sample_factory.cores", lambda: 3)
    command, notes = sample_factory.translate(config())
    said = options(command)
    # 3 workers cannot share 8 envs evenly, 2 can: 4 each, in two halves
    assert (said["num_workers"], said["num_envs_per_worker"], said["worker_num_splits"]) == ("2", "4", "2")
    assert (said["rollout"], said["batch_size"], said["num_batches_per_epoch"]) == ("32", "256", "1")
    assert (said["num_epochs"], said["gamma"], said["gae_lambda"]) == ("20", "0.98", "0.8")
    assert (said["learning_rate"], said["ppo_clip_ratio"], said["value_loss_coeff"]) == ("0.001", "0.2", "0.5")
    assert (said["encoder_mlp_layers"], said["nonlinearity"], said["use_rnn"]) == ("64 64", "tanh", "False")
    assert said["actor_critic_share_weights"] == said["normalize_input"] == said["normalize_returns"] == "False"
    assert (said["env"], said["train_for_env_steps"]) == ("CartPole-v1", STEPS)
    assert "device" not in said  # auto: the runner sees whether there is a GPU
    assert [note for note in notes if note.startswith("algo.")] == [
        "algo.learning_rate stays at its start 0.001: it cannot be scheduled there",
        "algo.clip_range stays at its start 0.2: it cannot be scheduled there",
    ]


def test_sample_factorys_batches_are_whole_rollouts() -> None:
    command, notes = sample_factory.translate(config("LunarLander-v3:zoo"))  # 16 x 1024, batches of 64
    said = options(command)
    assert (said["rollout"], said["batch_size"], said["num_batches_per_epoch"]) == ("64", "64", "256")
    assert "algo.n_steps is 64 there: a batch is made of whole rollouts" in notes


def test_what_sample_factory_logs() -> None:
    report = (
        "\x1b[36m[2025-11-15 23:10:05,120][18423] Fps is (10 sec: 1843.2, 60 sec: 1790.1, 300 sec: 1790.1). "
        "Total num frames: 18432. Throughput: 0: 1801.5. Samples: 18944. Policy #0 lag: (min: 0.0, avg: 0.5, max: 1.0)"
        "\x1b[0m\n"
    )
    assert sample_factory.progress(report, 9216) == 18432
    assert sample_factory.progress("[2025-11-15 23:10:05,121][18423] Avg episode reward: [(0, '21.4')]\n", 7) == 7


# PureJaxRL


def test_the_zoos_cartpole_for_purejaxrl() -> None:
    command, notes = purejaxrl.translate(config())
    settings, seed, device, steps = command.arguments[1:]
    assert (seed, device, steps) == ("0", "auto", STEPS)
    assert json.loads(settings) == {
        "ENV_NAME": "CartPole-v1",
        "NUM_ENVS": 8,
        "NUM_STEPS": 32,
        "NUM_MINIBATCHES": 1,  # 8 x 32 = 256 in batches of 256
        "UPDATE_EPOCHS": 20,
        "LR": 0.001,
        "ANNEAL_LR": True,
        "GAMMA": 0.98,
        "GAE_LAMBDA": 0.8,
        "CLIP_EPS": 0.2,
        "ENT_COEF": 0.0,
        "VF_COEF": 1.0,  # of half the squared error: our 0.5 of the whole
        "MAX_GRAD_NORM": 0.5,
        "ACTIVATION": "tanh",
    }
    assert notes == [
        *purejaxrl.ALWAYS,
        "algo.clip_range stays at its start 0.2: it cannot be scheduled there",
        "algo.clip_range_vf is algo.clip_range there",
    ]


def test_what_purejaxrl_cannot_be_told() -> None:
    command, notes = purejaxrl.translate(
        config(
            "CartPole-v1:zoo",
            "algo.learning_rate={start: 0.001, end: 0.0005}",
            "algo.clip_range=0.1",
            "algo.clip_range_vf=0.1",
            "algo.target_kl=0.02",
            "agent.activation=elu",
            "agent.hidden=[32]",
        )
    )
    settings = json.loads(command.arguments[1])
    assert (settings["LR"], settings["ANNEAL_LR"], settings["ACTIVATION"]) == (0.001, False, "tanh")
    assert notes == [
        *purejaxrl.ALWAYS,
        "agent.hidden is [64, 64] there, not [32]",
        'agent.activation is "tanh" there, not "elu"',
        "algo.target_kl is null there, not 0.02",
        "algo.learning_rate stays at its start 0.001: it cannot be scheduled there",
    ]
    relu, notes = purejaxrl.translate(config("CartPole-v1:zoo", "agent.activation=relu"))
    assert json.loads(relu.arguments[1])["ACTIVATION"] == "relu"
    assert not any("activation" in note for note in notes)


def test_what_the_runner_of_purejaxrl_prints() -> None:
    assert purejaxrl.progress("steps 131072\n", 0) == 131_072
    assert purejaxrl.progress("compiled in 7.03 s\n", 5) == 5


def test_purejaxrl_has_envs_and_a_repository_of_its_own(tmp_path: Path) -> None:
    me = {"purejaxrl": sys.executable}
    with pytest.raises(UserError, match=r"envs written in JAX, and LunarLander-v3 is none .* CartPole-v1"):
        purejaxrl.translate(config("LunarLander-v3:zoo"))
    with pytest.raises(
        UserError, match=r"add --repo purejaxrl=DIR.* git clone https://github.com/luchris429/purejaxrl$"
    ):
        baselines_for(config(), ["purejaxrl"], me)
    with pytest.raises(UserError, match=r"--repo purejaxrl=/no/such: there is no folder /no/such/purejaxrl"):
        baselines_for(config(), ["purejaxrl"], me, {"purejaxrl": "/no/such"})
    (tmp_path / "purejaxrl").mkdir()
    (found,) = baselines_for(config(), ["purejaxrl"], me, {"purejaxrl": str(tmp_path)})
    with found.start("windows") as commands, pytest.raises(UserError) as reported:
        commands.ready()  # no JAX here, and an empty folder there
    assert re.fullmatch(r"purejaxrl: \S+ cannot import jax, [^\n]*ppo, wrappers\. Run: [^\n]*", str(reported.value))


FAKE_JAX = """
class random: PRNGKey = staticmethod(lambda seed: seed)
class jit:
    def __init__(self, train): self.train = train
    def lower(self, key): return self
    def compile(self): return self.train
block_until_ready = staticmethod(lambda value: value)
"""
FAKE_PPO = """
import os
def make_train(config):
    assert config["TOTAL_TIMESTEPS"] % (config["NUM_ENVS"] * config["NUM_STEPS"]) == 0
    return lambda key: print("key", key, "on", len(os.sched_getaffinity(0)), "of", config["TOTAL_TIMESTEPS"])
"""


@pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="cores are chosen on Linux only")
def test_the_runner_of_purejaxrl(tmp_path: Path) -> None:
    """With modules that look like JAX's and PureJaxRL's from where the runner stands."""
    (tmp_path / "jax.py").write_text(FAKE_JAX)
    (tmp_path / "ppo.py").write_text(FAKE_PPO)
    command, _ = purejaxrl.translate(config("CartPole-v1:zoo", "train.seed=3"))

    def run(steps: str, **environment: str) -> list[str]:
        words = [sys.executable, *(word.replace(STEPS, steps) for word in command.arguments)]
        told = {**os.environ, "PYTHONPATH": str(tmp_path), **environment}
        return subprocess.run(
            words, env=told, capture_output=True, text=True, check=True, timeout=60
        ).stdout.splitlines()

    compiled, *rest = run("5120", OMP_NUM_THREADS="1")
    assert COMPILED.match(compiled)
    assert rest == ["key 3 on 1 of 5120", "steps 5120"]
    assert run("200000")[-3::2] == ["steps 131072", "steps 262144"]  # whole trainings, until there are enough


def test_no_runner_stands_in_the_way_of_what_it_imports() -> None:
    """A file run by path finds its neighbours first."""
    needs = {"stable_baselines3"}
    for translate in (cleanrl.translate, purejaxrl.translate, sample_factory.translate):
        needs |= {module.partition(".")[0] for module in translate(config())[0].needs}
    assert not needs & {path.stem for path in RUNNERS.iterdir()}


# What cannot be run


@pytest.mark.parametrize("name", sorted(name for name, library in LIBRARIES.items() if library.runner is None))
def test_mistakes(name: str, tmp_path: Path) -> None:
    (tmp_path / LIBRARIES[name].modules).mkdir(exist_ok=True)
    me = {name: sys.executable}, {name: str(tmp_path)}
    with pytest.raises(UserError, match=rf"--python {name}=PATH, an interpreter.* python -m venv .* pip install"):
        baselines_for(config(), [name], {})
    with pytest.raises(UserError, match=rf"--against {name}: .* has no a2c. Use a variant with ppo"):
        baselines_for(config("CartPole-v1:a2c"), [name], *me)
    with pytest.raises(UserError, match=r"env.wrappers has time_limit"):
        baselines_for(config("CartPole-v1", "env.wrappers=[{time_limit: {steps: 50}}]"), [name], *me)
    with pytest.raises(UserError, match=rf"--repo {name}=...: {name} is not among"):
        baselines_for(config(), [], {}, me[1])
    (found,) = baselines_for(config(), [name], *me)
    assert not found.can_be_scored


# Processes in turns

PROGRAM = """
import os, sys, time
print("starting")
for n in range(int(sys.argv[2])):
    time.sleep(0.005)
    print("SPS:", n, os.environ.get("OMP_NUM_THREADS"))
    with open(sys.argv[1], "a") as file:
        file.write(os.environ.get("OMP_NUM_THREADS", "-"))
if sys.argv[3:]:
    sys.exit("no such env")
"""


def program(tmp_path: Path, *more: str, needs: tuple[str, ...] = ()) -> Commands:
    """A command that reports every 10 steps, and leaves a letter in a file each time."""
    command = Command(
        ("-c", PROGRAM, str(tmp_path / "letters"), STEPS, *more),
        "pytest",
        needs,
        lambda line, steps: steps + 10 if line.startswith("SPS") else steps,
    )
    return Commands("it", sys.executable, command, "pip install it")


def test_a_command_works_only_in_its_windows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    with program(tmp_path) as commands:

        def at_rest() -> str:
            """What was written by the time every process of theirs has stopped."""
            pids = [one._process.pid for one in commands._running.values()]
            wait_for(lambda: all(state_of(pid) == "T" for pid in pids), "stop")
            return (tmp_path / "letters").read_text()

        answer = commands.ask(threads=None, seconds=0.05)
        assert answer["seconds"] >= 0.05
        assert answer["steps"] % 10 == 0 < answer["steps"]
        rested = at_rest()
        assert set(rested) == {"-"}
        commands.ask(threads=1, seconds=0.02)  # another process: this one stays stopped
        assert at_rest().count("-") == len(rested)
        assert "1" in at_rest()
        again = commands.ask(threads=None, seconds=0.02)
        # It went on where it was, and every step is in one window: the first report of 10, then what the windows say.
        # A letter follows its report, so the last one may be missing.
        first = commands._running[None]
        assert first.steps == 10 + answer["steps"] + again["steps"]
        assert first.steps // 10 <= at_rest().count("-") + 1
        processes = [one._process for one in commands._running.values()]
    assert [process.poll() for process in processes] == [-signal.SIGKILL] * 2


def test_what_compiling_took_is_no_part_of_a_window(tmp_path: Path) -> None:
    code = "import time; print('compiled in 7.25 s'); n = 0\nwhile True: n += 1; print('SPS:', n); time.sleep(0.001)"
    command = Command(("-c", code), "pytest", (), lambda line, steps: steps + line.startswith("SPS"))
    with Commands("it", sys.executable, command, "") as commands:
        assert commands.ask(threads=None, seconds=0.01)["compile_seconds"] == 7.25
    with program(tmp_path) as commands:
        assert "compile_seconds" not in commands.ask(threads=None, seconds=0.01)


def test_a_whole_run(tmp_path: Path) -> None:
    with program(tmp_path) as commands:
        before = time.time()
        answer = commands.ask(threads=2, steps=3)
        assert before <= answer["first_update_at"] <= time.time()  # a moment within the call
        assert (tmp_path / "letters").read_text() == "222"


def test_a_command_that_fails_is_quoted(tmp_path: Path) -> None:
    command = Command(("-c", "import sys; sys.exit('no such env')"), "pytest", (), lambda line, steps: steps)
    with (
        pytest.raises(UserError, match="it: its command ended with code 1: no such env"),
        Commands("it", sys.executable, command, "") as commands,
    ):
        commands.ask(threads=None, seconds=0.01)


def test_what_an_interpreter_has(tmp_path: Path) -> None:
    with program(tmp_path, needs=("pytest", "torch")) as commands:
        about = commands.ready()
        assert about["version"] == pytest.__version__
        assert about["threads"] >= 1
    lacking = program(tmp_path, needs=("torch", "no_such_package.ppo", "nor_this"))
    with lacking, pytest.raises(UserError) as told:
        lacking.ready()
    assert str(told.value) == (f"it: {sys.executable} cannot import no_such_package.ppo, nor_this. Run: pip install it")


SPEED = """
import sys
from gymnast.verbs.speed.libraries.command import STEPS, Command, Commands

def progress(line, steps):
    return steps + line.startswith("SPS")

with Commands("it", sys.executable, Command(("-c", sys.argv[1], sys.argv[2], STEPS), "", (), progress), "") as commands:
    commands.ask(threads=None, seconds=0.01)
    commands.ask(threads=1, seconds=0.01)
    print(*(one.group for one in commands._running.values()), commands._guard.pid, flush=True)
    sys.stdin.read()
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_stopped_processes_end_with_the_one_that_stopped_them(tmp_path: Path, number: signal.Signals) -> None:
    words = [sys.executable, "-c", SPEED, PROGRAM, str(tmp_path / "letters")]
    with running(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as speed:
        *stopped, guard = map(int, speed.stdout.readline().split())
        assert len(stopped) == 2
        wait_for(lambda: all(state_of(pid) == "T" for pid in stopped), "stop")
        speed.send_signal(number)
        try:
            wait_for(lambda: not any(map(is_alive, [*stopped, guard])), "end of all of them")
        finally:
            for pid in filter(is_alive, stopped):
                os.kill(pid, signal.SIGKILL)


def test_the_guard_is_gone_after_an_orderly_end(tmp_path: Path) -> None:
    with program(tmp_path) as commands:
        commands.ask(threads=None, seconds=0.01)
        guard = commands._guard
    assert guard.poll() == -signal.SIGKILL
