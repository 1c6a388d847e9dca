"""A second player in Pong: what is seen and what is scored, in the real game."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from gymnast import config as configs
from gymnast.core.errors import UserError
from gymnast.envs.suites import suite_of
from gymnast.envs.suites.atari.left_paddle import LeftPaddle
from gymnast.play.game import Game

ORANGE = (213, 130, 74)
ENEMY_SCORE, PLAYER_SCORE, BALL, MINE = 13, 14, 54, 51  # cells of Pong's memory


@pytest.fixture
def game() -> Iterator[Game]:
    if missing := suite_of("ALE/Pong-v5").missing:
        pytest.skip(missing)
    made = Game(configs.load("ALE/Pong-v5", ["env.kwargs.repeat_action_probability=0"]).config)
    made.reset(3)
    yield made
    made.close()


def upper_edge(game: Game) -> int | None:
    """Of the left paddle in the picture; None: not all of it is in the court."""
    picture = game.picture()
    assert picture is not None
    rows = np.flatnonzero((picture[34:194, 16:20] == ORANGE).all(2).any(1))
    return int(rows[0]) + 34 if len(rows) == 16 else None


def play(game: Game, steer: Any, frames: int) -> tuple[int, int]:
    """The right side follows the ball, the left one does what `steer` says; the score of both."""
    from ale_py import Action

    paddle = LeftPaddle(game.env)
    base: Any = game.env.unwrapped
    for _ in range(frames):
        ram = base.ale.getRAM()
        ball, mine = int(ram[BALL]) - 14, int(ram[MINE]) - 13
        paddle.move(*steer(paddle, int(ram[BALL])))
        base.ale.act(Action.RIGHT if ball < mine + 4 else Action.LEFT if ball > mine + 12 else Action.NOOP)
    ram = base.ale.getRAM()
    return int(ram[ENEMY_SCORE]), int(ram[PLAYER_SCORE])


def test_the_paddle_is_drawn_where_it_is_put(game: Game) -> None:
    """On its way down and up again."""
    seen: list[int] = []
    way = {"down": True}

    def sweep(paddle: LeftPaddle, ball: int) -> tuple[bool, bool]:
        if (edge := upper_edge(game)) is not None and 60 < paddle.place < 190:
            seen.append(edge - (paddle.place - 13))
        if not 60 < paddle.place < 190:
            way["down"] = paddle.place <= 60
        return not way["down"], way["down"]

    play(game, sweep, 200)
    assert len(seen) > 60
    # 4 pixels are what the console steers against it; when a point is over it puts the paddle elsewhere for some frames
    assert np.mean([abs(distance) <= 4 for distance in seen]) > 0.9


def test_it_hits_the_ball_where_it_is(game: Game) -> None:
    """A paddle that stays at the top misses, and one that follows the ball does not."""
    score = play(game, lambda paddle, ball: (True, False), 1500)
    assert score[1] >= 3
    game.reset(3)
    score = play(
        game, lambda paddle, ball: (ball and ball - 8 < paddle.place - 4, ball and ball - 8 > paddle.place + 4), 1500
    )
    assert score == (0, 0)


def test_other_games_have_one_side() -> None:
    assert suite_of("ALE/Breakout-v5").second_player("ALE/Breakout-v5") is None
    assert suite_of("CartPole-v1").second_player("CartPole-v1") is None


def test_what_somebody_else_moved_is_not_replayed(game: Game) -> None:
    from gymnast.play.session import PlaySession
    from gymnast.runs.saved_agent import SavedAgent

    config = configs.load("ALE/Pong-v5").config
    session = PlaySession(game, lambda name: None, SavedAgent.build(config, game.vec).net)
    trace = session.begin(1, "random")
    trace.second_player = True
    session.advance("random")
    session.lose_place()
    with pytest.raises(UserError, match="second player"):
        session.go_to(trace, 1)
