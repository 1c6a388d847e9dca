"""The emulator of this process. A process can have one: games in it take turns, each with its own copy of the memory.

The engine gives every env a process of its own. Taking turns is for what draws pictures: videos of several episodes, a
Studio with two windows.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from gymnast.core.errors import UserError
from gymnast.envs.suites.retro.roms import bad_state, integration, read_state, retro, rom_of, usual_state
from gymnast.envs.types import Picture


class Console:
    """One game in the process's emulator. `screen` is what it showed last."""

    _holder: Console | None = None  # whose game the emulator has now
    _env: Any = None  # the package's env, which has the emulator and the game's variables
    _switched_on = b""  # its memory when it was switched on
    _open = 0  # consoles that are not closed

    def __init__(self, game: str) -> None:
        rom_of(game)  # without a ROM this ends here, in one line
        self.game, self._usual = game, usual_state(game)
        self._memory: bytes | None = None  # of the game, while another one has the emulator
        self._starts: dict[str | None, bytes] = {}  # by the name of the savestate
        self._closed = False
        Console._open += 1
        try:
            env = self._take()
            self._starts[None] = Console._switched_on
            self.buttons: list[str | None] = list(env.buttons)
            self.groups: list[list[int]] = [list(group) for group in env.button_combos]
            self.variables: list[str] = sorted(env.data.lookup_all())
            self.screen: Picture = env.get_screen(apply_rotation=True)
        except BaseException:  # Ctrl-C too: the emulator would stay switched on
            self.close()
            raise
        self._masks: dict[int, NDArray[np.uint8]] = {}

    def start(self, state: str | None) -> dict[str, Any]:
        """The game from a savestate, None: from its usual one. Returns its variables."""
        env = self._take()
        name = state or self._usual
        if name not in self._starts:
            assert name is not None
            self._starts[name] = read_state(self.game, name)
        env.initial_state = self._starts[name]
        self.screen, _ = env.reset()
        return dict(env.data.lookup_all())

    def check_state(self, state: str) -> None:
        """The emulator goes on as it was where a savestate is not one of its own, and says so here only."""
        if not self._take().em.set_state(read_state(self.game, state)):
            raise bad_state(self.game, state)

    def frame(self, bits: int) -> tuple[float, bool, dict[str, Any]]:
        """One frame with these buttons: the integration's reward, whether it says that the game is over, variables."""
        env = self._take()
        mask = self._masks.get(bits)
        if mask is None:
            held = [bits >> bit & 1 for bit in range(len(self.buttons))]
            mask = self._masks[bits] = np.array(held, np.uint8)
        env.em.set_button_mask(mask, 0)
        env.em.step()
        env.data.update_ram()
        reward, over, variables = env.compute_step()
        return float(reward), bool(over), dict(variables)

    def now(self) -> dict[str, float]:
        """The game's variables."""
        return {name: float(value) for name, value in self._take().data.lookup_all().items()}

    def look(self) -> Picture:
        """The screen now; a frame that nobody looks at is not copied."""
        self.screen = self._take().get_screen(apply_rotation=True)
        return self.screen

    def save(self) -> bytes:
        memory: bytes = self._take().em.get_state()
        return memory

    def load(self, memory: bytes) -> None:
        """The emulator draws again at its next frame only: whoever loads must also bring `screen` back."""
        env = self._take()
        env.em.set_state(memory)
        env.data.update_ram()  # the next reward is the change from here

    def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        Console._open -= 1
        if Console._holder is self:
            Console._holder = None
        if Console._open == 0 and Console._env is not None:
            Console._env.close()
            Console._env = None

    def _take(self) -> Any:
        """The emulator, with this game in it."""
        if Console._holder is self:
            return Console._env
        if self._closed:
            raise RuntimeError("this console is closed")
        if Console._holder is not None:
            Console._holder._memory = Console._env.em.get_state()
        Console._holder = None
        if Console._env is None or Console._env.gamename != self.game:
            if Console._env is not None:
                Console._env.close()
                Console._env = None  # also if the next line fails
            Console._env = _switch_on(self.game)
            Console._switched_on = Console._env.em.get_state()
        Console._holder = self
        if self._memory is not None:
            self.load(self._memory)
        return Console._env


def _switch_on(game: str) -> Any:
    package = retro()
    try:
        return package.RetroEnv(
            game,
            state=package.State.NONE,
            use_restricted_actions=package.Actions.ALL,
            inttype=integration(),
            render_mode="rgb_array",
        )
    except RuntimeError as error:
        if "multiple emulator" in str(error):
            raise UserError(
                "Retro: this process has an emulator opened outside of Gymnast, and can have one only. Close that one."
            ) from error
        raise UserError(f"Retro: the emulator cannot start {game}: {error}.") from error
