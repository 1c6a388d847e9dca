"""Atari from RAM: what is read there is what the screen shows, and the game is the one that pictures are made of."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

from gymnast.config import EnvConfig, load
from gymnast.core.errors import UserError
from gymnast.envs.make import choose_engine, make_env, make_vec, missed_engine
from gymnast.envs.suites import suite_of
from gymnast.envs.suites.atari.env import AtariGame
from gymnast.envs.suites.atari.reader import TableReader
from gymnast.envs.suites.atari.task import atari_task
from gymnast.envs.types import VecEnv
from gymnast.verbs.envs.show import list_envs

ale_py = pytest.importorskip("ale_py")

N = 2
STICKY = "repeat_action_probability"


def objects(game: str, **kwargs: Any) -> dict[str, Any]:
    return load(f"ALE/{game}-v5:objects").config.env.kwargs | kwargs


def watch(game: str, follow: tuple[int, int], frames: int) -> Iterator[tuple[Any, Any, AtariGame, TableReader]]:
    """Screen and RAM of frames of a game whose paddle follows its ball, more or less: cells of both, offsets alike."""
    task = atari_task(objects(game, **{STICKY: 0.0}))
    assert task.table is not None
    env, reader = AtariGame(game.lower(), task), TableReader(task.table, [])
    env.reset(seed=1)
    rng, action = np.random.default_rng(0), 0
    for frame in range(frames):
        ram = env.ale.getRAM()
        if frame % 4 == 0:
            ahead = int(ram[follow[0]]) - int(ram[follow[1]]) + int(rng.integers(-12, 13))
            action = 0 if abs(ahead) < 4 else 1 if ahead > 0 else 2
        over = env.step(env.fire if frame % 60 == 0 and env.fire is not None else action)[2]
        if over:
            env.reset()
        else:
            yield env.ale.getScreenRGB(), env.ale.getRAM(), env, reader


def pixels(screen: Any, colour: tuple[int, int, int], rows: slice, columns: slice) -> tuple[int, int, int, int] | None:
    """x, y, width and height of what has a colour in a part of the screen."""
    y, x = np.nonzero((screen[rows, columns] == colour).all(-1))
    if not len(y):
        return None
    return int(x.min()) + columns.start, int(y.min()) + rows.start, int(np.ptp(x)) + 1, int(np.ptp(y)) + 1


COURT = slice(34, 194), slice(0, 160)


def test_pongs_objects_are_where_the_screen_shows_them() -> None:
    """Frame by frame: the visible part of each lies in its box, a pixel more or less, and there are no others."""
    colours = {"ball": (236, 236, 236), "player": (92, 186, 92), "enemy": (213, 130, 74)}
    seen, wrong = dict.fromkeys(colours, 0), []
    for screen, ram, _, reader in watch("Pong", (54, 51), 1600):
        boxes = {box.name: box for box in reader.boxes(ram)}
        assert len(boxes) == len(reader.boxes(ram))
        for name, colour in colours.items():
            shown = pixels(screen, colour, *COURT)
            if (shown is None) != (name not in boxes):
                wrong.append((name, shown, boxes.get(name)))
            elif shown is not None:
                seen[name] += 1
                box, (x, y, width, height) = boxes[name], shown
                assert box.x <= x
                assert x + width <= box.x + box.width
                assert box.y - 1 <= y
                assert y + height <= box.y + box.height + 1
    assert min(seen.values()) > 600
    assert len(wrong) < 5, wrong  # of 4,800: the frames in which a ball leaves or enters


def test_breakouts_objects_are_where_the_screen_shows_them() -> None:
    red, columns = (200, 72, 72), slice(8, 152)
    balls, bricks_gone, wrong = 0, 0, 0
    where = {  # which column of the wall a bit is, by cell // 6: the wall's rows are six cells, the lowest row first
        0: {0: 15, 2: 16, 4: 17},
        1: {1: 14, 3: 13, 5: 12, 7: 11},
        2: {4: 9, 6: 10},
        3: {0: 5, 2: 6, 4: 7, 6: 8},
        4: {1: 4, 3: 3, 5: 2, 7: 1},
        5: {6: 0},
    }
    for screen, ram, env, reader in watch("Breakout", (99, 72), 3000):
        boxes = {box.name: box for box in reader.boxes(ram)}
        observation = dict(zip(reader.names, reader.read(ram, None).tolist(), strict=True))
        assert observation["lives"] == pytest.approx(env.ale.lives() / 5 * 2 - 1)
        paddle = pixels(screen, red, slice(190, 192), columns)
        assert paddle is not None
        wrong += not abs(boxes["paddle"].x - paddle[0]) <= 1 and paddle[2] == 16
        ball = pixels(screen, red, slice(94, 188), columns)  # below the wall, above the paddle
        if ball is not None:
            balls += 1
            wrong += "ball" not in boxes or abs(boxes["ball"].x - ball[0]) > 1 or abs(boxes["ball"].y - ball[1]) > 3
        # six rows of bricks, 6 pixels high, from row 57; eighteen columns, 8 pixels wide, from column 8
        wall = (screen[59:95:6, 12:152:8] != 0).any(-1)
        bits = [observation[f"bricks {i}"] for i in range(108)]
        read = iter(bits)
        told = np.zeros((6, 18), bool)
        for columns_of in where.values():
            for row in range(6):
                for bit in sorted(columns_of):
                    told[5 - row, columns_of[bit]] = next(read) == 1
        assert next(read, None) is None
        differ = int((told != wall).sum())
        assert differ <= 2  # the ball itself is in front of a hole at most
        bricks_gone = max(bricks_gone, int(108 - told.sum()))
    assert balls > 750
    assert bricks_gone >= 6
    assert wrong < 10


TASKS = {
    "objects": ("Pong", lambda: objects("Pong")),
    "objects, several games": ("Breakout", lambda: objects("Breakout", noop_max=0, **{STICKY: 0.0})),
    "objects, sticky, lives": ("Breakout", lambda: objects("Breakout", stack=2)),
    "ram": ("Breakout", lambda: {"observation": "ram", "stack": 2}),
    "ram and changes": ("Breakout", lambda: {"observation": "ram", "stack": 2, "changes": True}),
    "some cells": ("Breakout", lambda: {"observation": "ram", "cells": [101, 72, 99], "show_action": True}),
}


def vector(engine: str, game: str, kwargs: dict[str, Any], role: Any = "train", **config: Any) -> VecEnv:
    return make_vec(EnvConfig(id=f"ALE/{game}-v5", engine=engine, kwargs=kwargs, **config), N, role)


@pytest.mark.parametrize("task", TASKS)
def test_process_equals_sync(task: str) -> None:
    game, kwargs = TASKS[task]
    vecs = [vector(engine, game, kwargs()) for engine in ("process", "sync")]
    try:
        np.testing.assert_array_equal(*(vec.reset(5).obs["obs"] for vec in vecs))
        rng, ends = np.random.default_rng(0), 0
        for _ in range(250 if game == "Breakout" else 80):
            action = rng.integers(0, vecs[0].action_space.n, N)  # type: ignore[attr-defined]
            one, other = (vec.step(action) for vec in vecs)
            ended = one.terminated | one.truncated
            ends += int(ended.sum())
            for name in ("reward", "terminated", "truncated"):
                np.testing.assert_array_equal(getattr(one, name), getattr(other, name))
            np.testing.assert_array_equal(one.obs["obs"], other.obs["obs"])
            np.testing.assert_array_equal(one.final_obs["obs"][ended], other.final_obs["obs"][ended])
            assert one.episodes == other.episodes
        assert ends > 0 or game == "Pong"
    finally:
        for vec in vecs:
            vec.close()


@pytest.mark.parametrize("sticky", [0.0, 0.25])
def test_the_game_is_the_one_that_pictures_are_made_of(sticky: float) -> None:
    """ALE's own vector env under the same actions: the same rewards, lost lives, ends and scores, frame skip and idle
    frames, FIRE and sticky actions being the same. Without idle frames all games after the first start alike."""
    kwargs = {"noop_max": 0 if sticky == 0.0 else 30, STICKY: sticky}
    pictures = {"actions": ["FIRE", "RIGHT", "LEFT"], "screen_size": 42} | kwargs
    vecs = [vector("ale", "Breakout", pictures), vector("sync", "Breakout", objects("Breakout", **kwargs))]
    try:
        for vec in vecs:
            vec.reset(3)
        rng, ends, rewards = np.random.default_rng(3), 0, 0.0
        for _ in range(300 if sticky == 0.0 else 90):  # a sticky game after the first has a seed of its own here
            action = rng.integers(0, 3, N)
            ale, ours = (vec.step(action) for vec in vecs)
            for name in ("reward", "terminated", "truncated"):
                np.testing.assert_array_equal(getattr(ale, name), getattr(ours, name))
            records = [[dataclasses.replace(one, seed=0) for one in batch.episodes] for batch in (ale, ours)]
            assert records[0] == records[1]
            ends += int(ale.terminated.sum())
            rewards += float(ale.reward.sum())
            if sticky and ale.episodes:
                break
        assert ends > 0
        assert rewards > 0 or sticky
    finally:
        for vec in vecs:
            vec.close()


@pytest.mark.parametrize(
    "kwargs",
    [{}, {"observation": "ram"}, {"observation": "objects"}, {"observation": "rgb", "crop_rows": [32, 210]}],
    ids=["grey", "ram", "objects", "cropped colours"],
)
def test_training_and_evaluation_see_the_same(kwargs: dict[str, Any]) -> None:
    """For the same seed and actions; a lost life ends the episode for the learner alone."""
    task = objects("Breakout", stack=2, screen_size=42) | ({"observation": "grey"} | kwargs)
    vecs = [vector("auto", "Breakout", task, role) for role in ("train", "eval")]
    try:
        np.testing.assert_array_equal(*(vec.reset(7).obs["obs"] for vec in vecs))
        rng, lost = np.random.default_rng(0), 0
        for _ in range(120):
            action = rng.integers(0, 3, N)
            train, evaluation = (vec.step(action) for vec in vecs)
            np.testing.assert_array_equal(train.obs["obs"], evaluation.obs["obs"])
            np.testing.assert_array_equal(train.reward, evaluation.reward)
            assert train.episodes == evaluation.episodes
            lost += int(train.terminated.sum() - evaluation.terminated.sum())
        assert lost > 0
    finally:
        for vec in vecs:
            vec.close()


def test_a_game_of_objects_resumes_exactly() -> None:
    """Sticky or not: a game is reached again by its seed and its actions, with velocities and the last action."""
    vecs = [vector("sync", "Breakout", objects("Breakout")) for _ in range(2)]
    rng = np.random.default_rng(0)
    vecs[0].reset(4)
    for _ in range(60):
        seen = vecs[0].step(rng.integers(0, 3, N)).obs["obs"].copy()
    np.testing.assert_array_equal(vecs[1].load_state(vecs[0].save_state()).obs["obs"], seen)
    for _ in range(20):
        action = rng.integers(0, 3, N)
        np.testing.assert_array_equal(*(vec.step(action).obs["obs"] for vec in vecs))
    for vec in vecs:
        vec.close()


def test_ram_is_the_consoles() -> None:
    env = make_env(EnvConfig(id="ALE/Pong-v5", kwargs={"observation": "ram", "stack": 2}))
    game = env.unwrapped
    assert isinstance(game, AtariGame)
    first, _ = env.reset(seed=3)
    assert (first.shape, first.dtype) == ((256,), np.float32)
    assert not first[:128].any()  # nothing before the start
    np.testing.assert_array_equal(first[128:], game.ale.getRAM())
    second = env.step(2)[0]
    np.testing.assert_array_equal(second[:128], first[128:])
    np.testing.assert_array_equal(second[128:], game.ale.getRAM())
    assert env.observation_space.contains(second)
    env.close()


def test_ram_with_changes_says_how_bytes_moved() -> None:
    env = make_env(EnvConfig(id="ALE/Pong-v5", kwargs={"observation": "ram", "stack": 1, "changes": True}))
    game = env.unwrapped
    assert isinstance(game, AtariGame)
    seen = env.reset(seed=3)[0]
    before = game.ale.getRAM().astype(int)
    np.testing.assert_array_equal(seen[128:], 0)
    up = down = wrapped = 0
    for _ in range(200):
        seen = env.step(2)[0]
        ram = game.ale.getRAM().astype(int)
        np.testing.assert_array_equal(seen[:128], ram)
        np.testing.assert_array_equal(seen[128:] % 256, (ram - before) % 256)
        assert env.observation_space.contains(seen)
        up, down = up + (seen[128:] > 0).sum(), down + (seen[128:] < 0).sum()
        wrapped += (abs(ram - before) > 128).sum()
        before = ram
    assert min(up, down, wrapped) > 0
    env.close()


def test_a_stack_of_ram_has_the_moment_before_first() -> None:
    env = make_env(EnvConfig(id="ALE/Pong-v5", kwargs={"observation": "ram", "stack": 2, "changes": True}))
    before = env.reset(seed=3)[0]
    for _ in range(20):
        seen = env.step(2)[0]
        np.testing.assert_array_equal(seen[:256], before[256:])
        before = seen
    env.close()


def test_bytes_of_ram_have_names() -> None:
    labels = suite_of("ALE/Pong-v5").observation_labels
    assert labels({"observation": "ram", "stack": 1, "cells": [49]}) == ["byte 49"]
    apart = [{"of": 54, "to": 51, "within": 24}, {"of": 49, "number": 189, "within": 9}]
    kwargs = {"cells": [54, 49], "changes": True, "differences": apart}
    kwargs |= {"show_action": True, "actions": ["FIRE", "LEFT"]}
    names = labels({"observation": "ram", "stack": 1, **kwargs})
    changes = ["byte 54 change", "byte 49 change"]
    assert names == ["byte 54", "byte 49", *changes, "byte 54 - byte 51", "byte 49 - 189", "last FIRE", "last LEFT"]
    assert len(labels({"observation": "ram", "stack": 1}) or []) == 128


def test_some_cells_of_ram_come_in_the_order_asked_for() -> None:
    kwargs = {"observation": "ram", "stack": 1, "cells": [54, 49, 51]}
    some, moving, all_cells = (
        make_env(EnvConfig(id="ALE/Pong-v5", kwargs=changed))
        for changed in (kwargs, {**kwargs, "changes": True}, {"observation": "ram", "stack": 1, "changes": True})
    )
    for env in (some, moving, all_cells):
        env.reset(seed=3)
    for _ in range(60):
        part, pair, whole = (env.step(2)[0] for env in (some, moving, all_cells))
        np.testing.assert_array_equal(part, whole[[54, 49, 51]])
        np.testing.assert_array_equal(pair, whole[[54, 49, 51, 182, 177, 179]])
    for env in (some, moving, all_cells):
        env.close()


def test_ram_with_the_last_action() -> None:
    kwargs = {
        "observation": "ram",
        "stack": 1,
        "cells": [49],
        "show_action": True,
        "actions": ["FIRE", "RIGHT", "LEFT"],
    }
    env = make_env(EnvConfig(id="ALE/Pong-v5", kwargs=kwargs))
    np.testing.assert_array_equal(env.reset(seed=3)[0][1:], 0)
    for action in (2, 0, 1, 1):
        seen = env.step(action)[0]
        np.testing.assert_array_equal(seen[1:], np.arange(3) == action)
        assert env.observation_space.contains(seen)
    env.close()


def test_jumps_of_bytes_are_no_changes() -> None:
    """The ball moves a few pixels a decision, until it appears in the middle again."""
    kwargs: dict[str, Any] = {"observation": "ram", "stack": 1, "cells": [49, 54]}
    every, few = (make_env(EnvConfig(id="ALE/Pong-v5", kwargs={**kwargs, "changes": most})) for most in (True, 24))
    every.reset(seed=3), few.reset(seed=3)
    few_space: Any = few.observation_space
    assert few_space.low.tolist() == [0, 0, -24, -24]
    assert few_space.high.tolist() == [255, 255, 24, 24]
    jumps = moves = 0
    for _ in range(400):
        seen, bounded = (env.step(2)[0] for env in (every, few))
        np.testing.assert_array_equal(seen[:2], bounded[:2])
        np.testing.assert_array_equal(bounded[2:], np.where(np.abs(seen[2:]) > 24, 0, seen[2:]))
        assert few.observation_space.contains(bounded)
        jumps, moves = jumps + (np.abs(seen[2:]) > 24).sum(), moves + (bounded[2:] != 0).sum()
    assert jumps > 5
    assert moves > 100
    every.close(), few.close()


def test_differences_of_bytes_are_cut() -> None:
    apart_of = [{"of": 54, "to": 51, "within": 24}, {"of": 49, "number": 189, "within": 24}]
    kwargs = {"observation": "ram", "stack": 1, "changes": True, "differences": apart_of}
    env = make_env(EnvConfig(id="ALE/Pong-v5", kwargs=kwargs))
    env.reset(seed=3)
    apart = []
    for _ in range(300):
        seen = env.step(2)[0]
        assert seen[256] == np.clip(seen[54] - seen[51], -24, 24)
        assert seen[257] == np.clip(seen[49] - 189, -24, 24)
        assert env.observation_space.contains(seen)
        apart.append(seen[256])
    assert (min(apart), max(apart)) == (-24, 24)
    assert len(set(apart)) > 2
    env.close()


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("changes=true", "cells, changes and differences: are for observation = ram, and observation is grey"),
        ("cells=[49]", "cells, changes and differences: are for observation = ram, and observation is grey"),
        ("differences=[{of: 1, to: 2, within: 3}]", "cells, changes and differences: are for observation = ram"),
        ("differences=[{of: 1, within: 3}]", "a difference of byte 1: set either `to` .another byte. or `number`"),
        ("differences=[{of: 1, to: 2, number: 3, within: 3}]", "a difference of byte 1: set either `to`"),
        *(
            (f"changes={most}", rf"changes = '?{most}'?: must be true, false, or a whole number from 1 to 127")
            for most in ("-3", "2.5", "0", "200", "often")
        ),
        ("differences=[{of: 1, number: 300, within: 3}]", r"--set: env.kwargs: differences\[0\].number.* at most 255"),
        ("cells=[49, 128]", "there is no byte 128: the console has 128, from 0 to 127"),
        ("cells=[49, 49]", "must list different bytes"),
        ("cells=[]", "must list different bytes"),
    ],
)
def test_settings_of_ram_that_make_no_sense(setting: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        load("ALE/Pong-v5", [f"env.kwargs.{setting}"])


def test_an_episode_depends_on_its_seed_alone() -> None:
    """A reset restores the console instead of loading the game again: nothing of the games before may be left."""
    kwargs = {"observation": "ram", "changes": True}
    fresh, used = (make_env(EnvConfig(id="ALE/Breakout-v5", kwargs=kwargs)) for _ in range(2))
    used.reset(seed=1)
    for _ in range(150):
        used.step(used.action_space.sample())
    streams = []
    for env in (fresh, used):
        rows = [env.reset(seed=9)[0]]
        rows += [env.step(action)[0] for action in [1, 2, 2, 3, 0, 3] * 20]
        streams.append(np.array(rows))
        env.close()
    np.testing.assert_array_equal(*streams)


@pytest.mark.parametrize("n_envs,engine", [(8, "process"), (1, "sync")])
def test_auto_engine(n_envs: int, engine: str) -> None:
    config = EnvConfig(id="ALE/Pong-v5", kwargs={"observation": "ram"})
    assert choose_engine(config, n_envs)[0] == engine
    assert missed_engine(config, n_envs) is None  # none would be faster


class Pressed(gym.Wrapper[Any, Any, Any, Any]):
    """Notes what reaches a game, and when a life is lost in it."""

    def __init__(self, env: gym.Env[Any, Any]) -> None:
        super().__init__(env)
        self.notes: list[Any] = []
        self._lives = 0

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        result = self.env.step(action)
        self.notes.append(int(action))
        lives = self.env.unwrapped.ale.lives()  # type: ignore[attr-defined]
        if lives < self._lives:
            self.notes.append("lost")
        self._lives = lives
        return result


def keys_after_losses(notes: list[Any]) -> list[list[int]]:
    """Of each lost life but the last: what was pressed in the next two decisions of four frames."""
    losses = [at for at, note in enumerate(notes) if note == "lost"]
    return [[key for key in notes[at + 1 : at + 13] if key != "lost"] for at in losses[:-1]]


def test_fire_is_pressed_after_a_lost_life_where_stable_baselines3_does() -> None:
    """Its EpisodicLifeEnv and FireResetEnv, as RL Zoo uses them, press NOOP, FIRE and one more key; here FIRE alone.
    Either way the next ball is served although the agent never presses FIRE, and the game goes on to its end."""
    wrappers = pytest.importorskip("stable_baselines3.common.atari_wrappers")
    gym.register_envs(ale_py)
    theirs = Pressed(gym.make("BreakoutNoFrameskip-v4"))
    env = wrappers.FireResetEnv(wrappers.EpisodicLifeEnv(wrappers.MaxAndSkipEnv(theirs, skip=4)))
    theirs.notes.clear()
    for _ in range(5):  # lives
        env.reset(seed=0)
        over = False
        while not over:
            _, _, over, _, _ = env.step(0)
    assert env.unwrapped.ale.game_over()  # type: ignore[attr-defined]
    ours = make_env(EnvConfig(id="ALE/Breakout-v5", kwargs={STICKY: 0.0}), "train")
    inner = ours.env.env  # type: ignore[attr-defined]  # decisions > recorder > time limit > game
    pressed = inner.env = Pressed(inner.env)
    ours.reset(seed=0)
    over = False
    while not over:
        _, _, over, _, _ = ours.step(0)
    for notes in (theirs.notes, pressed.notes):
        after = keys_after_losses(notes)
        assert len(after) == 4
        assert all(1 in keys for keys in after)
        served = [note for note in notes if note != "lost"]
        assert set(served) <= {0, 1, 2}
    ours.close()
    env.close()


HANDFUL = ["Adventure", "Asterix", "Freeway", "Qbert"]  # Adventure's screen has 250 rows
SMALL = [
    "env.n_envs=2",
    "env.max_episode_steps=60",
    "algo.n_steps=8",
    "algo.batch_size=16",
    "algo.n_epochs=1",
    "eval.every=0",
    "eval.episodes=2",
    "stop.episodes=2",
    "stop.max_episodes=2",
    "log.sinks=[]",
]


def train_a_little(target: str) -> None:
    from gymnast.training.build import build
    from gymnast.training.loop import train

    run = build(load(target, [*SMALL, "train.total_timesteps=32"]).config, None)
    train(run)
    run.close()
    assert run.counters.env_steps == 32


@pytest.mark.parametrize("game", HANDFUL)
def test_a_game_without_a_preset_trains_with_the_familys_defaults(game: str) -> None:
    resolved = load(f"ALE/{game}-v5")
    assert resolved.config.agent.encoder == "nature_cnn"
    assert resolved.config.env.reward.clip == 1
    assert resolved.config.env.kwargs[STICKY] == 0.25
    train_a_little(f"ALE/{game}-v5")
    train_a_little(f"ALE/{game}-v5:ram")
    assert load(f"ALE/{game}-v5:a2c").config.algo.name == "a2c"


def test_the_list_of_envs_knows_every_game() -> None:
    gym.register_envs(ale_py)
    listed = list_envs(everything=True).data
    known = {*listed["others"], *(env["id"] for env in listed["envs"])}
    games = {name for name in gym.registry if name.startswith("ALE/")}
    assert len(games) > 100
    assert games <= known


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_every_game_trains() -> None:
    gym.register_envs(ale_py)
    ids = [name for name in gym.registry if name.startswith("ALE/")]
    assert len(ids) > 100
    for name in ids:
        train_a_little(name)
