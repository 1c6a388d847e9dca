"""Our own side of `gymnast speed`: a worker that trains as it is asked to, job by job.

Training is the loop on sessions like any other; nothing is evaluated, and nothing is written but the rows.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from gymnast import config as configs
from gymnast.core.devices import set_threads, threads_in_use
from gymnast.core.seeds import derive_seed
from gymnast.envs.make import choose_engine, make_vec
from gymnast.metrics.clock import Clock, TrainingTime
from gymnast.play.random_actions import random_actions
from gymnast.runs.saved_agent import choose_threads
from gymnast.sinks import make_sinks
from gymnast.sinks.base import RunInfo
from gymnast.training.build import build
from gymnast.training.loop import train
from gymnast.training.rows import Row
from gymnast.training.state import TrainState
from gymnast.verbs.speed.limit import arithmetic, network_rate

if TYPE_CHECKING:
    from gymnast.jobs.child import Channel

NO_TIME = 1e-9  # seconds: a window of one iteration

Answer = dict[str, Any]


class Sessions:
    """The sessions that are being measured, by the name the asker gave them."""

    def __init__(self) -> None:
        self.sessions: dict[str, TrainState] = {}

    def build(self, name: str, config: dict[str, Any]) -> Answer:
        """A session, with its first iteration behind it."""
        checked = configs.validate(config)
        engine, why = choose_engine(checked.env, checked.env.n_envs)
        self.sessions[name] = session = build(checked, None)
        window(session, NO_TIME)
        return {"engine": engine, "why": why, "threads": threads_in_use()}

    def window(self, name: str, seconds: float) -> Answer:
        return window(self.sessions[name], seconds)

    def drop(self, name: str) -> Answer:
        self.sessions.pop(name).close()
        return {}

    def env(self, config: dict[str, Any], seconds: float) -> Answer:
        """The envs alone, with random actions that the env allows; choosing them is not counted."""
        checked = configs.validate(config)
        env = make_vec(checked.env, checked.env.n_envs, "train")
        rng = np.random.default_rng(derive_seed(checked.train.seed, "bench"))
        env.action_space.seed(derive_seed(checked.train.seed, "bench"))
        try:
            batch = env.reset(derive_seed(checked.train.seed, "train"))
            spent, steps, rewards = 0.0, 0, 0
            known = [random_actions(env, None, rng) for _ in range(64)] if batch.mask is None else []
            while spent < seconds:
                actions = known[steps // env.n_envs % len(known)] if known else random_actions(env, batch.mask, rng)
                before = time.perf_counter()
                batch = env.step(actions)
                spent += time.perf_counter() - before
                steps += env.n_envs
                rewards += int(np.count_nonzero(batch.reward))
        finally:
            env.close()
        return {"steps": steps, "seconds": spent, "rewards": rewards, "engine": env.engine}

    def limit(self, name: str) -> Answer:
        """With as many threads as training has, all of them inside torch's operators and NumPy's."""
        session = self.sessions[name]
        choose_threads(session.config, session.net)
        set_threads(threads_in_use())
        found = arithmetic(session) | {"network": network_rate(session)}
        choose_threads(session.config, session.net)
        return found

    def memory(self) -> Answer:
        """Megabytes, at the most so far."""
        import resource

        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return {"memory_mb": peak / 1e6 if sys.platform == "darwin" else peak / 1e3}

    def solve(self, config: dict[str, Any], threshold: float) -> Answer:
        """A whole run whose evaluations are the criterion; their time is taken off."""
        checked = configs.validate(config)
        session = build(checked, None)
        time_trained = TrainingTime()
        solved: Answer = {"solved_at": None, "seconds": None}

        def watch(row: Row) -> bool:
            seconds = time_trained.add(row)
            if row.get("eval/mean_reward", -np.inf) >= threshold:
                solved.update(solved_at=int(row["time/total_timesteps"]), seconds=seconds)
            return solved["solved_at"] is None

        try:
            train(session, observer=watch)
        finally:
            session.close()
        return solved


def window(session: TrainState, seconds: float) -> Answer:
    """Trains for that long, then to the end of the iteration; how far it got, and where the time went."""
    choose_threads(session.config, session.net)
    stop = session.config.stop.model_copy(update={"seconds": seconds})
    session.config = session.config.model_copy(update={"stop": stop})
    session.clock, session.pulse.cuts = Clock(), False
    phases: dict[str, float] = {}
    last = 0.0

    def watch(row: Row) -> None:
        nonlocal last
        for key, share in row.items():
            if key.startswith("time/share/"):
                phase = key.removeprefix("time/share/")
                phases[phase] = phases.get(phase, 0.0) + share * (row["time/elapsed"] - last)
        last = row["time/elapsed"]

    with tempfile.TemporaryDirectory() as rows:
        sinks = make_sinks(["jsonl"], RunInfo(Path(rows)), warn=print)
        before, began = session.counters.env_steps, time.perf_counter()
        train(session, sinks, observer=watch)
        spent = time.perf_counter() - began
        sinks.close()
    phases["log"] = phases.get("log", 0.0) + spent - last  # the last row does not know how long it took to write
    return {"steps": session.counters.env_steps - before, "seconds": spent, "phases": phases}


def measure(channel: Channel) -> None:
    """Does one thing after another: each job names what, and has its arguments."""
    sessions = Sessions()
    known: dict[str, Callable[..., Answer]] = {
        name: getattr(sessions, name) for name in ("build", "window", "drop", "env", "limit", "memory", "solve")
    }
    channel.ready()
    for job, _ in channel:
        channel.result(known[job.pop("do")](**job))


def go_on_training(channel: Channel, config: dict[str, Any], seconds: float) -> None:
    """An actor of `gymnast speed --on`: reports one window after another, until it is ended."""
    checked = configs.validate(config)
    session = build(checked, None)
    spaces = session.env.obs_space.values()
    each = sum(int(np.prod(space.shape or (1,))) * np.dtype(space.dtype).itemsize for space in spaces)
    channel.event(batch_bytes=each * session.env.n_envs)
    window(session, NO_TIME)
    while True:
        found = window(session, seconds)
        channel.event(steps=found["steps"], seconds=found["seconds"])
