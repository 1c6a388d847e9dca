"""Play by hand: one env, several who may act in it, every episode kept. Nothing here knows of a screen or a network.

A moment of an episode is reached by its seed and the actions before it, from the nearest copy of the env where its
family has copies. What is seen there is compared with what was seen the first time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from gymnast.core.errors import UserError
from gymnast.play.episode import Step
from gymnast.play.game import Game
from gymnast.play.thinker import POLICIES, Thinker, Thought, random_action
from gymnast.play.trace import CUT, Trace, mark_of

if TYPE_CHECKING:
    from gymnast.agent.nets import Net
    from gymnast.envs.types import StepBatch

MOST_STEPS = 30_000  # of an episode: an Atari game that is cut by its time limit has 27,000
MOST_EPISODES = 200
MOST_BYTES = 256 << 20  # of the observations of all episodes that are kept
ANCHOR_EVERY = 32  # steps between two copies of the env, at first
MOST_ANCHORS = 24  # of an episode; a longer one has them further apart
ANCHORED = 8  # episodes that keep theirs

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
        self._now: StepBatch | None = None  # what the game shows
        self._place: tuple[int, int] | None = None  # episode and step at which the game is; None: somewhere else
        self._remembers: dict[int, tuple[int, int]] = {}  # the same of each thinker

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

    def recall(self, thinker: Thinker, trace: Trace, t: int) -> None:
        """Has an agent remember what it would at step t of an episode, if it had watched it so far."""
        if self._remembers.get(id(thinker)) == (trace.n, t):
            return
        thinker.state = thinker.net.agent.initial_state(1)
        if thinker.state:
            for i in range(t):
                thinker.watch(trace.obs(i), trace.steps[i].mask, i, trace.noise, is_sampled(trace.who[i]))
        self._remembers[id(thinker)] = trace.n, t

    # the episode that is played

    def begin(self, seed: int, policy: str, checkpoint: str | None = None) -> Trace:
        """A new episode. `checkpoint`: whose agent looks on, or plays."""
        self.thinker(policy, checkpoint)  # a mistake is reported before anything changes
        trace = self.keep(Trace(self._new_number(), seed, policy, checkpoint, noise=seed))
        trace.second_player = self.game.opponent is not None
        self._now = self.game.reset(seed)
        trace.see(self._now.obs)
        self._drop_anchors()
        self.trace, self._place = trace, (trace.n, 0)
        return trace

    def advance(self, policy: str, action: Any = None, checkpoint: str | None = None) -> Step:
        """One step of the episode. `action`: of a human."""
        trace = self.trace
        if trace is None or trace.outcome:
            raise UserError("the episode is over: start the next one.")
        t = trace.length
        if self._place != (trace.n, t):
            if not self.go_to(trace, t):
                trace.exact = False
            self._require_place(t)
        now = self._now
        assert now is not None
        thinker = self.thinker(policy, checkpoint)
        if thinker is not None:
            self.recall(thinker, trace, t)
        thought, chosen = self.choose(now, t, trace.noise, policy, thinker, action)
        total, frames = self.game.total, self.game.frames
        mask = None if now.mask is None else now.mask[0].copy()
        variables = self.game.variables
        self._place = None  # if the env fails now, it is nowhere
        after = self.game.step(chosen)
        if thinker is not None and thought is not None:
            thinker.state = thought.after
            self._remembers[id(thinker)] = trace.n, t + 1
        step = Step(
            0,
            t,
            {},
            mask=mask,
            action=np.asarray(chosen).tolist(),
            reward=self.game.reward,
            components=self.game.components,
            variables=variables,
            terminated=bool(after.terminated[0]),
            truncated=bool(after.truncated[0]),
            total=total,
            frames=frames,
            **({} if thought is None else thought.shown()),
        )
        trace.add(step, policy, None if thought is None else thought.entropy, checkpoint)
        trace.see(after.final_obs if self.game.over else after.obs)
        self._now, self._place = after, (trace.n, t + 1)
        if self.game.over:
            trace.outcome = "terminated" if step.terminated else "truncated"
        elif trace.length >= MOST_STEPS:
            trace.outcome = CUT
        elif trace.length % (ANCHOR_EVERY * trace.spacing) == 0:
            self._anchor(trace)
        return step

    def choose(
        self,
        now: StepBatch,
        t: int,
        noise: int,
        policy: str,
        thinker: Thinker | None,
        action: Any = None,
        describe: bool = True,
    ) -> tuple[Thought | None, Any]:
        """What the agent makes of it, and what is done."""
        thought = None if thinker is None else thinker.think(now, t, noise, is_sampled(policy), describe)
        if action is not None:
            return thought, action
        if policy == "human":
            raise UserError("nothing was chosen: press a key.")
        if policy == "random" or thought is None:
            return thought, random_action(self.game, now, noise, t)
        return thought, thought.action

    def play_out(self, policy: str, checkpoint: str | None = None) -> Iterator[Step]:
        """The rest of the episode."""
        while self.trace is not None and self.trace.outcome is None:
            yield self.advance(policy, checkpoint=checkpoint)

    # any moment of any episode

    def go_to(self, trace: Trace, t: int) -> bool:
        """Brings the env to step t of an episode; False: what it shows there is not what it showed the first time."""
        if trace.second_player:
            raise UserError("a second player moved in this episode, so its actions alone do not repeat it.")
        if not 0 <= t <= trace.length:
            raise UserError(f"t is {t}: episode {trace.n} has {trace.length} steps.")
        if self._place != (trace.n, t):
            start = max((at for at in trace.anchors if at <= t), default=0)
            if self._place is not None and self._place[0] == trace.n and start <= self._place[1] < t:
                start = self._place[1]  # it is on its way already
            elif start:
                self._now = self.game.load(trace.anchors[start])
            else:
                self._now = self.game.reset(trace.seed)
            self._place = None
            with self.game.unwatched():
                for i, action in enumerate(trace.actions[start:t], start):
                    if self.game.over:
                        return False
                    if i in trace.renewed:
                        self.game.renew_luck(trace.renewed[i])
                    self._now = self.game.step(action)
            self._place = trace.n, t
        assert self._now is not None
        return mark_of(self._now.final_obs if self.game.over else self._now.obs) == trace.marks[t]

    @property
    def now(self) -> StepBatch:
        """What the game shows."""
        assert self._now is not None
        return self._now

    @property
    def is_here(self) -> bool:
        """Whether the game shows the last step of the episode that is played, not another moment."""
        return self.trace is not None and self._place == (self.trace.n, self.trace.length)

    @property
    def mask(self) -> NDArray[np.bool_] | None:
        """What may be done now in the episode that is played; None: anything, or it is not known here."""
        mask = self._now.mask if self._now is not None and self.is_here else None
        return None if mask is None else mask[0]

    def lose_place(self) -> None:
        """Somebody moved the game: it is at no episode's step any more."""
        self._place = None

    def forget(self, thinker: Thinker | None) -> None:
        """Somebody moved an agent's memory."""
        self._remembers.pop(id(thinker), None)

    def branch(
        self, parent: Trace, t: int, action: Any, then: str, checkpoint: str | None = None, seed: int | None = None
    ) -> Trace:
        """A new episode that is the parent's up to step t, with another action there. `then`: who goes on; play_out
        plays it. `seed`: of other random numbers from here on; None: the luck of the parent."""
        if parent.length and t == parent.length and parent.outcome:
            raise UserError(f"t is {t}: episode {parent.n} is over there.")
        self.thinker(then, checkpoint)
        exact = self.go_to(parent, t)
        self._require_place(t)
        trace = self.keep(parent.branch(self._new_number(), t, then, checkpoint))
        trace.exact = exact
        self.trace, self._place = trace, (trace.n, t)
        if seed is not None:
            trace.noise = seed
            self.game.renew_luck(seed)
            trace.renewed[t] = seed
        if action is not None:
            self.advance("human", action, checkpoint)
        return trace

    def _require_place(self, t: int) -> None:
        if self._place is None:
            raise UserError(f"not exact: this env does not repeat itself, and ended before step {t} this time.")

    def _anchor(self, trace: Trace) -> None:
        kept = self.game.save()
        if kept is None or trace.second_player:
            return
        trace.anchors[trace.length] = kept
        if len(trace.anchors) > MOST_ANCHORS:
            trace.spacing *= 2
            trace.anchors = {t: one for t, one in trace.anchors.items() if t % (ANCHOR_EVERY * trace.spacing) == 0}

    def _drop_anchors(self) -> None:
        for trace in list(self.traces.values())[:-ANCHORED]:
            trace.anchors.clear()

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
        if not isinstance(n, int) or n not in self.traces:
            raise UserError(f"there is no episode {n!r}: it was never recorded, or is too old to be kept.")
        return self.traces[n]

    def close(self) -> None:
        self.game.close()


def is_sampled(policy: str) -> bool:
    """An untrained network is sampled too: its most likely action is the same nearly everywhere."""
    return policy in ("sampled", "untrained")
