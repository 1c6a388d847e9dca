"""Another player in the game that is played, who sees it from its own side, in an env of its own.

The two envs wait for each other in every step, so that nothing depends on how fast either of them is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Thread
from typing import TYPE_CHECKING, Any

from gymnast.core.errors import EnvFailure, UserError
from gymnast.play.thinker import Thinker, random_action

if TYPE_CHECKING:
    from gymnast.agent.nets import Net
    from gymnast.envs.types import StepBatch
    from gymnast.play.game import Game


class Opponent:
    """`game`: the one that is played. `own`: the opponent's. `net`: its agent, whose actions are sampled; None: random
    actions."""

    def __init__(self, game: Game, own: Game, net: Net | None) -> None:
        if type(game.suite) is not type(own.suite):
            raise UserError(f"against: {own.config.id} is another game than {game.config.id}.")
        if game.config.wrappers or own.config.wrappers:
            raise UserError("against: two envs keep step with each other only without env.wrappers.")
        self.game = own
        self._thinker = None if net is None else Thinker(net, own)
        self._end = game.suite.connect(game.env.unwrapped, own.env.unwrapped)
        self._seed = self._t = 0
        self._now: StepBatch | None = None

    @contextmanager
    def resetting(self, seed: int) -> Iterator[None]:
        def reset() -> None:
            self._now = self.game.reset(seed)

        self._seed, self._t = seed, 0
        with self._at_once(reset):
            yield

    @contextmanager
    def stepping(self) -> Iterator[None]:
        action = self._choose()

        def step() -> None:
            self._now = self.game.step(action)

        with self._at_once(step):
            yield
        self._t += 1

    def _choose(self) -> Any:
        assert self._now is not None
        if self._thinker is None:
            return random_action(self.game, self._now, self._seed, self._t)
        thought = self._thinker.think(self._now, self._t, self._seed, True, describe=False)
        self._thinker.state = thought.after
        return thought.action

    @contextmanager
    def _at_once(self, move: Callable[[], None]) -> Iterator[None]:
        """Moves while the body of the `with` does. If one of them fails, the other ends too."""
        failed: list[Exception] = []

        def run() -> None:
            try:
                move()
            except Exception as error:  # raised below, in the thread that waits for it
                failed.append(error)
                self._end()

        thread = Thread(target=run, name="opponent", daemon=True)
        thread.start()
        try:
            yield
        except Exception as error:
            if not failed:
                self._end()
                thread.join()
                raise
            thread.join()
            raise EnvFailure(f"the opponent: {failed[0]}") from error
        thread.join()
        if failed:
            raise EnvFailure(f"the opponent: {failed[0]}") from failed[0]

    def close(self) -> None:
        self.game.close()
