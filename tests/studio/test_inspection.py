"""What a session answers about its episodes where nothing can be compared, repeated or moved."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from gymnast import config as configs
from gymnast.play.game import Game
from gymnast.studio.desk import Desk
from gymnast.studio.opening import Opened
from tests.envs_for_tests import full_id
from tests.studio.test_desk import Idle, Said

MakeDesk = Callable[..., Desk]


@pytest.fixture
def desk_of(tmp_path: Path) -> Iterator[MakeDesk]:
    """A session's desk in an env without an agent: `desk_of(env, setting=value)`."""
    made: list[Desk] = []

    def make(env: str, **settings: Any) -> Desk:
        made.append(Desk(Opened(tmp_path, None, env, settings), Idle(), Said()))  # type: ignore[arg-type]
        return made[-1]

    yield make
    for desk in made:
        desk.session.close()


def ask(desk: Desk, do: str, **fields: Any) -> dict[str, Any]:
    return desk.do({"do": do, **fields}, 1)


def test_values_of_two_networks_make_no_advantage(desk_of: MakeDesk) -> None:
    desk = desk_of("CartPole-v1")
    ask(desk, "reset", seed=3)
    ask(desk, "step", n=3, policy="untrained")
    trace = desk.session.find(1)
    options = {"n": 1, "gamma": 0.9, "lambda": 0.8}
    assert len(ask(desk, "advantages", **options)["advantage"]) == 3
    trace.who[1] = "sampled"  # an agent took over for a step
    assert set(ask(desk, "advantages", **options)) == {"reason"}


def test_rollouts_show_no_value_that_estimates_something_else(desk_of: MakeDesk) -> None:
    for clip, reason in ((1.0, None), (0.5, "clipped")):  # CartPole pays 1
        desk = desk_of("CartPole-v1", **{"env.reward.clip": clip})
        ask(desk, "reset", seed=3)
        ask(desk, "step", n=3, policy="untrained")
        found = ask(desk, "rollouts", n=1, t=1, k=1, then="untrained")
        assert (found["value"] is None) == (reason is not None)
        assert str(reason) in str(found["value_reason"])


def test_the_page_hears_that_a_game_is_not_exact(desk_of: MakeDesk) -> None:
    desk = desk_of("CartPole-v1")
    ask(desk, "reset", seed=5)
    ask(desk, "step", n=2, policy="untrained")
    desk.session.lose_place()
    desk.game.env.unwrapped.gravity = 30.0  # type: ignore[attr-defined]
    ask(desk, "step", policy="untrained")
    pushed = [push["exact"] for push in desk.out.pushes if push["type"] == "step"]  # type: ignore[attr-defined]
    assert pushed == [True, True, False]


def test_a_game_that_is_played_is_not_moved_by_who_looks_on(desk_of: MakeDesk) -> None:
    desk = desk_of("ALE/Pong-v5")
    ask(desk, "reset", seed=1)
    ask(desk, "step", n=3, policy="random")
    assert ask(desk, "moment", n=1, t=1, need=["frame"])["frame"] == {"exact": True}

    ask(desk, "two_players", on=True)
    ask(desk, "step", n=2, policy="random")
    assert "not over" in ask(desk, "moment", n=1, t=2, need=["frame"])["frame"]["reason"]
    ask(desk, "step", n=1, policy="random")  # it goes on: the env was not moved
    assert desk.session.find(2).length == 3
    assert ask(desk, "moment", n=1, t=1, need=["frame"])["frame"] == {"exact": True}  # is there already

    ask(desk, "two_players", on=False)
    ask(desk, "play", policy="random")
    assert "pause" in ask(desk, "moment", n=1, t=2, need=["frame"])["frame"]["reason"]
    assert desk.session.is_here
    ask(desk, "pause")
    assert ask(desk, "moment", n=1, t=2, need=["frame"])["frame"] == {"exact": True}


@pytest.mark.parametrize(
    ("wrappers", "steps"),
    [([], [2, 2, 2]), ([{"frame_stack": {"n": 2}}], [1, 1, 1, 2, 2, 2])],
    ids=["colours", "two frames of three colours"],
)
def test_only_pictures_of_a_stack_have_steps_of_their_own(
    desk_of: MakeDesk, wrappers: list[Any], steps: list[int]
) -> None:
    desk = desk_of(full_id("ImageObservation-v0"), **{"env.wrappers": wrappers})
    ask(desk, "reset", seed=1)
    ask(desk, "step", n=3, policy="random")
    inputs = ask(desk, "moment", n=1, t=2, need=["inputs"])["inputs"]
    assert [one["t"] for one in inputs] == steps
    labels = [desk.labels.text(desk.session.find(1).steps[t].action) for t in steps]
    assert [one["label"] for one in inputs] == (labels if wrappers else [None] * 3)


def test_a_stack_of_atari() -> None:
    for settings, stack in (([], 3), (["env.kwargs.stack=1"], 1), (["env.wrappers=[{frame_stack: {n: 2}}]"], 1)):
        game = Game(configs.load("ALE/Pong-v5", settings).config, pictures=False)
        assert game.stack == stack
        game.close()


def test_planes_of_a_board_have_names(desk_of: MakeDesk) -> None:
    pytest.importorskip("minatar")
    desk = desk_of("MinAtar/Breakout-v1")
    ask(desk, "reset", seed=3)
    inputs = ask(desk, "moment", n=1, t=0, need=["inputs"])["inputs"]
    assert [one["label"] for one in inputs] == ["paddle", "ball", "trail", "brick"]


def test_people_see_doom_in_a_picture_of_twice_the_size(desk_of: MakeDesk) -> None:
    """And time goes on while they press nothing. What an untrained agent sees has the preset's shape; a setting that
    is asked for stays."""
    pytest.importorskip("vizdoom")
    map_one = desk_of("VizdoomFreedoom1E1M1-S1-v0").opened.game
    preset = configs.load("VizdoomFreedoom1E1M1-S1-v0").config.env.kwargs
    assert map_one.config.kwargs["resolution"] == "320x240"
    assert map_one.config.kwargs["actions"] == ["NOOP", *preset["actions"]]
    desk = desk_of("VizdoomPredictPosition-v1")
    ask(desk, "reset", seed=3)
    assert desk.game.picture().shape == (240, 320, 3)
    kwargs = configs.load("VizdoomPredictPosition-v1").config.env.kwargs
    (screen,) = (space for space in desk.game.vec.obs_space.values() if len(space.shape or ()) == 3)
    assert tuple(screen.shape or ())[1:] == tuple(kwargs["screen_size"])
    small = desk_of("VizdoomBasic-v1", **{"env.kwargs.resolution": "160x120"}).opened.game
    assert small.config.kwargs["resolution"] == "160x120"
