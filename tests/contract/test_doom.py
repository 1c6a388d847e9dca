"""Doom as made here: the game of the package's own wrapper, actions by their effect, pictures, seeds, processes."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

from gymnast.config import EnvConfig, validate
from gymnast.core.errors import EnvFailure, UserError
from gymnast.envs.forbid import find_forbid
from gymnast.envs.make import make_env, make_vec
from gymnast.envs.recorder import recorder_of
from gymnast.envs.suites.vizdoom.buttons import clash, combinations, parts_of
from tests.processes import is_alive, wait_for

pytest.importorskip("vizdoom")

EVERY_PIXEL = {"screen_size": [120, 160], "stack": 1}
DOOR = 34  # of Freedoom's E1M1: a sector that is closed, in front of it a place to stand and look east
BEFORE_THE_DOOR = "warp 498 1024"

Opened = Callable[..., gym.Env[Any, Any]]


@pytest.fixture
def opened() -> Iterator[Opened]:
    """Makes envs, and closes them whatever happens."""
    envs: list[gym.Env[Any, Any]] = []

    def make(env_id: str, *, render_mode: str | None = None, limit: int | None = None, **kwargs: Any) -> Any:
        cfg = EnvConfig(id=f"Vizdoom{env_id}", kwargs=kwargs, max_episode_steps=limit)
        envs.append(make_env(cfg, render_mode=render_mode))
        return envs[-1]

    yield make
    for env in envs:
        env.close()


def game_of(env: gym.Env[Any, Any]) -> Any:
    return env.unwrapped


def doom_of(pid: int) -> list[int]:
    """The Doom processes that a process has."""
    listed = subprocess.run(["ps", "-eo", "pid=,ppid=,comm="], capture_output=True, text=True, check=True).stdout
    rows = [line.split(maxsplit=2) for line in listed.splitlines()]
    return [int(own) for own, parent, name in rows if int(parent) == pid and name.startswith("vizdoom")]


def act(env: gym.Env[Any, Any], label: str, times: int = 1) -> dict[str, float]:
    """The game's numbers after an action."""
    for _ in range(times):
        env.step(game_of(env).get_action_meanings().index(label))
    numbers: dict[str, float] = game_of(env).variables
    return numbers


@pytest.mark.parametrize("name", ["Basic-v1", "DefendCenter-v1", "TakeCover-v1"])
def test_an_episode_is_that_of_the_packages_wrapper(
    opened: Opened, name: str, tmp_path: Path, monkeypatch: Any
) -> None:
    """The same pictures, rewards and ends for the same seed and actions."""
    monkeypatch.chdir(tmp_path)  # theirs leaves files behind
    ours = opened(name, **EVERY_PIXEL)
    theirs = gym.make(f"Vizdoom{name}", frame_skip=4, screen_resolution="RES_160X120", screen_format="GRAY8")
    try:
        assert ours.action_space == theirs.action_space
        rng = np.random.default_rng(0)
        for seed in (3, 4):
            found, expected = ours.reset(seed=seed)[0], theirs.reset(seed=seed)[0]
            for _ in range(90):
                np.testing.assert_array_equal(found[0], expected["screen"][..., 0])
                action = int(rng.integers(ours.action_space.n))  # type: ignore[attr-defined]
                found, *step, _ = ours.step(action)
                expected, *reference, _ = theirs.step(action)
                assert step[0] == reference[0]
                over, late = reference[1] or reference[2], reference[2]
                assert step[1:] == [over and not late, late]  # theirs says both at a time limit
                if over:
                    break
    finally:
        theirs.close()


def test_pictures_for_people_change_nothing_for_the_agent(opened: Opened) -> None:
    """With them the engine draws in colour, and grey is computed here: as the engine does, bit for bit."""
    seen = []
    for mode in (None, "rgb_array"):
        env = opened("DeadlyCorridor-v1", render_mode=mode, **EVERY_PIXEL)
        env.action_space.seed(1)
        seen.append([env.reset(seed=1)[0], *(env.step(env.action_space.sample())[0] for _ in range(15))])
    np.testing.assert_array_equal(*seen)
    assert env.render().shape == (240, 320, 3)  # type: ignore[union-attr]


def turned(before: dict[str, float], after: dict[str, float]) -> float:
    return (after["ANGLE"] - before["ANGLE"] + 180) % 360 - 180


def moved(before: dict[str, float], after: dict[str, float]) -> tuple[float, float]:
    """Map units ahead, and to the left, of where the player looked."""
    step = complex(after["POSITION_X"] - before["POSITION_X"], after["POSITION_Y"] - before["POSITION_Y"])
    ahead = step * np.exp(-1j * np.radians(before["ANGLE"]))
    return float(ahead.real), float(ahead.imag)


def test_every_button_does_what_its_label_says(opened: Opened) -> None:
    moves = ["MOVE_FORWARD", "MOVE_BACKWARD", "MOVE_LEFT", "MOVE_RIGHT", "TURN_LEFT", "TURN_RIGHT", "SPEED", "TURN180"]
    env = opened("HealthGathering-v1", buttons=moves, max_buttons=2)

    def effect(label: str) -> tuple[float, float, float]:
        env.reset(seed=0)  # in the middle of a large room
        start = act(env, "NOOP")
        end = act(env, label, 4)
        return turned(start, end), *moved(start, end)

    turn, ahead, left = effect("NOOP")
    assert turn == ahead == left == 0
    assert effect("TURN_LEFT")[0] > 5  # angles grow against the clock
    assert effect("TURN_RIGHT")[0] < -5
    assert abs(effect("TURN180")[0]) == pytest.approx(180, abs=0.1)
    forwards = effect("MOVE_FORWARD")
    assert forwards[1] > 10 > abs(forwards[2])
    assert effect("MOVE_BACKWARD")[1] < -10
    assert effect("MOVE_LEFT")[2] > 10
    assert effect("MOVE_RIGHT")[2] < -10
    assert effect("MOVE_FORWARD+SPEED")[1] > 1.5 * forwards[1]
    turn, ahead, _ = effect("MOVE_FORWARD+TURN_LEFT")
    assert turn > 5
    assert ahead > 5


def test_attack_fires_and_weapons_are_chosen(opened: Opened) -> None:
    env = opened(
        "Deathmatch-v1", actions=["NOOP", "ATTACK", "SELECT_WEAPON1", "SELECT_WEAPON2"], variables=["SELECTED_WEAPON"]
    )
    env.reset(seed=0)
    assert act(env, "SELECT_WEAPON1", 12)["SELECTED_WEAPON"] == 1
    before = act(env, "SELECT_WEAPON2", 12)
    assert before["SELECTED_WEAPON"] == 2
    assert act(env, "ATTACK", 6)["AMMO2"] < before["AMMO2"]


def test_use_opens_a_door(opened: Opened) -> None:
    """On Freedoom's first map: the ceiling of the door rises, and the player walks through."""
    env = opened("Freedoom1E1M1-S1-v0", actions=["NOOP", "USE", "MOVE_FORWARD"])
    game = game_of(env).game
    game.set_sectors_info_enabled(True)

    def ceiling() -> float:
        return float(game.get_state().sectors[DOOR].ceiling_height)

    def walked(action: str) -> tuple[float, float]:
        env.reset(seed=1)
        game.send_game_command(BEFORE_THE_DOOR)
        act(env, "NOOP")
        closed = ceiling()
        act(env, action)
        act(env, "NOOP", 20)
        rise = ceiling() - closed
        return rise, act(env, "MOVE_FORWARD", 12)["POSITION_X"]

    rise, place = walked("NOOP")
    assert rise == 0
    assert place < 544  # the door is in the way
    rise, place = walked("USE")
    assert rise > 60
    assert place > 560


def test_impossible_combinations_are_never_built(opened: Opened) -> None:
    """Of 7 buttons: none, 7 alone, 21 pairs of which 3 exclude each other."""
    env = opened("DeadlyCorridor-v1", max_buttons=2)
    labels = game_of(env).get_action_meanings()
    assert len(labels) == 1 + 7 + 21 - 3 == env.action_space.n  # type: ignore[attr-defined]
    assert not any(clash(parts_of(label)) for label in labels)
    assert not {"MOVE_LEFT+MOVE_RIGHT", "MOVE_RIGHT+MOVE_LEFT", "TURN_LEFT+TURN_RIGHT"} & set(labels)
    weapons = combinations(["SELECT_WEAPON1", "SELECT_WEAPON2", "ATTACK"], 3)
    assert weapons == [
        "NOOP",
        "ATTACK",
        "SELECT_WEAPON2",
        "SELECT_WEAPON2+ATTACK",
        "SELECT_WEAPON1",
        "SELECT_WEAPON1+ATTACK",
    ]


def test_buttons_as_bits_with_pairs_forbidden_and_masks(opened: Opened) -> None:
    bits = opened("DeadlyCorridor-MultiBinary-v1")
    assert bits.action_space == gym.spaces.MultiBinary(7)
    cfg = EnvConfig(
        id="VizdoomDeathmatch-MultiBinary-v1",
        kwargs={"buttons": ["ATTACK", "TURN_LEFT", "TURN_RIGHT", "SELECT_WEAPON1", "SELECT_WEAPON6"]},
        forbid=[["turn_left", "turn_right"]],
        action_masks=True,
    )
    env = make_env(cfg)
    assert env.action_space == gym.spaces.MultiDiscrete([2, 3, 2, 2])  # attack, turn, two weapons
    forbid = find_forbid(env)
    assert forbid is not None
    _, info = env.reset(seed=0)
    # the plasma gun lies somewhere in the arena: its button cannot be pressed, and can be left alone
    assert info["action_mask"].tolist() == [True, True, True, True, True, True, True, True, False]
    start = game_of(env).variables
    for _ in range(3):
        env.step(np.array([0, forbid.labels[1].index("turn_left"), 0, 0]))
    assert turned(start, game_of(env).variables) > 0
    env.close()


@pytest.mark.parametrize(
    "kwargs,words",
    [
        ({"actions": ["MOVE_LEFT+MOVE_RIGHT"]}, "MOVE_LEFT and MOVE_RIGHT exclude each other"),
        ({"actions": ["TURN_LEFTT"]}, "there is no button 'TURN_LEFTT'. Did you mean 'TURN_LEFT'"),
        ({"actions": ["ATTACK"], "max_buttons": 2}, "drop buttons and max_buttons"),
        ({"buttons": ["FLY"]}, "there is no button 'FLY'"),
        ({"variables": ["HEALT"]}, "there is no game variable 'HEALT'. Did you mean 'HEALTH'"),
        ({"resolution": "100x100"}, "there is no resolution '100x100'"),
        ({"frame_skip": [4, 2]}, r"or \[low, high\] of a random one"),
        ({"frame_skip": 0}, "a whole number from 1 on"),
        ({"doom_skill": 6}, "doom_skill = 6"),
        ({"screen_size": 4}, "must be at least 8"),
    ],
)
def test_mistakes_are_one_line(kwargs: dict[str, Any], words: str) -> None:
    with pytest.raises(UserError, match=words) as found:
        validate({"env": {"id": "VizdoomBasic-v1", "kwargs": kwargs}})
    assert len(str(found.value).splitlines()) == 1


def test_mistakes_that_the_engine_shows(opened: Opened) -> None:
    with pytest.raises(UserError, match=r"19 buttons make more than 512 actions"):
        opened("Freedoom1E1M1-S1-v0", max_buttons=4)
    with pytest.raises(UserError, match=r"screen_size = 130: 120 rows are shown"):
        opened("Basic-v1", screen_size=130)
    env = opened("DoomE1M1-S1-v0")
    with pytest.raises(UserError, match=r"needs doom.wad, the game itself.*VizdoomFreedoom1E1M1-S1-v0"):
        env.reset(seed=0)


@pytest.mark.parametrize(
    "old,new",
    [
        ("Basic", "VizdoomBasic-v1"),
        ("DefendTheCenter", "VizdoomDefendCenter-v1"),
        ("E1M1", "VizdoomFreedoom1E1M1-S1-v0"),
    ],
)
def test_ids_of_older_wrappers_lead_to_the_new_ones(old: str, new: str) -> None:
    with pytest.raises(UserError, match=f"'VizDoom-{old}-v0' is an old name. Use {new}"):
        make_env(EnvConfig(id=f"VizDoom-{old}-v0"))


def test_observations_are_what_the_task_asks_for(opened: Opened) -> None:
    """Each against the engine's own buffers."""
    plain = opened("Basic-v1", stack=1)
    assert plain.reset(seed=5)[0].shape == (1, 45, 60)
    env = opened(
        "Basic-v1",
        observation="rgb",
        resolution="320x240",
        screen_size=[240, 320],
        stack=2,
        depth=True,
        labels=True,
        variables=["HEALTH", "AMMO2"],
    )
    env.reset(seed=5)
    seen = [env.step(0)[0] for _ in range(3)][-1]
    assert env.observation_space.contains(seen)
    state = game_of(env).game.get_state()
    assert seen["screen"].shape == (2 * (3 + 1 + 1), 240, 320)
    np.testing.assert_array_equal(seen["screen"][3:6], np.moveaxis(state.screen_buffer, -1, 0))
    np.testing.assert_array_equal(seen["screen"][7], state.depth_buffer)
    (monster,) = (label for label in state.labels if label.object_category == "Monster")
    np.testing.assert_array_equal(seen["screen"][9] == 255, state.labels_buffer == monster.value)
    assert (seen["screen"][9] == 255).any()
    assert seen["variables"].tolist() == [100.0, 50.0]


def test_the_status_bar_can_be_shown_and_cropped(opened: Opened) -> None:
    with_bar = opened("Basic-v1", hud=True, **EVERY_PIXEL).reset(seed=2)[0]
    without = opened("Basic-v1", hud=True, screen_size=[104, 160], stack=1, crop_rows=[0, 104]).reset(seed=2)[0]
    np.testing.assert_array_equal(without[0], with_bar[0, :104])
    plain = opened("Basic-v1", **EVERY_PIXEL).reset(seed=2)[0]
    assert (plain[0, 104:] != with_bar[0, 104:]).mean() > 0.5


@pytest.mark.parametrize("skip,least,most", [(1, 1, 1), (4, 4, 4), ([2, 6], 2, 6)])
def test_frame_skips(opened: Opened, skip: Any, least: int, most: int) -> None:
    """Living costs 1 a tic in Basic, so that the reward of an idle step is the number of its tics."""
    env = opened("Basic-v1", frame_skip=skip, stack=1, limit=50)
    tics = []
    for seed in (1, 1):
        env.reset(seed=seed)
        over = False
        while not over:
            _, reward, terminated, over, _ = env.step(0)
            assert not terminated
            tics.append(-int(reward))
    assert sum(tics) == 2 * 50
    assert tics[: len(tics) // 2] == tics[len(tics) // 2 :]  # random ones are drawn from the episode's seed
    assert recorder_of(env).frames == 50
    assert set(tics) <= {*range(least, most + 1), tics[-1]}  # the last one is cut by the limit
    assert len(set(tics)) > 2 or least == most


def test_skill_is_how_hard_it_is(opened: Opened) -> None:
    """An idle player in the corridor is hurt more by skill 5."""
    hurt = []
    for skill in (1, 5):
        env = opened("DeadlyCorridor-v1", doom_skill=skill, limit=140)
        total = 0.0
        for seed in range(4):
            env.reset(seed=seed)
            over = False
            while not over:
                *_, terminated, truncated, info = env.step(0)
                total += info["shaping"]["damage_taken"]
                over = terminated or truncated
        hurt.append(total)
    assert hurt[1] > 1.5 * hurt[0]


def test_seeds_and_exact_resume_under_the_process_engine() -> None:
    """Envs of a vector differ, a vector repeats itself from its seed, and goes on exactly where it was saved."""
    cfg = EnvConfig(
        id="VizdoomTakeCover-v1",
        kwargs={"frame_skip": [2, 5], "variables": ["HEALTH"]},
        max_episode_steps=90,
        step_timeout=100,
    )
    actions = np.random.default_rng(0).integers(0, 3, (40, 2))
    runs = []
    for _ in range(2):
        vec = make_vec(cfg, 2, "train")
        assert (vec.engine, vec.exact_resume) == ("process", True)
        screens, numbers = [vec.reset(9).obs["screen"].copy()], []
        for action in actions:
            batch = vec.step(action)
            screens.append(batch.obs["screen"].copy())
            numbers.append([*batch.reward, *batch.truncated])
        runs.append((np.array(screens), numbers))
        state = vec.save_state()
        if len(runs) < 2:
            vec.close()
    np.testing.assert_array_equal(runs[0][0], runs[1][0])
    assert runs[0][1] == runs[1][1]
    assert (runs[0][0][:, 0] != runs[0][0][:, 1]).any()  # two envs, two games
    assert any(late for *_, late in runs[0][1])  # they went through an end
    vec.reset(1)
    np.testing.assert_array_equal(vec.load_state(state).obs["screen"], runs[0][0][-1])
    vec.close()


def test_a_doom_that_is_killed_is_one_line_and_leaves_nothing(opened: Opened) -> None:
    env = opened("Basic-v1")
    env.reset(seed=0)
    folder = game_of(env)._process._folder.name
    (doom,) = doom_of(os.getpid())
    os.kill(doom, signal.SIGKILL)
    wait_for(lambda: not is_alive(doom), "end of Doom")
    with pytest.raises(EnvFailure, match=r"^VizdoomBasic-v1: the Doom process ended in the middle of a game: \S.*$"):
        act(env, "NOOP", 3)
    assert not os.path.exists(f"/proc/{doom}")  # not even as a zombie
    assert not os.path.exists(folder)


def test_doom_ends_with_a_worker_that_is_killed() -> None:
    vec: Any = make_vec(EnvConfig(id="VizdoomBasic-v1", step_timeout=100), 2, "train")
    vec.reset(0)
    worker = vec._processes[0].pid
    (doom,) = doom_of(worker)
    os.kill(worker, signal.SIGKILL)
    with pytest.raises(EnvFailure, match=r"the worker of envs 0 to 0 .* was killed"):
        vec.step(np.zeros(2, np.int64))
    wait_for(lambda: not is_alive(doom), "end of Doom")
    vec.close()


def test_ctrl_c_is_not_for_doom(opened: Opened) -> None:
    """A terminal sends it to every process of its group; the run is saved with its envs still there."""
    env = opened("Basic-v1")
    env.reset(seed=0)
    (doom,) = doom_of(os.getpid())
    assert os.getpgid(doom) != os.getpgid(0)


def test_nothing_is_left_in_the_working_directory(opened: Opened, tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.chdir(tmp_path)
    env = opened("Basic-v1")
    env.reset(seed=0)
    env.close()
    assert list(tmp_path.iterdir()) == []
