"""A vector of envs in actors. `step` waits for all of them; `send` and `receive` are for those who do not.

An actor that dies or falls silent is replaced. In lock step the new one repeats the episodes of the old one from their
seeds and actions and then makes the step that is missing: no number changes. With `send` and `receive` its envs begin
new episodes, and the step that was under way is lost.
"""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gymnast.core.errors import EnvFailure, UserError
from gymnast.core.machine import cores
from gymnast.core.seeds import derive_seed
from gymnast.envs.actors.base import ActorDied, Actors
from gymnast.envs.engines.counted import Replayed
from gymnast.envs.engines.workers import START_SECONDS
from gymnast.envs.types import EpisodeRecord, Obs, StepBatch

if TYPE_CHECKING:
    from gymnast.config.schema import CentralConfig
    from gymnast.envs.make import EnvMaker

LAST_WORDS = 3.0  # seconds until a process that has closed its connection must have ended
MOST_DEATHS = 3  # of one actor, one after the other, without a step between them
OPENING, STEP = "opening", "step"
Command = tuple[str, Any]  # its name and its argument


class Arrival(NamedTuple):
    """What an actor has done; its rows of the buffers have the rest."""

    actor: int
    episodes: list[EpisodeRecord] | None  # None: it was replaced, and its envs begin new episodes


class Flight(NamedTuple):
    """What an actor is doing."""

    command: str
    sent: float
    until: float  # when it counts as hung


class Costs:
    """Seconds of the steps since the last report: the actors' own, and those around them."""

    def __init__(self) -> None:
        self.calls = 0
        self.env = self.round_trip = self.send = self.receive = 0.0

    def metrics(self) -> dict[str, float]:
        """In milliseconds a call, which steps all envs of one actor."""
        if not self.calls:
            return {}
        wait = self.round_trip - self.env
        parts = {"env": self.env, "wait": wait, "send": self.send, "receive": self.receive}
        return {f"central/{part}_ms": 1000 * seconds / self.calls for part, seconds in parts.items()}


class ActorVec(Replayed):
    engine = "actors"

    def __init__(self, actors: Actors, n_envs: int, name: str, step_timeout: float, exact: bool) -> None:
        """`exact`: it is stepped in lock step, and what its actors did can be repeated."""
        super().__init__(name, n_envs, actors.obs_space, actors.action_space)
        self.exact_resume, self.action_labels, self.actors = exact, actors.action_labels, self
        self.slices, self.buffers = actors.slices, actors.buffers
        self.costs, self.replaced = Costs(), 0
        self.warnings: list[str] = []  # that nobody has taken yet
        self.lap: Callable[[str], None] = lambda phase: None  # charges the time of a step to its parts
        self._all, self._timeout = actors, step_timeout
        self._todo: list[list[Command]] = [[] for _ in self.slices]  # of each actor, with what it is doing
        self._flights: dict[int, Flight] = {}
        self._deaths = [0] * len(self.slices)  # since the last step
        self._begun_again: set[int] = set()  # actors whose replacement nobody knows of yet
        self._before = {key: array.copy() for key, array in self.buffers.obs.items()}
        self._lost = np.zeros(n_envs, np.bool_)  # episodes that could not be repeated
        try:
            for actor in range(len(self.slices)):
                self._start(actor, [])
            self._finish()
        except BaseException:  # Ctrl-C too: no actor may be left behind
            actors.close()
            raise

    # Lock step

    def reset(self, seed: int) -> StepBatch:
        """A step that is under way is waited for, and dropped."""
        self._finish()
        self._begun_again.clear()
        self._seed, self._taken = seed, None
        self._episodes.fill(0)
        self._lengths.fill(0)
        self._log.clear()
        for actor in range(len(self.slices)):
            self._ask(actor, ("reset", seed))
        self._finish()
        return self.buffers.batch([])

    def step(self, actions: NDArray[Any]) -> StepBatch:
        taken = self._taken = self._actions.batch(actions, self.n_envs)
        for key, array in self.buffers.obs.items():
            self._before[key][:] = array  # an actor that dies may leave half a step in the memory it shares
        for actor, rows in enumerate(self.slices):
            self._ask(actor, (STEP, taken[slice(*rows)]))
        self.lap("send")
        parts = self._finish()
        self._cut_lost()
        self._log.append(taken, self._lengths)
        self._lengths += 1
        episodes = [record for actor in range(len(self.slices)) for record in parts[actor][0]]
        for record in episodes:
            self._episodes[record.env] += 1
            self._lengths[record.env] = 0
        return self.buffers.batch(episodes)

    def load_state(self, state: dict[str, NDArray[Any]]) -> StepBatch:
        taken = self._load_actions(state)
        self._lengths[:] = state["length"]
        for actor in range(len(self.slices)):
            self._ask(actor, ("load_state", self._part(actor, state)))
        self._finish()
        lost = self._different({key: state[f"obs/{key}"] for key in self.buffers.obs}, slice(None))
        self._episodes[lost] += 1  # these do not repeat themselves and begin new episodes
        self._lengths[lost] = 0
        self._log.restore([part[:0] if lost[row] else part for row, part in enumerate(taken)])
        return self.buffers.batch([])

    def close(self) -> None:
        self._all.close()

    def _seen(self) -> Obs:
        return self.buffers.obs

    def _part(self, actor: int, state: dict[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
        """The state of one actor's envs."""
        start, stop = self.slices[actor]
        ends = np.concatenate(([0], np.cumsum(state["length"])))
        part = {key: array[start:stop] for key, array in state.items() if key not in ("seed", "actions")}
        return part | {"seed": state["seed"], "actions": state["actions"][ends[start] : ends[stop]]}

    def _different(self, obs: Obs, rows: slice) -> NDArray[np.bool_]:
        """Which of these envs do not show these observations."""
        found = [(array[rows] != obs[key][rows]) for key, array in self.buffers.obs.items()]
        return np.logical_or.reduce([each.reshape(len(each), -1).any(1) for each in found])

    def _cut_lost(self) -> None:
        """An episode that could not be repeated ends where the agent last saw it; its env is in another one."""
        if not (lost := self._lost).any():
            return
        buffers = self.buffers
        buffers.reward[lost], buffers.terminated[lost], buffers.truncated[lost] = 0.0, False, True
        for key, array in buffers.final_obs.items():
            array[lost] = self._before[key][lost]
        self._episodes[lost] += 1
        self._lengths[lost] = 0
        lost.fill(False)

    # Whoever is ready

    def send(self, actor: int, actions: NDArray[Any]) -> None:
        """The next step of its envs."""
        start, stop = self.slices[actor]
        self._ask(actor, (STEP, self._actions.batch(actions, stop - start)))

    def receive(self, seconds: float) -> list[Arrival]:
        """Actors that have made their step, or were replaced, after so many seconds at most."""
        arrived = []
        for actor, answer in self._progress(seconds):
            arrived.append(Arrival(actor, None if actor in self._begun_again else answer[0]))
            self._begun_again.discard(actor)
        return arrived

    def measured(self) -> dict[str, float]:
        """What calls of actors took since the last time, and how many actors were replaced so far."""
        costs, self.costs = self.costs, Costs()
        return costs.metrics() | {"central/actors_replaced": float(self.replaced)}

    # Actors

    def _ask(self, actor: int, *commands: Command) -> None:
        self._todo[actor] = list(commands)
        self._next(actor)

    def _next(self, actor: int) -> None:
        name, argument = self._todo[actor][0]
        began = perf_counter()
        seconds = self._timeout
        if name == OPENING:
            self._all.start(actor)
            seconds += START_SECONDS
        else:
            self._all.ask(actor, name, argument)
        if name == STEP:
            self.costs.send += perf_counter() - began
        elif name == "load_state":
            seconds *= 1 + int(argument["length"].sum())  # steps to repeat
        self._flights[actor] = Flight(name, began, began + seconds)

    def _finish(self) -> dict[int, Any]:
        """The answers of all actors that are doing something."""
        answers: dict[int, Any] = {}
        while self._flights:
            answers |= self._progress(self._timeout)
        return answers

    def _progress(self, seconds: float) -> list[tuple[int, Any]]:
        """Actors that have done all they were asked to, with their last answers, after so many seconds at most."""
        done = []
        for actor in self._landed(seconds):
            try:
                answer = self._take(actor)
            except ActorDied as died:
                self._replace(actor, self._all.end(actor, LAST_WORDS), died.by_its_place)
                continue
            if self._todo[actor]:
                self._next(actor)
            else:
                done.append((actor, answer))
            self.lap("receive")
        return done

    def _landed(self, seconds: float) -> list[int]:
        """Those that have answered. One that is silent for too long is killed and replaced."""
        first = min((flight.until for flight in self._flights.values()), default=0.0)
        found = self._all.ready(self._flights, max(0.0, min(seconds, first - perf_counter())))
        self.lap("env")
        now = perf_counter()
        for actor, flight in [(a, flight) for a, flight in self._flights.items() if now > flight.until]:
            if actor in found:
                continue
            how = f"did not finish {flight.command} within {flight.until - flight.sent:g} s (env.step_timeout)"
            if flight.command == OPENING:
                raise EnvFailure(f"{self.name}: {self._all.who(actor)} {how}.")
            self._all.end(actor, 0.0)
            self._replace(actor, how)
        return found

    def _take(self, actor: int) -> Any:
        flight, began = self._flights.pop(actor), perf_counter()
        answer = self._all.answer(actor)
        self._todo[actor].pop(0)
        if flight.command == STEP:
            costs, now = self.costs, perf_counter()
            costs.calls += 1
            costs.env += answer[1]
            costs.receive += now - began
            costs.round_trip += began - flight.sent
            self._deaths[actor] = 0
        elif flight.command == "load_state" and self._todo[actor]:  # before the step that is missing
            rows = slice(*self.slices[actor])
            self._lost[rows] = self._different(self._before, rows)
        return answer

    def _replace(self, actor: int, how: str, by_its_place: bool = False) -> None:
        start, stop = self.slices[actor]
        who = f"the actor of envs {start} to {stop - 1}"
        self._flights.pop(actor, None)
        self._deaths[actor] += not by_its_place
        if self._deaths[actor] > MOST_DEATHS:
            raise EnvFailure(f"{self.name}: {who} {how}, for the {self._deaths[actor]}th time without a step between.")
        self.replaced += 1
        self.warnings.append(f"{who} {how}; another one takes its place")
        unfinished = self._todo[actor][-1:] if self._todo[actor][-1:] != [(OPENING, None)] else []
        if unfinished and unfinished[0][0] == STEP:
            unfinished = self._way_back(actor, unfinished[0])
        self._start(actor, unfinished)

    def _start(self, actor: int, then: list[Command]) -> None:
        self._ask(actor, (OPENING, None), *then)

    def _way_back(self, actor: int, step: Command) -> list[Command]:
        """How a new actor gets to where the old one was; or to new episodes, other than all before."""
        if self.exact_resume:
            state = self.save_state() | {f"obs/{key}": array for key, array in self._before.items()}
            return [("load_state", self._part(actor, state)), step]
        self._begun_again.add(actor)
        return [("reset", derive_seed(self._seed, "replaced", actor, self.replaced))]


def open_actors(maker: EnvMaker, central: CentralConfig, n_envs: int) -> ActorVec:
    count = central.n_actors or min(n_envs, cores())
    if maker.one_per_process and count < n_envs:
        raise UserError(
            f"train.central.n_actors: a process may hold one {maker.config.id} only. Use {n_envs}, one for each env."
        )
    actors: Actors
    if central.where == "local":
        from gymnast.envs.actors.local import LocalActors

        actors = LocalActors(maker, n_envs, count)
    else:
        from gymnast.envs.actors.ray import RayActors

        actors = RayActors(maker, n_envs, count, None if central.where == "ray" else central.where)
    return ActorVec(actors, n_envs, maker.title, maker.config.step_timeout, central.mode == "exact")
