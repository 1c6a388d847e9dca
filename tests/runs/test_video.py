"""Videos: a real decoder reads them, and what they show is what happened."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import av
import gymnasium as gym
import numpy as np
import pytest
import torch
from PIL import Image, ImageDraw

from gymnast import config as configs
from gymnast import video
from gymnast.agent.batch import Batch
from gymnast.core.errors import UserError
from gymnast.envs.make import make_vec
from gymnast.jobs.worker import Worker
from gymnast.judge import background
from gymnast.judge.evaluate import evaluate
from gymnast.play.episode import Step, play_episodes
from gymnast.play.game import Game
from gymnast.play.stage import Stage
from gymnast.play.step_table import Labels, labels_of, step_table
from gymnast.runs import checkpoint
from gymnast.runs.references import resolve, resolve_checkpoint
from gymnast.runs.saved_agent import SavedAgent
from gymnast.sinks import SinkGroup
from gymnast.verbs.eval import evaluate_ref
from gymnast.verbs.train import start
from gymnast.verbs.video import record_video
from gymnast.video import maker
from gymnast.video.encode import Encoder
from gymnast.video.overlay import _fit, annotated, enlarge
from gymnast.video.writer import CARD_SECONDS, HOLD_SECONDS, VideoWriter

TINY = ["env.n_envs=8", "algo.n_steps=32", "eval.episodes=2", "stop.episodes=4", "train.checkpoint_every=512"]


@pytest.fixture(autouse=True)
def prompt(monkeypatch: pytest.MonkeyPatch) -> None:
    """A busy machine would keep workers of low priority waiting for minutes."""
    monkeypatch.setattr(background, "NICENESS", 0)
    monkeypatch.setattr(maker, "NICENESS", 0)


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two runs of 1,024 steps, with a checkpoint half-way."""
    folder = tmp_path_factory.mktemp("runs")
    for env in ("CartPole-v1", "Pendulum-v1"):
        start(env, TINY, folder, seed=1, steps=1024, quiet=True)
    return folder


def record(ref: str, runs: Path, **options: Any) -> tuple[dict[str, Any], list[np.ndarray[Any, Any]], dict[str, Any]]:
    """What the command says, the decoded pictures, and the JSON file."""
    result = record_video(ref, runs, **options).to_json()
    return result, decode(Path(result["video"])), json.loads(Path(result["video"]).with_suffix(".json").read_text())


def decode(path: Path) -> list[np.ndarray[Any, Any]]:
    with av.open(str(path)) as file:
        return [frame.to_ndarray(format="rgb24") for frame in file.decode(video=0)]


def saved_agent(ref: str, runs: Path) -> SavedAgent:
    _, path = resolve_checkpoint(ref, runs)
    saved = checkpoint.load(path)
    config = configs.validate(saved.state["config"])
    env = make_vec(config.env, 1, "eval")
    env.close()
    return SavedAgent.build(config, env, saved.agent)


def test_a_browser_can_play_it(runs: Path, tmp_path: Path) -> None:
    result, pictures, said = record("@best:CartPole-v1", runs, out=tmp_path / "a.mp4")
    with av.open(result["video"]) as file:
        stream = file.streams.video[0]
        assert (stream.codec_context.name, stream.codec_context.pix_fmt) == ("h264", "yuv420p")
        assert float(stream.average_rate or 0) == 50.0  # CartPole's own pace
        assert (stream.height % 2, stream.width % 2) == (0, 0)
    data = Path(result["video"]).read_bytes()
    assert 0 < data.index(b"moov") < data.index(b"mdat")  # the index first: it plays while it loads
    # A picture for every state: those that were acted on, and the one the episode ended in
    (episode,) = said["parts"][0]["episodes"]
    assert len(pictures) == said["frames"] == result["frames"] == episode["length"] + 1 == len(episode["frames"])
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.json", "a.mp4"]


@pytest.mark.parametrize("frame_skip", [4, 1])
def test_a_video_of_doom_lasts_as_long_as_the_game(frame_skip: int, tmp_path: Path) -> None:
    """35 tics are a second, however many of them a decision takes; nobody is hit in the first second."""
    pytest.importorskip("vizdoom")
    settings = ["env.max_episode_steps=24", f"env.kwargs.frame_skip={frame_skip}", "env.kwargs.actions=[MOVE_LEFT]"]
    config = configs.load("VizdoomBasic-v1", settings).config
    stage = Stage(config, 1)
    try:
        saved = SavedAgent.build(config, stage.engine)
        labels = labels_of(saved.agent, stage.config, stage.engine.action_labels, None)
        with VideoWriter(tmp_path / "a.mp4") as video:
            (episode,) = video.add(play_episodes(saved.net, stage, 1, True), stage.fps, labels, {})
    finally:
        stage.engine.close()
    assert episode["length"] * frame_skip == 24
    with av.open(str(tmp_path / "a.mp4")) as file:
        seconds = float(file.duration) / av.time_base
    # the last picture stays as long as the others
    assert seconds == pytest.approx((24 + frame_skip) / 35, abs=0.01)
    with closing(Game(config)) as game:  # and a player takes the same time for a decision
        assert game.fps * frame_skip == 35


@pytest.mark.parametrize("env, stochastic", [("CartPole-v1", False), ("CartPole-v1", True), ("Pendulum-v1", False)])
def test_what_it_says_is_what_a_plain_env_does(env: str, stochastic: bool, runs: Path) -> None:
    """The JSON file's actions, played in a plain env without any pictures, give its rewards; the agent its values."""
    _, _, said = record(f"@best:{env}", runs, stochastic=stochastic)
    saved = saved_agent(f"@best:{env}", runs)
    agent = saved.agent
    # Values are shown as returns in the env's reward; the learner's is this many times as large
    unit = saved.config.env.reward.scale
    if agent.reward_normalizer is not None:
        unit /= float(agent.reward_normalizer.moments.var.sqrt())
    (episode,) = said["parts"][0]["episodes"]
    plain = gym.make(env)
    obs, _ = plain.reset(seed=episode["seed"])
    total = 0.0
    for now, after in zip(episode["frames"], episode["frames"][1:], strict=False):
        seen = torch.as_tensor(obs, dtype=torch.float32)[None]
        thoughts = agent.describe(Batch({"obs.obs": seen}))
        assert now["value"] == pytest.approx(float(thoughts["value"]), rel=1e-4, abs=1e-5)
        assert now["value"] * unit == pytest.approx(float(agent.values({"obs": seen})["value"]), rel=1e-4, abs=1e-5)
        if env == "CartPole-v1":
            assert now["probabilities"] == pytest.approx(thoughts["probability"][0].tolist(), abs=1e-5)
            assert stochastic or now["action"] == int(thoughts["probability"].argmax())
        obs, reward, terminated, truncated, _ = plain.step(
            np.asarray(now["action"], np.float32) if env == "Pendulum-v1" else now["action"]
        )
        total += float(reward)
        assert after["t"] == now["t"] + 1
        assert after["reward"] == pytest.approx(float(reward), abs=1e-5)
        assert after["return"] == pytest.approx(total, rel=1e-5, abs=1e-5)
    assert terminated or truncated
    assert episode["return"] == pytest.approx(total, rel=1e-5)


def test_pictures_change_no_episode(runs: Path) -> None:
    """Three episodes on video, and the same three that are only scored."""
    result, pictures, _ = record("@best:CartPole-v1", runs, episodes=3, seed=5)
    saved = saved_agent("@best:CartPole-v1", runs)
    env = make_vec(saved.config.env, 3, "eval")
    scores = evaluate(saved.net, env, 3, 5)
    env.close()
    filmed = [episode["return"] for episode in result["parts"][0]["episodes"]]
    assert sorted(filmed) == sorted(scores.returns.tolist())  # evaluation lists them as they end
    assert len(pictures) == sum(length + 1 for length in scores.lengths)
    assert evaluate_ref("@best:CartPole-v1", 3, runs, 5, False).data["eval_mean"] == pytest.approx(np.mean(filmed))


def test_the_strip_shows_these_numbers(runs: Path) -> None:
    """Every number of the decoded strip: a strip drawn with it fits best, one with another number fits worse."""
    _, pictures, said = record("@best:CartPole-v1", runs)
    saved = saved_agent("@best:CartPole-v1", runs)
    part = said["parts"][0]
    stage = Stage(saved.config, 1)
    labels = labels_of(saved.agent, saved.config.env, stage.engine.action_labels)
    steps = list(play_episodes(saved.net, stage, part["seed"]))
    stage.engine.close()
    assert labels.actions == ["push left", "push right"]
    (episode,) = part["episodes"]
    assert [step.total for step in steps] == [frame["return"] for frame in episode["frames"]]

    def distance(shown: np.ndarray[Any, Any], step: Any, reward: float, trained: int) -> float:
        drawn = annotated(step, reward, trained, labels)
        assert drawn.shape == shown.shape
        strip = slice(step.picture.shape[0], None)  # CartPole's 400 lines are shown as they are
        return float(np.abs(drawn[strip].astype(float) - shown[strip]).mean())

    step, reward, trained = steps[4], steps[3].reward, part["step"]
    right = distance(pictures[4], step, reward, trained)
    others: Sequence[tuple[Any, float, int]] = [
        (step, 7.0, trained),
        (replace(step, total=step.total + 4), reward, trained),
        (replace(step, value=(step.value or 0.0) + 44.4), reward, trained),
        (replace(step, action=1 - step.action), reward, trained),
        (replace(step, choices={"probability": [0.9, 0.1]}), reward, trained),
        (replace(step, t=888), reward, trained),
        (step, reward, 888_888),
    ]
    for other in others:
        assert distance(pictures[4], *other) > right + 0.05


@pytest.mark.parametrize("env", ["CartPole-v1", "Pendulum-v1"])
def test_a_video_shows_what_the_table_says(env: str, runs: Path) -> None:
    """Two episodes as the video's JSON has them, and the table of the same episodes."""
    _, _, said = record(f"@best:{env}", runs, episodes=2, seed=3)
    saved = saved_agent(f"@best:{env}", runs)
    stage = Stage(saved.config, 2)
    labels = labels_of(saved.agent, saved.config.env, stage.engine.action_labels)
    steps = list(play_episodes(saved.net, stage, 3))
    stage.engine.close()
    table = step_table(steps, labels)
    episodes = said["parts"][0]["episodes"]
    assert len(table) == sum(episode["length"] for episode in episodes)
    rows = iter(table)
    for number, episode in enumerate(episodes):
        total = 0.0
        for now, after in zip(episode["frames"], episode["frames"][1:], strict=False):
            row = next(rows)
            assert (row["env"], row["t"], row["value"]) == (number, now["t"], now["value"])
            assert (row["reward"], total) == (after["reward"], now["return"])
            if env == "CartPole-v1":
                assert row["action"] == labels.actions[now["action"]]
                assert [row["p push left"], row["p push right"]] == now["probabilities"]
            else:
                assert row["action"] == f"{now['action'][0]:.3f}"
            total += row["reward"]
        assert total == pytest.approx(episode["return"], rel=1e-9)
        assert (row["terminated"], row["truncated"]) == (episode["terminated"], not episode["terminated"])
    # What a plain env shows when the recorded actions are played in it
    plain = gym.make(env)
    first = [step for step in steps if step.env == 0]
    obs, _ = plain.reset(seed=episodes[0]["seed"])
    for step in first[:-1]:
        assert np.allclose(step.obs["obs"], obs, atol=1e-5)
        obs = plain.step(np.asarray(step.action, np.float32) if env == "Pendulum-v1" else step.action)[0]
    assert np.allclose(first[-1].obs["obs"], obs, atol=1e-5)
    assert first[-1].action is None


def test_two_processes_may_make_the_same_video(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "last.mp4"
    encoders = []
    for pid in (1, 2):
        monkeypatch.setattr(os, "getpid", lambda pid=pid: pid)
        encoders.append(Encoder(path, 32, 32, 10))
    for count, encoder in enumerate(encoders, 2):
        with encoder:
            for _ in range(count):
                encoder.write(np.zeros((32, 32, 3), np.uint8))
        with av.open(str(path)) as file:
            assert sum(1 for _ in file.decode(video=0)) == count  # the newest, whole
    assert list(tmp_path.iterdir()) == [path]


def test_progression_shows_every_checkpoint_in_order(runs: Path) -> None:
    result, pictures, said = record("@best:CartPole-v1", runs, progression=True, seconds=1.0)
    steps = [part["step"] for part in said["parts"]]
    assert steps == sorted(set(steps))
    assert steps[0] == 512
    assert steps[-1] == 1024
    # of each: its card, at most a second (50 pictures) of its episode, and its last picture held
    shown = [min(50, len(part["episodes"][0]["frames"])) for part in said["parts"]]
    extra = round(CARD_SECONDS * 50) + round(HOLD_SECONDS * 50)
    assert len(pictures) == sum(shown) + len(shown) * extra == result["frames"]
    card, first = pictures[10], pictures[round(CARD_SECONDS * 50)]
    assert card.mean() < 40 < first.mean()  # dark with a few letters; CartPole is white
    assert Path(result["video"]).name == "progression.mp4"


def test_an_env_without_pictures_is_told_in_a_line(runs: Path, tmp_path: Path) -> None:
    """By the command, and by a run that should make videos: it trains all the same."""
    end = start("gymnast/Bandit-v0", [*TINY, "log.video=best"], tmp_path, seed=1, steps=1024, quiet=True)
    assert end.data["env_steps"] == 1024
    run = resolve("@last", tmp_path)
    log = (run.path / "log.txt").read_text()
    assert log.count("no videos: ") == 1
    assert "draws no pictures" in log
    with pytest.raises(UserError, match="draws no pictures"):
        record("@last", tmp_path)
    assert not run.videos_dir.exists() or list(run.videos_dir.iterdir()) == []


def test_a_run_films_its_best_and_by_schedule(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    passed_on: list[str] = []  # to sinks that take videos
    monkeypatch.setattr(SinkGroup, "video", lambda self, step, path: passed_on.append(f"{path.stem} of {step}"))
    start("CartPole-v1", [*TINY, "log.video=512"], tmp_path, seed=1, steps=1024, quiet=True)
    run = resolve("@last", tmp_path)
    names = sorted(path.name for path in run.videos_dir.iterdir())
    assert names == [f"{name}.{kind}" for name in ("best", "step_1024", "step_512") for kind in ("json", "mp4")]
    best = json.loads((run.videos_dir / "best.json").read_text())
    assert {"step_512 of 512", "step_1024 of 1024", f"best of {best['parts'][0]['step']}"} <= set(passed_on)
    assert len(decode(run.videos_dir / "best.mp4")) == best["frames"]
    # The video that the run made of its best agent is the one that the command makes
    _, _, again = record(f"{run.id}/best", tmp_path, out=tmp_path / "again.mp4")
    assert again["parts"][0]["episodes"] == best["parts"][0]["episodes"]
    assert again["parts"][0]["step"] == best["parts"][0]["step"]


def test_a_worker_that_gets_no_time_is_replaced_at_the_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first worker is stopped as soon as it is there; the run's video is made all the same."""
    made: list[Worker] = []

    class Stopped(Worker):
        def __init__(self, *args: Any, **options: Any) -> None:
            super().__init__(*args, **options)
            made.append(self)
            if len(made) == 1:
                os.kill(self.pid, signal.SIGSTOP)

    monkeypatch.setattr(maker, "Worker", Stopped)
    monkeypatch.setattr(maker, "LAST_VIDEOS_SECONDS", 0.0)
    start("CartPole-v1", [*TINY, "log.video=best"], tmp_path, seed=1, steps=1024, quiet=True)
    assert len(made) == 2
    videos = resolve("@last", tmp_path).videos_dir
    assert sorted(path.name for path in videos.iterdir()) == ["best.json", "best.mp4"]


def test_a_missing_package_names_its_extra(runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(video, "PACKAGES", ("there_is_no_such_package",))
    with pytest.raises(UserError, match=r"gymnast-rl\[video\]"):
        record("@best:CartPole-v1", runs)
    with pytest.raises(UserError, match=r"log.video: best: .* is not installed.*gymnast-rl\[video\]"):
        start("CartPole-v1", [*TINY, "log.video=best"], runs, steps=1024, quiet=True)


def test_mistakes_are_told(runs: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"call it .*clip\.mp4"):
        record("@best:CartPole-v1", runs, out=tmp_path / "clip.gif")
    with pytest.raises(UserError, match="leave out --episodes"):
        record("@best:CartPole-v1", runs, progression=True, episodes=2)
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="cannot write"):
        record("@best:CartPole-v1", runs, out=tmp_path / "file" / "a.mp4")


@pytest.mark.parametrize(
    "size,shown",
    [((10, 10), (400, 400)), ((160, 160), (480, 480)), ((210, 160), (420, 320)), ((72, 288), (216, 864))],
)
def test_small_pictures_are_enlarged_in_whole_pixels(size: tuple[int, int], shown: tuple[int, int]) -> None:
    """Height and width; a flat picture becomes no wider than 960 pixels."""
    picture = np.random.default_rng(0).integers(0, 256, (*size, 3), dtype=np.uint8)
    large = np.asarray(enlarge(picture))
    assert large.shape == (*shown, 3)
    factor = shown[0] // size[0]
    np.testing.assert_array_equal(large, picture.repeat(factor, 0).repeat(factor, 1))


def test_every_action_and_every_part_of_the_reward_has_its_place() -> None:
    """A strip of 480 pixels with Atari's 18 actions: each chance is written, whatever the names are; parts of a reward
    stand in as many lines as they need. Of the last picture, without chances, it is as high."""
    ways = ("NOOP", "UP", "RIGHT", "LEFT", "DOWN", "DOWNRIGHT")
    names = [f"{way}{more}" for way in ways for more in ("", "FIRE", "JUMP")]
    labels, screen = Labels(names, {}), np.zeros((210, 160, 3), np.uint8)
    chances = [0.05] * 18
    step = Step(0, 3, {}, action=0, choices={"probability": chances}, value=1.0, picture=screen)
    plain = annotated(step, 0.0, None, labels)
    places = set()
    for action in range(18):
        others = [*chances[:action], 0.06, *chances[action + 1 :]]
        drawn = annotated(replace(step, choices={"probability": others}), 0.0, None, labels)
        rows, columns = np.nonzero((drawn != plain).any(axis=2))
        places.add((rows.min() // 20, columns.min() // 60))
    assert len(places) == 18
    assert annotated(replace(step, choices={}), 0.0, None, labels).shape == plain.shape
    parts = dict.fromkeys(("env", "progress", "time", "level", "death", "points"), 1000.0)
    heights = [annotated(step, 0.0, None, labels, dict(list(parts.items())[:n])).shape[0] for n in (1, 3, 6)]
    assert plain.shape[0] < heights[0] == heights[1] < heights[2]


def test_pong_shows_its_actions_by_where_the_paddle_goes() -> None:
    """As Studio does: RIGHT moves it up."""
    pytest.importorskip("ale_py")
    config = configs.load("ALE/Pong-v5:objects").config
    stage = Stage(config, 1)
    try:
        labels = stage.labels(SavedAgent.build(config, stage.engine).agent)
    finally:
        stage.engine.close()
    assert labels.actions == ["FIRE", "up (RIGHT)", "down (LEFT)"]


def test_names_of_actions_stay_apart_when_there_is_little_room() -> None:
    """480 pixels, six actions: what would be cut to `back.` three times keeps its last word."""
    draw = ImageDraw.Draw(Image.new("RGB", (480, 60)))
    names = ["back thigh", "back shin", "back foot", "back right hip", "back right ankle", "front left hip"]
    fitted = [_fit(draw, name, 74, 14) for name in names]
    assert fitted == ["back thigh", "back shin", "back foot", "b r hip", "b r ankle", "f l hip"]
