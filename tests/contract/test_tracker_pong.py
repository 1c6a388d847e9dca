"""A tracker in the real game: what it finds in Pong's pictures is where the console's RAM says it is."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from gymnast.agent.tracker.tracker import LEAST_SHARE, PLACE, Tracker
from gymnast.config import load
from gymnast.envs.make import make_env

pytest.importorskip("ale_py")

CELLS = {"ball column": 49, "ball row": 54, "own row": 51, "opponent row": 50}


def test_ball_and_paddles_are_where_ram_says() -> None:
    """3,000 decisions of a random player, who holds each action for a while; the last 600 are not learned from. Rows of
    the screen are cropped at 34, and two are one of the picture. Ball and paddles are drawn where their bytes say, but
    for a fixed distance: the median of the differences is taken for that."""
    env = make_env(load("ALE/Pong-v5").config.env)
    rng, action = np.random.default_rng(0), 0
    env.reset(seed=0)
    pictures, bytes_, actions = [], [], []
    for _ in range(3000):
        action = int(rng.integers(3)) if rng.random() < 0.3 else action
        picture, _, terminated, truncated, _ = env.step(action)
        ram = env.unwrapped.ale.getRAM()  # type: ignore[attr-defined]
        pictures.append(picture[-2:])
        actions.append(action)
        bytes_.append([int(ram[cell]) for cell in CELLS.values()])
        if terminated or truncated:
            env.reset()
    env.close()
    shown, ram = np.array(pictures), dict(zip(CELLS, np.array(bytes_).T, strict=True))
    tracker = Tracker(shown.shape[1:], 3, ["FIRE", "RIGHT", "LEFT"])
    fitted = tracker.learn(torch.from_numpy(shown[:2400]), seed=0)
    assert all(fitted[f"objects/filled/{n}"] > 0.7 for n in (1, 2, 3)), fitted  # below 0.5 is an alert

    found = tracker.find(shown[2400:, -1])
    column, row = (ram[name][2400:] for name in ("ball column", "ball row"))
    inside = (column > 60) & (column < 180) & (row > 60) & (row < 190)  # in front of the paddles, below the upper wall
    owners = {name: int(found[inside, :, 2].mean(0).argsort()[place]) for name, place in (("opponent", 0), ("own", 2))}
    (ball,) = {0, 1, 2} - set(owners.values())
    assert inside.sum() > 100

    def error(who: int, axis: int, cell: str, where: np.ndarray) -> float:
        apart = 2 * found[where, who, axis] - ram[cell][2400:][where]
        return float(np.abs(apart - np.median(apart)).mean())

    assert (found[inside, ball, 0] > 0).mean() > 0.95
    seen = inside & (found[:, ball, 0] >= LEAST_SHARE * tracker.mass.numpy()[ball])
    assert error(ball, 1, "ball row", seen) < 1
    assert error(ball, 2, "ball column", seen) < 1
    for who, cell in (("own", "own row"), ("opponent", "opponent row")):
        there = (ram[cell][2400:] > 60) & (ram[cell][2400:] < 180)  # all of it is shown
        assert error(owners[who], 1, cell, there) < 2  # guesses are 30 off
    # Behind a wall, where only a quarter of a paddle is left to see, it is where it would be if all of it were shown
    numbers = dict(zip(tracker.names, tracker.see(shown[2400:]).T, strict=True))
    own = numbers[f"object {owners['own'] + 1} row"] * PLACE * 160 - ram["own row"][2400:]
    hidden = (ram["own row"][2400:] < 45) | (ram["own row"][2400:] > 195)
    assert hidden.sum() > 50
    assert np.abs(own - np.median(own[~hidden]))[hidden].mean() < 2
    for number, action in enumerate(("FIRE", "RIGHT", "LEFT")):
        np.testing.assert_array_equal(numbers[f"last {action}"], np.array(actions[2400:]) == number)
