"""What runs, envs and config show, for people and for machines."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import re
import shutil
import struct
import subprocess
import sys
import termios
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from gymnast import config as configs
from gymnast.verbs.doctor import examine
from tests.cli.conftest import ROOT, Command, Trained, environment

COLOURS = re.compile(r"\x1b\[[0-9;?]*[a-zA-Z]")


def token(run: str) -> str:
    return run.split("-")[0]


def on_a_terminal(columns: int, *args: str | Path) -> str:
    """What the command writes where it believes to have a terminal this wide."""
    ours, its = pty.openpty()
    fcntl.ioctl(its, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
    command = [sys.executable, "-m", "gymnast", *map(str, args)]
    with subprocess.Popen(command, cwd=ROOT, env=environment(TERM="xterm"), stdin=its, stdout=its, stderr=its):
        os.close(its)
        written = b""
        try:
            while part := os.read(ours, 65536):
                written += part
        except OSError:  # how Linux says that the other end is closed
            pass
    os.close(ours)
    return written.decode()


def test_runs_list(gymnast: Command, trained: Trained) -> None:
    human = gymnast("runs", "list", "--runs-dir", trained.runs_dir)
    header, newest, oldest = human.out.splitlines()
    titles = ["run", "env", "algo", "seed", "status", "score", "solved", "steps", "time", "created", "changed"]
    assert header.split() == titles  # and neither names nor tags, which none of them has
    assert "gamma=0.9" in newest
    assert "gamma" not in oldest
    assert newest.split()[:5] == [token(trained.second.json["run"]), "CartPole-v1", "ppo", "1", "finished"]
    assert oldest.split()[:5] == [token(trained.first.json["run"]), "CartPole-v1", "ppo", "1", "finished"]
    assert f"{trained.first.json['eval_mean']:.2f}" in oldest

    machine = gymnast("runs", "list", "--json", "--runs-dir", trained.runs_dir)
    assert machine.out.count("\n") == 1
    runs = machine.json["runs"]
    assert [run["run"] for run in runs] == [trained.second.json["run"], trained.first.json["run"]]
    assert [(run["env_steps"], run["solved"]) for run in runs] == [(1536, False), (1024, False)]


def test_runs_list_where_there_is_nothing_or_something_broken(gymnast: Command, tmp_path: Path) -> None:
    empty = gymnast("runs", "list", "--runs-dir", tmp_path / "runs")
    assert (empty.code, empty.err) == (0, "")
    assert "gymnast train CartPole-v1" in empty.out
    broken = tmp_path / "runs" / "bbbbb-cartpole-v1-ppo-s0"
    broken.mkdir(parents=True)
    (broken / "run.json").write_text('{"status": "fini')
    listed = gymnast("runs", "list", "--json", "--runs-dir", tmp_path / "runs")
    assert listed.code == 0
    assert [run["status"] for run in listed.json["runs"]] == ["damaged"]
    assert listed.err.startswith("gymnast: ")
    assert str(broken / "run.json") in listed.err


def test_a_narrow_terminal_loses_columns_not_letters(trained: Trained) -> None:
    wide = COLOURS.sub("", on_a_terminal(120, "runs", "list", "--runs-dir", trained.runs_dir))
    assert "created" in wide
    narrow = COLOURS.sub("", on_a_terminal(60, "runs", "list", "--runs-dir", trained.runs_dir))
    assert all(len(line) <= 60 for line in narrow.splitlines())
    assert "created" not in narrow
    assert "…" not in narrow
    assert token(trained.first.json["run"]) in narrow


def test_runs_show(gymnast: Command, trained: Trained) -> None:
    human = gymnast("runs", "show", "@last", "--runs-dir", trained.runs_dir)
    assert human.code == 0, human.err
    for words in (
        f"{trained.second.json['run']}  finished",
        f"{trained.first.json['run']}/last",  # where it started from
        "1,536 of 1,536",
        "gymnast resume @last --steps 1536",  # its command
        "solved at 475",
        "explained_variance",  # of the last row
        "◆ evaluation",  # of the learning curve
        f"gymnast eval {token(trained.second.json['run'])}/last --runs-dir",
    ):
        assert words in human.out, words
    data = gymnast("runs", "show", trained.path, "--json").json
    assert data["run"] == trained.first.json["run"]
    assert data["summary"]["eval_mean"] == trained.first.json["eval_mean"]
    assert [item["name"] for item in data["checkpoints"]] == ["best", "last", "step_512", "step_1024"]
    assert [item["step"] for item in data["checkpoints"]][1:] == [1024, 512, 1024]
    rows = [json.loads(line) for line in (trained.path / "metrics.jsonl").read_text().splitlines()]
    assert data["metrics"]["train/loss"] == rows[-1]["train/loss"]
    assert data["rows"] == len(rows)


def test_runs_show_says_that_a_process_was_killed(gymnast: Command, trained: Trained, tmp_path: Path) -> None:
    """A run.json that says running, without a process behind it, and without a summary: the rows tell how far."""
    run = tmp_path / trained.path.name
    shutil.copytree(trained.path, run)
    data = json.loads((run / "run.json").read_text())
    (run / "run.json").write_text(json.dumps({**data, "status": "running", "summary": {}}))
    listed = gymnast("runs", "list", "--json", "--runs-dir", tmp_path).json["runs"][0]
    assert (listed["status"], listed["env_steps"]) == ("killed", 1024)


def test_runs_compare(gymnast: Command, trained: Trained) -> None:
    names = [trained.first.json["run"], trained.second.json["run"]]
    human = gymnast("runs", "compare", *names, "--runs-dir", trained.runs_dir)
    lines = {line.split()[0]: line.split()[1:] for line in human.out.splitlines() if line.strip()}
    assert lines["algo.gamma"] == ["0.99", "0.9"]
    assert lines["train.total_timesteps"] == ["1024", "1536"]
    assert "algo.n_steps" not in lines  # the same in both
    data = gymnast("runs", "compare", *names, "--json", "--runs-dir", trained.runs_dir).json
    assert data["config"]["algo.gamma"] == [0.99, 0.9]
    same = gymnast("runs", "compare", "@last", names[1], "--runs-dir", trained.runs_dir)
    assert (same.code, "the same run" in same.err) == (2, True)


def test_zip_then_delete(gymnast: Command, trained: Trained, tmp_path: Path) -> None:
    run = tmp_path / "runs" / trained.path.name
    shutil.copytree(trained.path, run)
    where = ("--runs-dir", run.parent)
    archive = Path(gymnast("runs", "zip", "@last", "--out", tmp_path, "--json", *where).json["zip"])
    assert f"{run.name}/checkpoints/best.safetensors" in zipfile.ZipFile(archive).namelist()

    refused = gymnast("runs", "delete", "@last", *where)  # nobody is there to say yes
    assert refused.code == 2
    assert "nothing was deleted" in refused.err.splitlines()[-1]
    assert run.exists()
    deleted = gymnast("runs", "delete", "@last", run.name, "--yes", "--json", *where)  # named twice, deleted once
    assert (deleted.code, deleted.json["deleted"]) == (0, [run.name])
    assert not run.exists()


def test_envs_list_marks_what_is_not_installed(gymnast: Command, without: Callable[..., Command]) -> None:
    human = gymnast("envs", "list").out
    assert re.search(r"CartPole-v1 +ppo, a2c, reinforce, .*zoo, zoo-a2c +475 +500 +Balance a pole", human)
    assert "LunarLander-v3 !" not in human
    poor = without("Box2D")("envs", "list").out
    assert "LunarLander-v3 !" in poor
    assert 'pip install "gymnast-rl[box2d]"' in poor
    everything = gymnast("envs", "list", "--all", "--json").json
    assert {"CartPole-v1", "gymnast/Bandit-v0"} <= {env["id"] for env in everything["envs"]}
    assert "CartPole-v0" in everything["others"]
    assert "CartPole-v1" not in everything["others"]


def test_envs_show(gymnast: Command) -> None:
    human = gymnast("envs", "show", "CartPole-v1").out
    for words in ("0  push left", "-4.8 to 4.8", "rad/s", "mean of 475 over 100 episodes", "RL Baselines3 Zoo", ":zoo"):
        assert words in human, words
    assert re.search(r"shaping\n *centring +potential +the cart near the middle", human)
    facts = gymnast("envs", "show", "Taxi-v4", "--json").json
    assert facts["actions"][4] == "pick up"
    assert [variant["name"] for variant in facts["variants"]] == ["ppo"]
    other = gymnast("envs", "show", "CartPole-v0", "--json").json  # no preset: what Gymnasium knows
    assert (other["threshold"], other["max_episode_steps"], other["action_space"]) == (195.0, 200, "Discrete(2)")


def test_envs_show_everything_that_changes_an_atari_task(gymnast: Command) -> None:
    """Also of a game without a preset, which has the family's defaults."""
    pytest.importorskip("ale_py")
    human = gymnast("envs", "show", "ALE/Pong-v5").out
    assert "108,000 frames" in human
    assert re.search(r"repeat_action_probability +0.25 +0.0 \(deterministic, zoo, objects-deterministic\)", human)
    assert re.search(r"table +null +ball, player, enemy \(objects", human)
    other = gymnast("envs", "show", "ALE/Asterix-v5", "--json").json
    assert (other["max_episode_steps"], other["limit_unit"]) == (108_000, "frames")  # the family's own time limit
    task = {row["name"]: row for row in other["task"]}
    assert task["frame_skip"]["value"] == 4
    assert task["noop_max"]["value"] == 30
    assert task["fire_reset"]["value"] is True
    assert task["observation"]["others"] == {"ram": "ram"}
    assert {"crop_rows", "actions", "episodic_life"} <= set(task)


def test_envs_show_of_a_variant_describes_that_one(gymnast: Command) -> None:
    facts = gymnast("envs", "show", "ALE/Pong-v5:ram", "--json").json
    assert facts["shown"] == "ram"
    assert [part["name"] for part in facts["observations"]][:2] == ["byte 49", "byte 54"]
    task = {one["name"]: one for one in facts["task"]}
    assert (task["observation"]["value"], task["observation"]["others"]["ppo"]) == ("ram", "grey")
    assert task["differences"]["value"][0] == {"of": 54, "to": 51, "within": 24}
    assert "byte 49 change" in gymnast("envs", "show", "ALE/Pong-v5:ram").out
    assert "unknown variant 'nonsense'" in gymnast("envs", "show", "ALE/Pong-v5:nonsense").err


def test_envs_check_shows_what_shaping_pays(gymnast: Command) -> None:
    """Each episode of 5 steps: the env pays 1 + 2 + 3 + 4 + 5 = 15, the component half of that, weighed 4."""
    arguments = [
        "envs",
        "check",
        "tests.envs_for_tests:test/Counting-v0",
        "--set",
        "env.shaping.late=4",
        "--steps",
        "20",
    ]
    assert re.search(r"components +env 15\.000, late 30\.000", gymnast(*arguments).out)
    data = gymnast(*arguments, "--json").json
    assert (data["return"]["mean"], data["components"]) == (15.0, {"env": 15.0, "late": 30.0})


def test_envs_check_counts_what_a_known_env_does(gymnast: Command) -> None:
    """Episodes of 7 steps, cut by the limit, reward = step index: each returns 1 + 2 + ... + 7 = 28."""
    target = "tests.envs_for_tests:test/Truncating-v0"
    data = gymnast("envs", "check", target, "--steps", "70", "--set", "env.n_envs=2", "--json").json
    assert (data["engine"], data["n_envs"], data["steps"]) == ("sync", 2, 140)
    assert (data["episodes"], data["terminated"], data["truncated"]) == (20, 0, 20)
    assert data["return"] == {"mean": 28, "std": 0, "min": 28, "max": 28}
    assert data["length"]["mean"] == 7
    human = gymnast("envs", "check", "CartPole-v1", "--steps", "50").out
    assert "cartpole: a compiled loop of our own steps CartPole-v1" in human
    assert "float32" in human


@pytest.mark.parametrize("name", ["Masked-v0", "MultiDiscreteAction-v0", "BoxAction-v0"])
def test_envs_check_takes_any_action_space(gymnast: Command, name: str) -> None:
    masks = ("--set", "env.action_masks=true") if name == "Masked-v0" else ()
    data = gymnast("envs", "check", f"tests.envs_for_tests:test/{name}", "--steps", "20", "--json", *masks)
    plain = ["its picture of 4 x 4 pixels shows nothing: all have one colour"] if name == "Masked-v0" else []
    assert (data.code, data.json["problems"]) == (len(plain), plain), data.err
    assert data.json["masks"] == bool(masks)


def test_config_show_is_a_file_that_trains_the_same(gymnast: Command, tmp_path: Path) -> None:
    target = ("CartPole-v1:a2c", "--set", "env.kwargs.sutton_barto_reward=true", "--set", "stop.threshold=1")
    shown = gymnast("config", "show", *target)
    assert shown.out.startswith("# CartPole-v1:a2c\n")
    file = tmp_path / "mine.yaml"
    file.write_text(shown.out)
    again = gymnast("config", "show", file, "--json").json
    assert configs.dump(configs.validate(again["config"])) == shown.out.partition("\n")[2]
    assert again["config"]["env"]["kwargs"] == {"sutton_barto_reward": True}
    assert gymnast("config", "check", file).out == f"{file}: no problems\n"


def test_config_explain(gymnast: Command) -> None:
    human = gymnast("config", "explain", "CartPole-v1", "algo", "--set", "algo.gamma=0.5")
    assert re.search(r"algo\.gamma +0\.5 +--set +Discount", human.out)
    assert re.search(r"algo\.n_steps +64 +presets/CartPole-v1\.yaml \(ppo\)", human.out)
    assert re.search(r"algo\.vf_coef +0\.5 +default", human.out)
    rows = gymnast("config", "explain", "CartPole-v1", "stop.watch", "--json").json["settings"]
    assert [(row["key"], row["value"], row["source"]) for row in rows] == [("stop.watch", "eval", "default")]


def test_an_env_without_a_preset_is_configured_by_its_spaces(gymnast: Command) -> None:
    """CartPole-v0 has real-valued observations and discrete actions: normalised, with an entropy bonus."""
    shown = gymnast("config", "show", "CartPole-v0", "--json").json["config"]
    assert (shown["agent"]["normalize_obs"], shown["algo"]["ent_coef"]) == (True, 0.01)
    rows = gymnast("config", "explain", "CartPole-v0", "agent.normalize_obs", "--json").json["settings"]
    assert [row["source"] for row in rows] == ["from the spaces"]


def test_config_fmt(gymnast: Command, tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text("train: {seed: 3}\n# mine\nenv: {id: CartPole-v1}\n")
    assert gymnast("config", "fmt", file, "--json").json["formatted"] == [str(file)]
    text = file.read_text()
    assert text.index("env:") < text.index("train:")
    assert "# mine" in text
    assert gymnast("config", "fmt", file).out == f"{file}: in order already\n"


def test_doctor(without: Callable[..., Command], trained: Trained) -> None:
    human = without("mujoco", "Box2D")("doctor", "--runs-dir", trained.runs_dir / "nowhere").out
    for extra in ("mujoco", "box2d"):
        assert re.search(rf'{extra} +- .*pip install "gymnast-rl\[{extra}\]"', human)
    assert "made by the first run" in human
    assert "no problems" in human
    data = examine(trained.runs_dir).data
    assert data["packages"]["torch"]
    assert "cpu" in data["devices"]
    assert (data["runs_dir"]["runs"], data["runs_dir"]["writable"], data["problems"]) == (2, True, [])


def test_doctor_says_what_stands_in_the_way(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    (problem,) = examine(tmp_path / "file" / "runs").data["problems"]
    assert str(tmp_path / "file") in problem
    assert "--runs-dir" in problem
