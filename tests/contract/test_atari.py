"""Atari under the engine contract: ALE's vector env, EnvPool, and the plain env they are held against."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from gymnast.config import EnvConfig, load
from gymnast.core.errors import UserError
from gymnast.core.seeds import derive_seed
from gymnast.envs.make import choose_engine, make_env, make_vec
from gymnast.envs.suites.atari.pictures import Pictures
from gymnast.envs.suites.atari.task import AtariTask
from gymnast.envs.types import EpisodeRecord, VecEnv
from tests.contract.registered import engines_for

pytest.importorskip("ale_py")

ENGINES = engines_for("ALE/Breakout-v5")
N = 2
Make = Callable[..., VecEnv]


@pytest.fixture
def make() -> Iterator[Make]:
    made: list[VecEnv] = []

    def build(engine: str, game: str = "Breakout", role: Any = "train", n_envs: int = N, **config: Any) -> VecEnv:
        if engine == "envpool":
            pytest.importorskip("envpool")
        made.append(make_vec(EnvConfig(id=f"ALE/{game}-v5", engine=engine, **config), n_envs, role))
        return made[-1]

    yield build
    for vec in made:
        vec.close()


def random_actions(vec: VecEnv, steps: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, vec.action_space.n, (steps, vec.n_envs))  # type: ignore[attr-defined]


STICKY = "repeat_action_probability"
PONG = {"screen_size": 42, "crop_rows": [34, 194], "actions": ["NOOP", "RIGHT", "LEFT"]}
TASKS: dict[str, tuple[str, dict[str, Any], dict[str, Any]]] = {
    "defaults": ("SpaceInvaders", {}, {}),
    "several games": ("Breakout", {"noop_max": 0, STICKY: 0}, {}),
    "deterministic": ("SpaceInvaders", {STICKY: 0}, {}),
    "cropped": ("Pong", PONG, {}),
    "cropped, several games": (
        "Breakout",
        {"noop_max": 0, STICKY: 0, "crop_columns": [8, 152], "actions": ["LEFT"]},
        {},
    ),
    "actions shown": ("Pong", {**PONG, "show_action": True}, {}),
    "actions shown, several games": (
        "Breakout",
        {"noop_max": 0, STICKY: 0, "actions": ["LEFT"], "show_action": True},
        {},
    ),
    "actions shown in colours": (
        "Pong",
        {"observation": "rgb", "screen_size": 40, "stack": 2, "show_action": True},
        {},
    ),
    "colours": ("SpaceInvaders", {"observation": "rgb", "screen_size": [60, 40], "stack": 2}, {}),
    "colours, cropped": ("Adventure", {"observation": "rgb", "crop_rows": [3, 250], "max_pool": False}, {}),
    "the screen itself": ("Pong", {"screen_size": [210, 160], "stack": 1, "crop_rows": [0, 210]}, {}),
    "not square": ("Pong", {"screen_size": [105, 80]}, {}),
    "actions that the game does not use": ("Freeway", {"actions": ["FIRE", "UPLEFT", "DOWN"], "screen_size": 42}, {}),
    # 98 is not a multiple of 4: the limit cuts a decision short, in its second frame. Without idle frames all episodes
    # start alike, so that those after the first can be compared as well: only the plain env has a seed for each.
    "a point in the last frames before the time limit": (
        "Pong",
        {"noop_max": 0, STICKY: 0, "episodic_points": True},
        {"max_episode_steps": 255},
    ),
    "time limit": ("Pong", {"noop_max": 0, STICKY: 0}, {"max_episode_steps": 98}),
    "a taller screen": ("Adventure", {}, {}),
    "everything else": (
        "SpaceInvaders",
        {"frame_skip": 3, "max_pool": False, "screen_size": 50, "stack": 2, "noop_max": 0, "episodic_life": False}
        | {"fire_reset": False, "full_action_space": True},
        {},
    ),
}


@pytest.mark.parametrize("task", TASKS)
def test_ale_equals_the_plain_env(make: Make, task: str) -> None:
    """Step for step, pixel for pixel."""
    game, kwargs, config = TASKS[task]
    vecs = [make(engine, game, kwargs=kwargs, **config) for engine in ("ale", "sync")]
    np.testing.assert_array_equal(*(vec.reset(5).obs["obs"] for vec in vecs))
    records: list[list[EpisodeRecord]] = [[], []]
    ends = cut_points = 0
    for action in random_actions(vecs[0], 180 if game == "Breakout" else 80):
        ale, plain = (vec.step(action) for vec in vecs)
        ended = ale.terminated | ale.truncated
        ends += int(ended.sum())
        cut_points += int((ale.truncated & (ale.reward != 0)).sum())
        for found, batch in zip(records, (ale, plain), strict=True):
            found.extend(dataclasses.replace(record, seed=0) for record in batch.episodes)
        for name in ("reward", "terminated", "truncated"):
            np.testing.assert_array_equal(getattr(ale, name), getattr(plain, name))
        np.testing.assert_array_equal(ale.obs["obs"], plain.obs["obs"])
        np.testing.assert_array_equal(ale.final_obs["obs"][ended], plain.final_obs["obs"][ended])
    assert records[0] == records[1]
    if game == "Breakout":  # five lives: four of them are lost before a game ends
        assert ends > len(records[0]) > 0
    assert (cut_points > 0) == (task == "a point in the last frames before the time limit")
    if task == "time limit":
        # 98 frames are 24 decisions and half a one; 80 of them hold 3 such episodes
        assert [(r.length, r.frames, r.terminated) for r in records[0]] == [(25, 98, False)] * 3 * N


def test_a_picture_shows_the_action_that_led_to_it(make: Make) -> None:
    """Three actions share the 42 rows: 14 each. The last of 42 columns has the mark, 48 lighter; the others do not
    change."""
    marked, plain = (make("ale", "Pong", kwargs={**PONG, "show_action": shown}) for shown in (True, False))
    np.testing.assert_array_equal(marked.reset(5).obs["obs"], plain.reset(5).obs["obs"])  # no action led to it
    for action in ([2] * N, [0] * N, [1] * N):
        seen, before = (vec.step(np.array(action)).obs["obs"] for vec in (marked, plain))
    change = seen.astype(int) - before
    for age, action in enumerate((1, 0, 2)):  # the latest picture is the last one of the stack
        expected = np.zeros((42, 42), int)
        expected[14 * action : 14 * action + 14, 41] = 48
        np.testing.assert_array_equal(change[:, -1 - age], [expected] * N)


def test_a_mark_on_a_bright_picture_is_darker() -> None:
    pictures = Pictures(1, (8, 80), AtariTask(screen_size=[8, 80], stack=1))
    pictures.add(np.full((1, 8, 80), 200, np.uint8))
    pictures.mark(np.array([1]), 2)
    assert (pictures.obs[0, 0, 4:, 78:] == 152).all()  # the second of two actions: the lower half; 2 of 80 columns
    assert (pictures.obs[0, 0, :4] == 200).all()
    assert (pictures.obs[..., :78] == 200).all()


def test_a_mark_in_colours_changes_each_channel_by_itself() -> None:
    pictures = Pictures(1, (8, 80), AtariTask(observation="rgb", screen_size=[8, 80], stack=2))
    for _ in range(2):
        pictures.add(np.full((1, 8, 80, 3), (200, 100, 127), np.uint8))
    pictures.mark(np.array([0]), 2)
    np.testing.assert_array_equal(pictures.obs[0, :, 0, 79], [200, 100, 127, 152, 148, 175])  # the latest picture alone


def test_objects_have_the_last_action_anyway() -> None:
    with pytest.raises(UserError, match="show_action = true: objects have the last action anyway"):
        load("ALE/Pong-v5:objects", ["env.kwargs.show_action=true"])


@pytest.mark.parametrize("seed", [0, 5])
def test_fire_is_the_same_key_at_the_same_moment_in_ale_and_the_plain_env(make: Make, seed: int) -> None:
    """Actions without FIRE (NOOP, RIGHT, LEFT) lose every ball: only what is pressed for the agent starts the next."""
    vecs = [make(engine, kwargs={"noop_max": 0, STICKY: 0}) for engine in ("ale", "sync")]
    for vec in vecs:
        vec.reset(seed)
    lost = 0
    for action in np.array([0, 2, 3])[np.random.default_rng(seed).integers(0, 3, (200, N))]:
        ale, plain = (vec.step(action) for vec in vecs)
        lost += int(ale.terminated.sum())
        np.testing.assert_array_equal(ale.terminated, plain.terminated)
        np.testing.assert_array_equal(ale.obs["obs"], plain.obs["obs"])
    assert lost >= 2 * 4  # balls after the first in each env, which nothing else had started


@pytest.mark.parametrize(
    "keys,task",
    [
        ([0, 1, 2, 3], {}),
        ([0], {}),
        ([0, 1], {"crop_rows": [32, 210], "screen_size": 42, "actions": ["LEFT", "RIGHT"]}),
    ],
    ids=["all", "FIRE is pressed for it", "cropped"],
)
def test_ale_resumes_exactly(make: Make, keys: list[int], task: dict[str, Any]) -> None:
    """Games under way, of different lengths and after different numbers of games, go on where they were."""
    vecs = [make("ale", kwargs={STICKY: 0} | task), make("ale", kwargs={STICKY: 0} | task)]
    vecs[0].reset(5)
    actions = np.array(keys)[random_actions(vecs[0], 260) % len(keys)]
    assert vecs[0].exact_resume
    for action in actions[:230]:
        batch = vecs[0].step(action)
    state = vecs[0].save_state()
    assert state["episode"].max() > 0
    assert len(set(state["length"].tolist())) > 1
    np.testing.assert_array_equal(vecs[1].load_state(state).obs["obs"], batch.obs["obs"])
    for action in actions[230:]:
        batch, resumed = (vec.step(action) for vec in vecs)
        np.testing.assert_array_equal(resumed.obs["obs"], batch.obs["obs"])
        np.testing.assert_array_equal(resumed.terminated, batch.terminated)
        assert resumed.episodes == batch.episodes
    sticky = make("ale")
    assert not sticky.exact_resume
    sticky.reset(5)
    for action in actions[:40]:
        sticky.step(action)
    sticky.load_state(sticky.save_state())  # goes on, with other games where it cannot repeat them


@pytest.mark.parametrize("engine", ENGINES)
def test_layout_seeds_and_ends(make: Make, engine: str) -> None:
    vec = make(engine, "Pong", max_episode_steps=160)
    first = vec.reset(7).obs["obs"].copy()
    assert (first.shape, first.dtype) == ((N, 4, 84, 84), np.uint8)
    assert vec.obs_space["obs"].shape == (4, 84, 84)
    assert vec.action_space.n == 6  # type: ignore[attr-defined]
    assert vec.engine == engine
    actions = np.repeat(random_actions(vec, 45)[:, :1], N, axis=1)  # all envs do the same
    trace = []
    for step, action in enumerate(actions, start=1):
        batch = vec.step(action)
        assert (batch.reward.dtype, batch.terminated.dtype, batch.truncated.dtype) == (np.float32, bool, bool)
        assert not batch.terminated.any()
        # 160 frames are 40 decisions; the next observation is a start at once
        assert batch.truncated.tolist() == [step == 40] * N
        assert len(batch.episodes) == (N if step == 40 else 0)
        for record in batch.episodes:
            assert (record.length, record.frames, record.terminated) == (40, 160, False)
            assert not np.array_equal(batch.obs["obs"][record.env], batch.final_obs["obs"][record.env])
        trace.append(batch.obs["obs"].copy())
    assert len({picture.tobytes() for picture in trace[38]}) == N  # each idled for another while at its start
    np.testing.assert_array_equal(vec.reset(7).obs["obs"], first)
    for action, obs in zip(actions, trace, strict=True):
        np.testing.assert_array_equal(vec.step(action).obs["obs"], obs)
    vec.reset(8)
    other = [vec.step(action).obs["obs"].copy() for action in actions[:39]]
    assert not np.array_equal(other[38], trace[38])


@pytest.mark.parametrize("engine", ENGINES)
def test_a_lost_life_ends_the_episode_for_the_learner_alone(make: Make, engine: str) -> None:
    """Breakout: five balls, so four life losses and one end a game; its score is that of all five."""
    vec = make(engine)
    vec.reset(1)
    returns, lost, games = np.zeros(N), np.zeros(N, int), 0
    for action in random_actions(vec, 260, seed=1):
        batch = vec.step(action)
        returns += batch.reward
        over = np.zeros(N, bool)
        for record in batch.episodes:
            over[record.env] = True
            assert record.terminated
            assert record.raw_return == returns[record.env]
            assert lost[record.env] == 4
        lives = batch.terminated & ~over
        lost += lives
        np.testing.assert_array_equal(batch.obs["obs"][lives], batch.final_obs["obs"][lives])  # the game goes on
        assert not batch.truncated.any()
        assert batch.terminated[over].all()
        returns[over], lost[over] = 0.0, 0
        games += int(over.sum())
    assert games > 0
    assert vec.obs_space["obs"].contains(batch.final_obs["obs"][0])


@pytest.mark.parametrize("engine", ENGINES)
def test_a_point_ends_the_episode_for_the_learner_alone(make: Make, engine: str) -> None:
    """Pong: a game has 21 points or more, of which the last ends the game as well."""
    vec = make(engine, game="Pong", kwargs={"episodic_points": True, "screen_size": 42})
    vec.reset(1)
    points = games = 0
    for action in random_actions(vec, 1000, seed=1):
        batch = vec.step(action)
        np.testing.assert_array_equal(batch.terminated, batch.reward != 0)
        over = np.isin(np.arange(N), [record.env for record in batch.episodes])
        goes_on = batch.terminated & ~over
        np.testing.assert_array_equal(batch.obs["obs"][goes_on], batch.final_obs["obs"][goes_on])
        points, games = points + int(goes_on.sum()), games + int(over.sum())
        for record in batch.episodes:
            assert record.terminated
            assert record.raw_return <= -15
    assert games > 0
    assert points >= 20 * games
    scored = make(engine, game="Pong", role="eval", kwargs={"episodic_points": True, "screen_size": 42})
    scored.reset(1)
    points = 0
    for action in random_actions(scored, 100, seed=1):
        batch = scored.step(action)
        points += np.count_nonzero(batch.reward)
        assert not batch.terminated.any()
    assert points > 0


@pytest.mark.parametrize(
    "engine,role,kwargs", [*((engine, "eval", {}) for engine in ENGINES), ("ale", "train", {"episodic_life": False})]
)
def test_evaluation_plays_whole_games(make: Make, engine: str, role: str, kwargs: dict[str, Any]) -> None:
    vec = make(engine, role=role, kwargs=kwargs)
    vec.reset(1)
    ends, records = 0, 0
    for action in random_actions(vec, 160, seed=1):
        batch = vec.step(action)
        ends += int(batch.terminated.sum())
        records += len(batch.episodes)
    assert ends == records > 0


@pytest.mark.parametrize("role", ["train", "eval"])
@pytest.mark.parametrize("engine", ENGINES)
def test_fire_is_pressed_after_every_lost_life(make: Make, engine: str, role: str) -> None:
    """Breakout waits for FIRE: an agent that never presses it still loses all five balls, one by one."""
    vec = make(engine, role=role)
    vec.reset(1)
    records = [record for _ in range(160) for record in vec.step(np.zeros(N, int)).episodes]
    assert {record.env for record in records} == set(range(N))
    assert all(record.terminated and record.length < 150 for record in records)
    waits = make(engine, role=role, kwargs={"fire_reset": False})
    waits.reset(1)
    assert not any(waits.step(np.zeros(N, int)).episodes for _ in range(160))


@pytest.mark.parametrize("engine", ENGINES)
def test_rewards_are_the_games_own(make: Make, engine: str) -> None:
    """Space Invaders pays 5 to 30 an invader; whoever clips, it is not the engine."""
    vec = make(engine, "SpaceInvaders")
    vec.reset(0)
    rewards = np.concatenate([vec.step(action).reward.copy() for action in random_actions(vec, 120)])
    assert rewards.max() >= 5
    assert (rewards % 5 == 0).all()


def test_ale_refuses_actions_that_do_not_exist(make: Make) -> None:
    vec = make("ale", "Pong")
    vec.reset(0)
    with pytest.raises(ValueError, match="not all from 0 to 5"):
        vec.step(np.array([0, 6]))


def test_envpool_shows_what_ale_shows(make: Make) -> None:
    """Starts differ (FIRE comes after the idle frames), the games do not: Pong's court is where it was, and alive."""
    ale, pool = make("ale", "Pong"), make("envpool", "Pong")
    for vec in (ale, pool):
        vec.reset(0)
        for _ in range(30):
            batch = vec.step(np.zeros(N, int))
        # the walls above and below the court, and the ground, in every picture of every env
        assert (batch.obs["obs"][:, :, 10, 5:80] > 200).all()
        assert (batch.obs["obs"][:, :, 50, 40:43].astype(int) < 110).all()
        assert (batch.obs["obs"][:, 0] != batch.obs["obs"][:, 3]).any(axis=(1, 2)).all()


def test_one_env_draws_the_screen_and_knows_its_actions() -> None:
    env = make_env(EnvConfig(id="ALE/Pong-v5"), "play", render_mode="rgb_array")
    env.reset(seed=0)
    assert env.render().shape == (210, 160, 3)  # type: ignore[union-attr]
    assert env.unwrapped.get_action_meanings()[:2] == ["NOOP", "FIRE"]  # type: ignore[attr-defined]
    env.close()


def test_idle_frames_are_no_part_of_an_episode() -> None:
    env = make_env(EnvConfig(id="ALE/Breakout-v5", kwargs={"noop_max": 30}))
    _, info = env.reset(seed=derive_seed(0, 0, 0))
    assert 1 <= info["episode_frame_number"] < 30
    frames = env.step(0)[4]["episode_frame_number"] - info["episode_frame_number"]
    assert frames == env.env.frames == 4  # type: ignore[attr-defined]  # the recorder's count
    env.close()


@pytest.mark.parametrize(
    "config,n_envs,engine",
    [
        ({}, 8, "ale"),
        ({}, 1, "ale"),
        ({"kwargs": {STICKY: 0}}, 8, "ale"),
        ({"kwargs": PONG}, 8, "ale"),
        ({"wrappers": [{"action_noise": {"p": 0.1}}]}, 8, "process"),
        ({"wrappers": [{"action_noise": {"p": 0.1}}]}, 1, "sync"),
    ],
)
def test_auto_engine(config: dict[str, Any], n_envs: int, engine: str) -> None:
    assert choose_engine(EnvConfig(id="ALE/Pong-v5", **config), n_envs)[0] == engine
    assert choose_engine(EnvConfig(id="ALE/Pong-v5"), 8, render_mode="rgb_array")[0] == "sync"


@pytest.mark.parametrize(
    "config,expected",
    [
        (
            {"kwargs": {"noop_mx": 3}},
            r"env.kwargs: noop_mx = 3: unknown key. Did you mean 'noop_max'\? Known: frame_skip",
        ),
        ({"kwargs": {"frame_skip": 0}}, r"env.kwargs: frame_skip = 0: must be at least 1"),
        ({"kwargs": {"screen_size": 7}}, r"screen_size = 7: must be at least 8"),
        ({"kwargs": {"screen_size": [84, 300]}}, r"screen_size = \[84, 300\]: must be at most 250"),
        ({"kwargs": {"screen_size": "84"}}, r"screen_size = '84': must be a whole number, or \[height, width\]"),
        ({"kwargs": {"screen_size": 200}}, r"screen_size = 200: 160 columns are shown, and a picture is made smaller"),
        (
            {"kwargs": {"crop_rows": [34, 194], "screen_size": [170, 84]}},
            r"screen_size = \[170, 84\]: 160 rows are shown",
        ),
        ({"kwargs": {"crop_rows": [194, 34]}}, r"crop_rows = \[194, 34\]: must be \[first, end\]"),
        ({"kwargs": {"crop_columns": [0, 161]}}, r"crop_columns = \[0, 161\]: the screen has 160 columns"),
        (
            {"kwargs": {"actions": ["NOOP", "RIGT"]}},
            r"there is no action 'RIGT'. Did you mean .RIGHT.*\? Known: NOOP, FIRE, UP",
        ),
        ({"kwargs": {"actions": ["UP", "UP"]}}, r"actions = \[UP, UP\]: must list different actions"),
        ({"engine": "ale", "wrappers": ["flatten"]}, r"takes no wrappers.* Use auto or process or sync\."),
        ({"engine": "envpool", "kwargs": {"crop_rows": [34, 194]}}, r"it shows whole grey screens"),
        ({"engine": "envpool", "kwargs": {"max_pool": False}}, r"it always pools two frames"),
        ({"engine": "envpool", "max_episode_steps": 98}, r"98 frames \(env.max_episode_steps\) are not a whole number"),
        ({"engine": "cartpole"}, r"it has no ALE/Pong-v5"),
        ({"id": "PongNoFrameskip-v4"}, r"is an old name. Use ALE/Pong-v5; with env.kwargs.repeat_action"),
        ({"id": "ALE/Pongg-v5"}, r"Did you mean 'ALE/Pong-v5'"),
    ],
)
def test_atari_mistakes_are_one_clear_line(config: dict[str, Any], expected: str) -> None:
    with pytest.raises(UserError, match=expected) as error:
        make_vec(EnvConfig(**({"id": "ALE/Pong-v5"} | config)), 2, "train")
    assert "\n" not in str(error.value)


def test_task_parameters_are_checked_with_the_config() -> None:
    with pytest.raises(UserError, match=r"env.kwargs.*stick = 4: unknown key. Did you mean 'stack'"):
        load("ALE/Pong-v5", ["env.kwargs={stick: 4}"])


def test_every_task_parameter_says_what_it_is() -> None:
    assert all(field.description for field in AtariTask.model_fields.values())


@pytest.mark.parametrize("variant", ["ppo", "objects"])
def test_no_game_of_breakout_waits_for_a_serve(variant: str) -> None:
    """Sticky actions swallow about every tenth FIRE after a lost life. With actions that lack FIRE 10 of 16 games stood
    still after 300 random decisions; a ball in play breaks a brick or is lost within 100."""
    config = load(f"ALE/Breakout-v5:{variant}").config
    vec = make_vec(config.env, 8, "train")
    try:
        vec.reset(3)
        idle = np.zeros(8, int)
        for actions in random_actions(vec, 400):
            step = vec.step(actions)
            idle = np.where((step.reward != 0) | step.terminated, 0, idle + 1)
            assert idle.max() < 150
    finally:
        vec.close()
