"""Play by hand: one env, several who may act in it, every episode kept. Nothing here knows of a screen or a network."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from gymnast.core.errors import UserError
from gymnast.play.episode import Step
from gymnast.play.game import Game
from gymnast.play.thinker import POLICIES, Thinker, random_action
from gymnast.play.trace import CUT, Trace

if TYPE_CHECKING:
    from gymnast.agent.nets import Net
    from gymnast.envs.types import StepBatch

MOST_STEPS = 30_000  # of an episode: an Atari game that is cut by its time limit has 27,000
MOST_EPISODES = 200
MOST_BYTES = 256 << 20  # of the observations of all episodes that are kept

Agents = Callable[[str | None], "Net | None"]  # of a checkpoint's name, None: the one that was opened; None: no agent


class PlaySession:
    """`agents`: those that can be asked for. `untrained`: the network before any training."""

    def __init__(self, game: Game, agents: Agents, untrained: Net) -> None:
        self.game = game
        self._agents, self._untrained = agents, untrained
        self._thinkers: dict[int, Thinker] = {}
        self.traces: dict[int, Trace] = {}
        self._next = 0
        self.trace: Trace | None = None  # the episode that is played
        self._now: StepBatch | None = None
        self._noise = 0

    # who acts

    def thinker(self, policy: str, checkpoint: str | None) -> Thinker | None:
        """Whose probabilities and value are shown; None: there is no agent."""
        if policy not in POLICIES:
            raise UserError(f"policy {policy!r}: must be one of {', '.join(POLICIES)}.")
        net = self._untrained if policy == "untrained" else self._agents(checkpoint)
        if net is None:
            if policy in ("greedy", "sampled"):
                raise UserError(f"policy {policy!r}: there is no agent here. Open a run, or use random or untrained.")
            return None
        return self._thinkers.setdefault(id(net), Thinker(net, self.game))

    # the episode that is played

    def begin(self, seed: int, policy: str, checkpoint: str | None = None) -> Trace:
        self.thinker(policy, checkpoint)  # a mistake is reported before anything changes
        trace = self.keep(Trace(self._new_number(), seed, policy, checkpoint))
        self._now = self.game.reset(seed)
        trace.see(self._now.obs)
        self.trace, self._noise = trace, seed
        return trace

    def advance(self, policy: str, action: Any = None, checkpoint: str | None = None) -> Step:
        """One step of the episode. `action`: of a human."""
        trace, now = self.trace, self._now
        if trace is None or now is None or trace.outcome:
            raise UserError("the episode is over: start the next one.")
        t = trace.length
        thinker = self.thinker(policy, checkpoint)
        thought = None
        if thinker is not None:
            thought = thinker.think(now, t, self._noise, policy in ("sampled", "untrained"))
        if policy == "human":
            chosen = action
        elif policy == "random" or thought is None:
            chosen = random_action(self.game, now, self._noise, t)
        else:
            chosen = thought.action
        total, frames = self.game.total, self.game.frames
        mask = None if now.mask is None else now.mask[0].copy()
        after = self.game.step(chosen)
        if thinker is not None and thought is not None:
            thinker.go_on(thought)
        step = Step(
            0,
            t,
            {},
            mask=mask,
            state={}
            if thought is None
            else {key: rows[0].cpu().numpy().copy() for key, rows in thought.before.items()},
            action=np.asarray(chosen).tolist(),
            choices={} if thought is None else thought.choices,
            value=None if thought is None else thought.value,
            reward=self.game.reward,
            components=self.game.components,
            terminated=bool(after.terminated[0]),
            truncated=bool(after.truncated[0]),
            total=total,
            frames=frames,
        )
        trace.add(step, policy, None if thought is None else thought.entropy)
        trace.see(after.final_obs if self.game.over else after.obs)
        self._now = after
        if self.game.over:
            trace.outcome = "terminated" if step.terminated else "truncated"
        elif trace.length >= MOST_STEPS:
            trace.outcome = CUT
        return step

    def play_out(self, policy: str, checkpoint: str | None = None) -> Iterator[Step]:
        """The rest of the episode."""
        while self.trace is not None and self.trace.outcome is None:
            yield self.advance(policy, checkpoint=checkpoint)

    # history

    def keep(self, trace: Trace) -> Trace:
        """The oldest episodes go when there are too many, or too large ones."""
        self.traces[trace.n] = trace
        sizes = {n: one.size for n, one in self.traces.items()}
        while len(self.traces) > MOST_EPISODES or (sum(sizes.values()) > MOST_BYTES and len(self.traces) > 1):
            oldest = next(iter(self.traces))
            del self.traces[oldest], sizes[oldest]
        return trace

    def _new_number(self) -> int:
        self._next += 1
        return self._next

    def find(self, n: Any) -> Trace:
        if n not in self.traces:
            raise UserError(f"there is no episode {n}: it was never recorded, or is too old to be kept.")
        return self.traces[n]

    def close(self) -> None:
        self.game.close()
