"""`gymnast speed --tune`: the engine, number of envs and threads that train fastest here, found by measuring.

Every combination gets a short window; the better half of them a longer one, and so on. What the winner is compared
with is the config as it stands, measured in the same turns.
"""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from gymnast import config as configs
from gymnast.config.tuned import Tuned, keep
from gymnast.core.errors import UserError
from gymnast.core.machine import cores, cpu_model
from gymnast.jobs.worker import Worker
from gymnast.verbs.progress import SILENT, Progress
from gymnast.verbs.speed.advice import FEWEST_STEPS, engines_for, steps_for, thread_counts
from gymnast.verbs.speed.results import Candidate, Tuning
from gymnast.verbs.speed.runs import our_worker
from gymnast.verbs.speed.speed import steady
from gymnast.verbs.train import resolve_config
from gymnast.verbs.variant_file import write_variant

if TYPE_CHECKING:
    from gymnast.config import RunConfig

ENVS = (4, 8, 16, 32, 64, 128, 256)
SHORT_ROLLOUT = 2_048  # samples: a longer one says no more about speed and takes the time of several windows
FIRST_SHARE = 0.4  # of the time left, for the rounds before the last
LAST = 3  # reach the last round
SHORTEST = 0.1  # seconds of a window
CLEARLY = 1.05  # an engine is preferred to the one that would be chosen anyway if it is this much faster


def tune(
    target: str,
    overrides: Sequence[str] = (),
    *,
    seconds: float = 45.0,
    write: Path | None = None,
    progress: Progress = SILENT,
) -> Tuning:
    if write is not None:
        if write.exists():
            raise UserError(f"--write {write}: exists already. Name a new file, or remove it.")
        write.parent.mkdir(parents=True, exist_ok=True)  # now: what cannot be written is reported before the work
    resolved = resolve_config(target, overrides)
    config = resolved.config
    progress.plan(seconds)
    with our_worker() as worker:
        search = Search(worker, config, seconds, progress)
        search.run()
    best, now = max(search.alive, key=lambda candidate: candidate.rate), search.current
    if best.rate < now.rate * CLEARLY:
        best = now  # nothing is clearly better: it stays as it is
    cached = keep(config.env.id, Tuned(best.n_envs, best.engine, search.engines(best), best.rate))
    if write is not None:
        write_choice(write, resolved.config, target, best, now)
    return Tuning(
        target=resolved.target,
        env=config.env.id,
        machine={"cpu": cpu_model(), "cores": cores()},
        best=best,
        current=now,
        # those that came furthest first, and the fastest of them
        table=sorted(search.candidates, key=lambda candidate: (-len(candidate.rates), -candidate.rate)),
        steps_between_rewards=search.reward_every,
        n_steps_advice=search.fewest_steps if search.fewest_steps > config.algo.n_steps else None,
        seconds=search.spent(),
        cache=str(cached),
        file=None if write is None else str(write),
    )


class Search:
    """Successive halving over what the config leaves to the machine, within a budget of seconds."""

    def __init__(self, worker: Worker, config: RunConfig, budget: float, progress: Progress) -> None:
        self.worker, self.config, self.budget, self.progress = worker, config, budget, progress
        self.began = self._shown = time.monotonic()
        self.candidates: list[Candidate] = []  # all that were measured; the first is the config as it is
        self.alive: list[Candidate] = []
        self.reward_every = math.inf
        self.fewest_steps = FEWEST_STEPS
        self.threads = 0  # that the config means

    def spent(self) -> float:
        return time.monotonic() - self.began

    def left(self) -> float:
        return max(0.0, self.budget - self.spent())

    def run(self) -> None:
        self.progress.step("the env alone")
        base = steady(self.config).model_dump(mode="json")
        alone = self.worker.ask(do="env", config=base, seconds=min(1.0, self.budget / 20))
        if alone["rewards"]:
            self.reward_every = alone["steps"] / alone["rewards"]
        self.fewest_steps = steps_to_see_a_reward(self.reward_every)
        waiting = self.possible(alone["engine"], alone["steps"] / alone["seconds"])
        length = max(SHORTEST, FIRST_SHARE * self.budget / len(waiting) / 2)
        for candidate in waiting:
            if self.candidates and self.spent() > FIRST_SHARE * self.budget:
                break
            self.enter(candidate, length)
        rounds = max(1, math.ceil(math.log2(max(2, len(self.alive)) / LAST)))
        for number in range(rounds):  # longer windows for fewer, until few enough are left for the last round
            self.cut(max(LAST, math.ceil(len(self.alive) / 2)))
            self.turns(FIRST_SHARE * self.left() / (rounds - number))
        # only of the few that are left: threads hardly change which engine is the best
        others = [threads for threads in thread_counts() if threads != self.threads]
        for one, threads in itertools.product(list(self.alive), others):
            if self.left() > 2 * SHORTEST:
                self.enter(Candidate(one.engine, one.n_envs, one.n_steps, threads), SHORTEST)
        self.cut(LAST)
        self.turns(self.left() / 2)
        self.turns(self.left())

    def possible(self, engine: str, env_rate: float) -> list[Candidate]:
        """The config as it is first, then its neighbours, then what is further away."""
        config = self.config
        now = Candidate(engine, config.env.n_envs, config.algo.n_steps, config.train.threads, current=True)
        found = [now]
        fewest = min(self.fewest_steps, config.algo.n_steps)
        distance = {n_envs: math.log2(n_envs / config.env.n_envs) for n_envs in {*ENVS, config.env.n_envs}}
        for n_envs in sorted(distance, key=lambda n: (abs(distance[n]), -n)):
            n_steps = steps_for(config, n_envs, fewest)
            for name in engines_for(config, env_rate, n_envs) if n_steps else []:
                if n_steps and (name, n_envs) != (now.engine, now.n_envs):
                    found.append(Candidate(name, n_envs, n_steps, config.train.threads))
        return sorted(found, key=lambda one: (not one.current, one.engine == "process"))  # processes start slowly

    @property
    def current(self) -> Candidate:
        return self.candidates[0]

    def enter(self, candidate: Candidate, seconds: float) -> None:
        """Builds it and gives it a first window."""
        self.progress.step(candidate.name)
        job = shorter(steady(self.config, *candidate.overrides()))
        about = self.worker.ask(do="build", name=candidate.name, config=job.model_dump(mode="json"))
        if candidate.current:
            self.threads = about["threads"]
        self.candidates.append(candidate)
        self.alive.append(candidate)
        self.window(candidate, seconds)

    def cut(self, count: int) -> None:
        """Only the fastest go on, and the config as it is, which they are compared with."""
        ranked = sorted(self.alive, key=lambda candidate: -candidate.rate)
        for candidate in ranked[count:]:
            if candidate is not self.current:
                self.alive.remove(candidate)
                self.worker.ask(do="drop", name=candidate.name)

    def turns(self, seconds: float) -> None:
        """A window for each that is left, all of them in so many seconds."""
        for candidate in self.alive:
            self.window(candidate, max(SHORTEST, seconds / len(self.alive)))

    def window(self, candidate: Candidate, seconds: float) -> None:
        self.progress.step(candidate.name)
        answer = self.worker.ask(do="window", name=candidate.name, seconds=seconds)
        candidate.rates.append(answer["steps"] / answer["seconds"])
        now = time.monotonic()
        self.progress.done(now - self._shown)
        self._shown = now

    def engines(self, best: Candidate) -> dict[int, str]:
        """For each number of envs the engine that is clearly faster than the one that is chosen anyway.

        The first round is too short to say so: both must have been in a second round.
        """
        from gymnast.envs.make import choose_engine

        auto = self.config.env.model_copy(update={"engine": "auto"})
        found = {best.n_envs: best.engine}
        known = [one for one in self.candidates if len(one.rates) > 1 and one.threads == best.threads]
        for n_envs in {one.n_envs for one in known} - {best.n_envs}:
            rates = {one.engine: one.rate for one in known if one.n_envs == n_envs}
            usual, _ = choose_engine(auto, n_envs, use_tuned=False)
            fastest = max(rates, key=lambda engine: rates[engine])
            if rates[fastest] > CLEARLY * rates.get(usual, math.inf):
                found[n_envs] = fastest
        return dict(sorted(found.items()))


def steps_to_see_a_reward(every: float) -> int:
    """A power of two that spans the usual time between two rewards of an env: a rollout then has one to learn from."""
    return FEWEST_STEPS if not math.isfinite(every) else max(FEWEST_STEPS, 2 ** math.ceil(math.log2(max(1.0, every))))


def shorter(config: RunConfig) -> RunConfig:
    """The same work for each step, in iterations short enough for short windows."""
    _, batch = config.algo.passes(config.rollout_steps)
    if batch == config.rollout_steps or config.rollout_steps <= SHORT_ROLLOUT:
        return config
    unit = math.lcm(config.env.n_envs, batch) // config.env.n_envs
    n_steps = unit * max(1, SHORT_ROLLOUT // (unit * config.env.n_envs))
    return configs.override(config, [f"algo.n_steps={min(n_steps, config.algo.n_steps)}"])


def write_choice(path: Path, config: RunConfig, target: str, best: Candidate, now: Candidate) -> None:
    """The target with the choice, and with what the user has set."""
    head = (
        f"# Measured by `gymnast speed {target} --tune` on {cpu_model()}, {cores()} cores:\n"
        f"# {best.rate:,.0f} steps/s here, {now.rate:,.0f} as it was.\n"
    )
    write_variant(path, target, configs.override(config, best.overrides()), head)
