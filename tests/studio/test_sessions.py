"""Sessions of Studio over a real websocket of a real server, with real envs in processes of their own."""

from __future__ import annotations

import asyncio
import io
import os
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from websockets.exceptions import ConnectionClosed

from gymnast import config as configs
from gymnast.envs.make import make_env
from gymnast.studio import session as sessions
from gymnast.studio import socket
from gymnast.studio.packets import FRAME, PNG
from gymnast.verbs.train import start
from tests.processes import is_alive
from tests.studio.envs import HOSTILE
from tests.studio.windows import Served, until

pytestmark = pytest.mark.timeout(300)  # a process is started for every session
BOARD = "MinAtar/Breakout-v1"  # 160 x 160 pixels, sent without loss
UNLIMITED = 1000  # frames a second: as fast as the env goes


@pytest.fixture(scope="module")
def runs_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("runs")


@pytest.fixture(scope="module")
def run(runs_dir: Path) -> str:
    """A short training of CartPole."""
    settings = ["env.n_envs=4", "algo.n_steps=32", "algo.batch_size=64", "eval.every=null", "stop.episodes=5"]
    return start("CartPole-v1", settings, runs_dir, steps=512, quiet=True).data["run"]


@pytest.fixture
def served(runs_dir: Path) -> Iterator[Served]:
    server = Served(runs_dir)
    server.start()
    yield server
    server.stop()


@pytest.fixture(scope="module")
def shared(runs_dir: Path) -> Iterator[Served]:
    """For commands that must change nothing."""
    server = Served(runs_dir)
    server.start()
    yield server
    server.stop()


def test_keys_reach_the_env_and_agents_take_over(served: Served, run: str) -> None:
    with served.window() as window:
        opened = window.ask("open", ref=run)
        about, number = opened["about"], opened["session"]
        assert about["keys"]["ArrowRight"] == 1
        assert about["waits"]  # CartPole has no action that does nothing
        window.ask("fps", session=number, value=4)  # a tap between two messages is far shorter than a frame
        window.ask("reset", session=number, seed=4)
        window.ask("play", session=number, policy="human")
        for code, action in (("ArrowRight", 1), ("KeyA", 0)):
            window.send("keys", session=number, down=[code])
            window.send("keys", session=number, down=[])  # a short tap is an action all the same
            step = window.until(lambda message: message.get("type") == "step")
            assert (step["action"], step["who"], step["label"]) == (action, "human", about["actions"][action])
            assert step["value"] is not None  # the agent looks on
        assert window.ask("state", session=number)["t"] == 2  # without a key nothing happens
        window.ask("fps", session=number, value=UNLIMITED)
        window.send("play", session=number, policy="greedy")
        step = window.until(lambda message: message.get("type") == "step")
        assert (step["t"], step["who"]) == (2, "greedy")  # it goes on in the same episode
        window.ask("pause", session=number)
        window.ask("play", session=number, policy="human")  # and gives back
        taken = window.steps()[-1]["t"]
        window.send("keys", session=number, down=["ArrowLeft"])
        step = window.until(lambda message: message.get("type") == "step")
        assert (step["t"], step["who"], step["action"]) in [(taken + 1, "human", 0), (0, "human", 0)]


def test_a_frame_is_the_picture_of_the_env(served: Served) -> None:
    """Step by step, bit for bit: of play, and of a moment that is looked at afterwards."""
    with served.window() as window:
        number = window.ask("open", env=BOARD)["session"]
        window.ask("reset", session=number, seed=9)
        for action in (1, 2, 2):
            window.ask("step", session=number, action=action)
        played = {head["t"]: data for head, data in window.pictures if head["kind"] == FRAME}
        env = make_env(configs.load(BOARD).config.eval_env, "eval", render_mode="rgb_array")
        env.reset(seed=9)
        expected = [env.render()]
        for action in (1, 2, 2):
            env.step(action)
            expected.append(env.render())
        env.close()
        for t in (1, 3, 0, 2):  # in any order
            window.pictures.clear()
            answer = window.ask("moment", session=number, n=1, t=t, need=["frame"])
            ((head, data),) = window.pictures
            assert answer["frame"]["exact"]
            assert (head["magic"], head["codec"], head["episode"], head["t"]) == (b"GYM1", PNG, 1, t)
            assert (head["height"], head["width"]) == expected[t].shape[:2]
            np.testing.assert_array_equal(np.asarray(Image.open(io.BytesIO(data))), expected[t])
            assert played[t] == data


def test_a_window_that_does_not_read_slows_nothing_and_misses_no_step(served: Served) -> None:
    """Another one sees the game go on; then it reads, and gets every step in order, with fewer frames."""
    wanted = 400  # two episodes of 200 steps
    with served.window() as window, served.sleeper() as sleeper:
        number = window.ask("open", env="Pendulum-v1")["session"]
        sleeper.ask("join", session=number)
        window.ask("fps", session=number, value=UNLIMITED)
        window.ask("play", session=number, policy="random")
        behind = served.hub.clients[sleeper.id]
        # It would stop if the game waited for the sleeper. Frames are dropped once all buffers between the two are full
        seen = 0
        while seen < wanted or not behind.dropped_frames:
            seen += (window.read() or {}).get("type") == "step"
        window.ask("pause", session=number)
        sent = [(step["episode"], step["t"]) for step in window.steps()]
        while len(sleeper.steps()) < len(sent):
            sleeper.read()
        assert [(step["episode"], step["t"]) for step in sleeper.steps()] == sent
        lengths = [i % 200 for i in range(len(sent))]  # Pendulum's episodes have 200 steps
        assert [t for _, t in sent] == lengths


def test_a_window_that_is_too_far_behind_is_disconnected(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also if the server waits in the middle of a message, because all buffers between the two are full."""
    monkeypatch.setattr(socket, "MOST_WAITING", 4 << 20)

    async def flood(client: socket.Client, message: dict[str, object]) -> dict[str, object]:
        for _ in range(200):
            if (found := served.hub.clients.get(str(message["to"]))) is not None:
                found.push({"type": "flood", "text": "x" * (1 << 20)})
            await asyncio.sleep(0.005)
        return {"connected": str(message["to"]) in served.hub.clients}

    served.hub.on("flood", flood)
    with served.window() as window, served.window(max_queue=1) as sleeper:
        assert window.ask("flood", to=sleeper.id)["connected"] is False
        with pytest.raises(ConnectionClosed):
            sleeper.until(lambda message: False)
        assert window.ask("sessions")["sessions"] == []  # the other one goes on


def test_two_windows_and_one_control(served: Served) -> None:
    with served.window() as first, served.window() as second:
        assert first.welcome["control"]
        assert not second.welcome["control"]
        number = first.ask("open", env="CartPole-v1")["session"]
        assert second.ask("sessions")["sessions"][0]["session"] == number
        assert second.ask("join", session=number)["about"]["env"] == "CartPole-v1"
        for command in (
            {"do": "play"},
            {"do": "keys", "down": []},
            {"do": "reset"},
            {"do": "open", "env": "CartPole-v1"},
        ):
            do = command.pop("do")
            assert second.ask(do, session=number, **command)["error"] == socket.NO_CONTROL
        first.ask("reset", session=number, seed=1)
        first.ask("step", session=number, n=3)
        assert second.until(lambda message: message.get("type") == "step")["t"] == 0  # it sees what happens
        assert second.ask("episode", session=number, n=1)["length"] == 3  # and may look at it
        second.ask("take_control")
        assert first.until(lambda message: message.get("type") == "control")["mine"] is False
        assert "error" in first.ask("step", session=number)
        assert "error" not in second.ask("step", session=number)
    with served.window() as third:
        assert third.welcome["control"]  # whoever had it is gone


def test_control_goes_on_to_another_window(served: Served) -> None:
    with served.window() as second:
        with served.window():
            second.ask("take_control")
        with served.window() as first:
            first.ask("take_control")
            assert second.until(lambda message: message == {"type": "control", "mine": False})
        assert second.until(lambda message: message == {"type": "control", "mine": True})


def test_keys_are_released_when_control_changes_hands(served: Served) -> None:
    with served.window() as first, served.window() as second:
        number = first.ask("open", env="CartPole-v1")["session"]
        second.ask("join", session=number)
        first.ask("reset", session=number, seed=1)
        first.ask("keys", session=number, down=["ArrowRight"])
        assert first.ask("step", session=number, policy="human")["t"] == 1
        second.ask("take_control")
        assert second.ask("step", session=number, policy="human")["t"] == 1  # no key is down: nothing happens


def test_a_defect_is_answered_in_a_line(served: Served, capfd: pytest.CaptureFixture[str]) -> None:
    async def fail(client: socket.Client, message: dict[str, object]) -> dict[str, object]:
        raise KeyError("two\nlines")

    served.hub.on("fail", fail)
    with served.window() as window:
        assert window.ask("fail")["error"] == r"KeyError: 'two\nlines'"
        window.connection.send("[" * 100_000)
        assert "JSON" in window.until(lambda message: message.get("re", 0) is None)["error"]
    assert "Traceback" in capfd.readouterr().err


def test_a_process_that_dies_is_a_message(served: Served) -> None:
    """To every window that looks on, and to whoever waits for an answer; the others do not notice."""
    with served.window() as window, served.window() as other:
        number = window.ask("open", env="CartPole-v1")["session"]
        other.ask("join", session=number)
        pid = served.sessions.open[number].pid
        waiting = window.send("record_episodes", session=number, policy="random", episodes=100)
        os.kill(pid, signal.SIGKILL)
        answer = window.until(lambda message: message.get("re") == waiting)
        assert "SIGKILL" in answer["error"]
        for one in (window, other):
            ended = one.pushed("ended")
            assert ended["session"] == number
            assert "SIGKILL" in ended["error"]
        assert "is not open" in window.ask("play", session=number)["error"]
        assert window.ask("open", env="CartPole-v1")["session"] > number


def test_what_an_env_says_is_data(served: Served) -> None:
    """Names and errors with markup arrive as they are, inside JSON; an env that fails stops, and nothing else does."""
    with served.window() as window:
        about = window.ask("open", env="tests.studio.envs:studio/Hostile-v0")["about"]
        assert about["actions"] == [HOSTILE.lower(), "right"]
        assert not about["picture"]
        number = window.ask("open", env="tests.studio.envs:studio/Failing-v0")["session"]
        window.ask("play", session=number, policy="random")
        stopped = window.pushed("stopped")  # it may come before the answer
        assert HOSTILE.split("\n")[0] in stopped["error"]
        assert "crashed in step" in stopped["error"]
        assert window.ask("state", session=number)["playing"] is False


@pytest.mark.parametrize(
    "command",
    [
        {"do": "open", "env": HOSTILE},
        {"do": "open", "ref": HOSTILE},
        {"do": "open", "ref": "../../etc/passwd"},
        {"do": "open", "env": "/etc/passwd.yaml"},
        {"do": "open", "ref": ["a"]},
        {"do": "open"},
        {"do": "open", "env": "CartPole-v1", "set": {"env.gravity": HOSTILE}},
        {"do": HOSTILE},
        {"do": "play", "session": 99},
        {"do": "play", "session": "1"},
    ],
    ids=str,
)
def test_mistakes_are_answered_in_a_line(shared: Served, command: dict[str, object]) -> None:
    with shared.window() as window:
        answer = window.ask(str(command.pop("do")), **command)
        assert isinstance(answer["error"], str)
        assert "\n" not in answer["error"]
        assert "Traceback" not in answer["error"]
        until(lambda: not shared.sessions.open, "end of the process that could not open it")


def test_runs_outside_of_the_folder_stay_closed(served: Served, run: str, tmp_path: Path) -> None:
    """By their path, by that of a file, and by a link from inside."""
    outside = tmp_path / "other" / run
    shutil.copytree(served.runs_dir / run, outside)
    (served.runs_dir / "linked").symlink_to(outside)
    with served.window() as window:
        for ref in (str(outside), str(outside / "checkpoints" / "last.safetensors"), "linked", f"../{outside}"):
            assert "error" in window.ask("open", ref=ref), ref
        assert "about" in window.ask("open", ref=run)
    (served.runs_dir / "linked").unlink()


def test_commands_that_make_no_sense_change_nothing(served: Served) -> None:
    with served.window() as window:
        number = window.ask("open", env="CartPole-v1")["session"]
        window.ask("reset", session=number, seed=1)
        wrong = [
            ("step", {"n": 0}),
            ("step", {"n": 1e9}),
            ("step", {"action": 7}),
            ("step", {"action": HOSTILE}),
            ("fps", {"value": 0}),
            ("fps", {"value": "fast"}),
            ("keys", {"down": "ArrowLeft"}),
            ("reset", {"seed": -1}),
            ("play", {"policy": "greedy"}),  # there is no agent
            ("play", {"policy": HOSTILE}),
            ("record_episodes", {"episodes": 10**9}),
            ("episode", {"n": 77}),
            ("moment", {"n": 1, "t": 5}),
            ("moment", {"n": 1, "t": 0, "need": ["everything"]}),
            ("advantages", {"n": 1, "gamma": 2}),
            ("branch", {"n": 1, "t": 3}),
            ("rollouts", {"n": 1, "t": 0, "k": 0}),
        ]
        for do, fields in wrong:
            assert "error" in window.ask(do, session=number, **fields), (do, fields)
        window.connection.send("not JSON")
        assert "JSON" in window.until(lambda message: message.get("re", 0) is None)["error"]
        assert window.ask("state", session=number) | {"re": 0} == {
            "re": 0, "playing": False, "policy": "random", "checkpoint": None, "fps": 50.0, "episode": 1, "t": 0,
            "total": 0.0, "recording": False, "two_players": False,
        }  # fmt: skip


def test_a_long_command_is_cancelled(served: Served) -> None:
    with served.window() as window:
        number = window.ask("open", env="Pendulum-v1")["session"]
        waiting = window.send("record_episodes", session=number, policy="random", episodes=100)
        window.until(lambda message: message.get("type") == "progress")
        window.send("cancel", session=number)
        answer = window.until(lambda message: message.get("re") == waiting)
        assert 0 < len(answer["episodes"]) < 100


def test_a_session_without_a_window_ends(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sessions, "ALONE_SECONDS", 0.2)
    monkeypatch.setattr(sessions, "SPARE_SECONDS", 0.0)
    with served.window() as window:
        number = window.ask("open", env="CartPole-v1")["session"]
        window.ask("play", session=number, policy="random")
        until(lambda: served.sessions.spare is not None, "process for the next session")
        pids = [served.sessions.open[number].pid, served.sessions.spare.pid]
    until(lambda: not any(map(is_alive, pids)), "end of the processes")


def test_no_process_is_left_when_the_server_ends(runs_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sessions, "SPARE_SECONDS", 0.0)
    server = Served(runs_dir)
    server.start()
    with server.window() as window:
        number = window.ask("open", env="CartPole-v1")["session"]
        until(lambda: server.sessions.spare is not None, "process for the next session")
        pids = [server.sessions.open[number].pid, server.sessions.spare.pid]
        assert all(map(is_alive, pids))
    server.stop()
    until(lambda: not any(map(is_alive, pids)), "end of the processes")


def test_episodes_branches_and_rollouts(served: Served, run: str) -> None:
    with served.window() as window:
        number = window.ask("open", ref=f"{run}@last")["session"]
        rows = window.ask("record_episodes", session=number, policy="sampled", seed=12, episodes=3)["episodes"]
        assert rows[0]["seed"] == 12
        assert {flag for row in rows for flag in row["flags"]} <= {"worst", "longest", "value_error", "entropy"}
        n, length = rows[0]["n"], rows[0]["length"]
        episode = window.ask("episode", session=number, n=n)
        assert len(episode["action"]) == len(episode["probs"]) == length == episode["frames"] - 1
        assert sum(episode["reward"]) == rows[0]["return"] == episode["ledger"]["total"]
        assert episode["return_reason"] is None
        same = window.ask("branch", session=number, n=n, t=3, then="sampled")
        assert (same["exact"], same["length"], same["parent"], same["at"]) == (True, length, n, 3)
        other = window.ask("branch", session=number, n=n, t=3, action=1 - episode["action"][3], then="greedy")
        branched = window.ask("episode", session=number, n=other["n"])
        assert branched["action"][:3] == episode["action"][:3]
        assert branched["hash"][:4] == episode["hash"][:4]
        assert branched["hash"][4] != episode["hash"][4]
        assert "greedy" in branched["return_reason"]
        tried = window.ask("rollouts", session=number, n=n, t=3, k=4, then="sampled")
        assert [row["n"] for row in tried["actions"]] == [4, 4]
        assert sum(row["prob"] for row in tried["actions"]) == pytest.approx(1.0)
        assert tried["value"] == pytest.approx(episode["value"][3], rel=1e-4)
        # greedy in CartPole leaves nothing to chance
        sure = window.ask("rollouts", session=number, n=n, t=3, k=3, then="greedy")
        for row in sure["actions"]:
            branch = window.ask("branch", session=number, n=n, t=3, action=row["action"], then="greedy")
            assert row["mean"] == branch["return"] - 3
            assert row["error"] == 0


def test_the_map_of_a_small_env(served: Served) -> None:
    """FrozenLake: 0.7442 is the best possible mean return, from the only start."""
    with served.window() as window:
        number = window.ask("open", env="FrozenLake-v1")["session"]
        found = window.ask("map", session=number, policy="untrained")
        assert (found["rows"], found["cols"]) == (4, 4)
        assert "".join(found["cells"]) == "SFFFFHFHFFFHHFFG"
        assert found["optimum"]["values"][0] == pytest.approx(0.7442, abs=1e-4)
        assert found["optimum"]["arrows"][14] == [1]  # in front of the goal down is best: it may slip right
        assert sum(found["arrows"][0]) == pytest.approx(1.0)
        assert 0 < found["earned"][0] < 0.1  # an untrained agent hardly ever arrives
        assert {max(row) for row in found["greedy"]["arrows"]} == {1.0}
        assert found["greedy"]["start"] == pytest.approx(found["greedy"]["earned"][0])
        assert "no table" in window.ask("map", session=window.ask("open", env="CartPole-v1")["session"])["error"]


def test_what_is_played_is_recorded(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    minari = pytest.importorskip("minari")
    with served.window() as window:
        number = window.ask("open", env="CartPole-v1")["session"]
        assert window.ask("record", session=number, on=True)["recording"]
        window.ask("reset", session=number, seed=5)
        for action in (0, 1, 1):
            window.ask("step", session=number, action=action)
        made = window.ask("record", session=number, on=False)["dataset"]
        assert (made["episodes"], made["steps"]) == (1, 3)
        assert window.ask("record", session=number, on=False)["dataset"] is None
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(served.runs_dir / "datasets"))
    (episode,) = minari.load_dataset(made["id"]).iterate_episodes()
    assert episode.actions.tolist() == [0, 1, 1]
    assert len(episode.observations) == 4


@pytest.mark.parametrize("end", ["the tab", "the session", "the server"])
def test_a_recording_is_saved_when_something_is_closed(tmp_path: Path, end: str) -> None:
    pytest.importorskip("minari")
    server = Served(tmp_path)
    server.start()
    try:
        with server.window() as window:
            number = window.ask("open", env="CartPole-v1")["session"]
            window.ask("record", session=number, on=True)
            window.ask("reset", session=number, seed=5)
            window.ask("step", session=number, action=1)
            if end == "the session":
                window.ask("close", session=number)
            if end == "the server":
                server.stop()
        if end == "the tab":
            until(lambda: list(tmp_path.glob("datasets/**/main_data.hdf5")), "dataset")
    finally:
        server.stop()
    assert len(list(tmp_path.glob("datasets/**/main_data.hdf5"))) == 1


def test_a_human_plays_pong_against_an_agent(served: Served) -> None:
    """The left paddle goes where its keys send it, the agent's own goes on; the picture shows both."""
    with served.window() as window:
        opened = window.ask("open", env="ALE/Pong-v5")
        assert opened["about"]["two_players"]
        number = opened["session"]
        window.ask("fps", session=number, value=UNLIMITED)
        window.ask("play", session=number, policy="untrained")
        assert window.ask("two_players", session=number, on=True)["two_players"]
        places = {}
        for code in ("KeyW", "KeyS"):
            window.ask("keys", session=number, down=[code])
            start = len(window.steps())
            while len(window.steps()) < start + 60:
                window.read()
            window.ask("pause", session=number)
            window.pictures.clear()
            window.ask("step", session=number, policy="untrained")
            while not window.pictures:
                window.read()
            picture = np.asarray(Image.open(io.BytesIO(window.pictures[-1][1])))
            rows = np.flatnonzero((picture[34:194, 16:20] == (213, 130, 74)).all(2).any(1))
            places[code] = rows.mean()
            window.ask("play", session=number, policy="untrained")
        assert places["KeyW"] < 40 < 120 < places["KeyS"]
        assert {step["who"] for step in window.steps()} == {"untrained"}
        number = window.ask("open", env="CartPole-v1")["session"]
        assert "no second side" in window.ask("two_players", session=number, on=True)["error"]
