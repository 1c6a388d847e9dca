"""MinAtar as made here against the package's own env: the same boards, rewards and ends for equal seeds and actions."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np
import pytest

from gymnast.config import EnvConfig, load
from gymnast.core.errors import UserError
from gymnast.envs.make import make_env, make_vec

pytest.importorskip("minatar")

GAMES = ("Asterix", "Breakout", "Freeway", "Seaquest", "SpaceInvaders")


@pytest.fixture(scope="module")
def theirs() -> Any:
    """The class of their env."""
    return importlib.import_module("minatar.gym").BaseEnv


@pytest.mark.parametrize("version", [0, 1])
@pytest.mark.parametrize("game", GAMES)
def test_it_is_the_packages_own_game(theirs: Any, game: str, version: int) -> None:
    ours = make_env(EnvConfig(id=f"MinAtar/{game}-v{version}"))
    name = {"SpaceInvaders": "space_invaders"}.get(game, game.lower())
    reference = theirs(name, use_minimal_action_set=version == 1)
    assert ours.action_space == reference.action_space
    assert ours.observation_space == reference.observation_space
    rng, ended = np.random.default_rng(0), 0
    for episode in range(3):
        reference.game.last_action = 0  # which they leave as the episode before ended
        expected, found = reference.reset(seed=episode)[0], ours.reset(seed=episode)[0]
        for _ in range(3_000):
            np.testing.assert_array_equal(found, expected)
            action = int(rng.integers(ours.action_space.n))  # type: ignore[attr-defined]
            found, reward, terminated, truncated, _ = ours.step(action)
            expected, their_reward, over, _, _ = reference.step(action)
            assert (reward, terminated or truncated) == (their_reward, over)
            if over:
                assert truncated == (game == "Freeway")  # its clock, which no board shows
                ended += 1
                break
    assert ended == 3
    assert ours.unwrapped.get_action_meanings()[0] == "no-op"  # type: ignore[attr-defined]


def test_freeway_lasts_as_long_as_its_makers_say_and_others_have_no_limit_of_their_own() -> None:
    freeway = make_env(EnvConfig(id="MinAtar/Freeway-v1"))
    freeway.reset(seed=0)
    steps = 1
    while not freeway.step(0)[3]:
        steps += 1
    assert steps == 2501
    limited = make_env(EnvConfig(id="MinAtar/Asterix-v1", max_episode_steps=3))
    limited.reset(seed=0)
    assert [limited.step(0)[3] for _ in range(3)] == [False, False, True]


def test_an_episode_can_be_repeated_from_its_seed_whatever_came_before() -> None:
    """Half of all actions are sticky: a first action that depended on the episode before would show at once."""
    env = make_env(EnvConfig(id="MinAtar/Asterix-v0", kwargs={"sticky_action_prob": 0.5}))
    boards = []
    for before in (1, 2, 3, 4):
        env.reset(seed=9)
        env.step(before)
        board, _ = env.reset(seed=5)
        boards.append([board, *(env.step(0)[0] for _ in range(4))])
    assert all(np.array_equal(boards[0], other) for other in boards[1:])


def test_pictures_are_for_people() -> None:
    env = make_env(EnvConfig(id="MinAtar/Breakout-v1"), render_mode="rgb_array")
    board, _ = env.reset(seed=0)
    picture: Any = env.render()
    assert picture.shape == (160, 160, 3)
    assert picture.dtype == np.uint8
    drawn = picture[8::16, 8::16].any(-1)
    np.testing.assert_array_equal(drawn, board.any(-1))  # every cell that holds something, and no other
    assert len(np.unique(picture.reshape(-1, 3), axis=0)) == 4  # nothing, paddle, ball over its trail, bricks


def test_its_settings_are_the_makers_and_mistakes_are_one_line() -> None:
    with pytest.raises(UserError, match=r"env.kwargs: sticky_action_prob = 2: .*"):
        make_env(EnvConfig(id="MinAtar/Breakout-v0", kwargs={"sticky_action_prob": 2}))
    with pytest.raises(UserError, match=r"there is no env 'MinAtar/Breakout-v2'. Registered: MinAtar/Breakout-v0"):
        make_env(EnvConfig(id="MinAtar/Breakout-v2"))


def test_a_saved_vector_continues_with_the_same_boards() -> None:
    config = EnvConfig(id="MinAtar/Seaquest-v1")
    one, other = make_vec(config, 3, "train"), make_vec(config, 3, "train")
    actions = np.random.default_rng(1).integers(6, size=(60, 3))
    one.reset(4)
    for row in actions[:40]:
        one.step(row)
    resumed = other.load_state(one.save_state())
    for row in actions[40:]:
        expected, resumed = one.step(row), other.step(row)
        np.testing.assert_array_equal(resumed.obs["obs"], expected.obs["obs"])
        np.testing.assert_array_equal(resumed.reward, expected.reward)


def test_the_compiled_network_reads_the_boards() -> None:
    from gymnast.agent.nets.dense_net import DenseNet
    from gymnast.training.build import build

    session = build(load("MinAtar/Breakout-v1", ["eval.every=0"]).config, None)
    try:
        assert isinstance(session.learner.net, DenseNet)
    finally:
        session.close()


def test_the_encoder_of_boards_reads_them() -> None:
    from gymnast.agent.bodies.cnn import Boards
    from gymnast.training.build import build

    settings = ["eval.every=0", "agent.encoder=board_cnn", "agent.hidden=[]"]
    session = build(load("MinAtar/Breakout-v1", settings).config, None)
    try:
        assert any(isinstance(module, Boards) for module in session.agent.modules())
    finally:
        session.close()
