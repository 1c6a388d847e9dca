"""A second player for Pong. The emulator takes one player's keys, so the other paddle is moved in the game's memory.

Cell 21 has the place of the left paddle. The console goes on steering it, by up to 4 pixels a frame from where it was
put: what is written before every frame is where it is drawn, and where it hits the ball, give or take those pixels.
For some frames after each point the console draws it elsewhere.
"""

from __future__ import annotations

from typing import Any

import gymnasium as gym

CELL = 21
HIGHEST, LOWEST = 38, 203  # what the cell holds at the upper and lower end of the court; 13 above the paddle's edge
SPEED = 4  # pixels a frame


class LeftPaddle:
    def __init__(self, env: gym.Env[Any, Any]) -> None:
        game: Any = env.unwrapped
        self._ale = game.ale
        self.place = int(self._ale.getRAM()[CELL])

    def move(self, up: bool, down: bool) -> None:
        """Before a frame."""
        self.place = min(max(self.place + SPEED * (int(down) - int(up)), HIGHEST), LOWEST)
        self._ale.setRAM(CELL, self.place)
