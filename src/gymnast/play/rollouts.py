"""What an action is worth by trying: the same moment again and again, with other luck."""

from __future__ import annotations

import math
from collections.abc import Callable
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

import gymnasium as gym
import numpy as np

from gymnast.core.seeds import derive_seed
from gymnast.play.session import PlaySession
from gymnast.play.trace import mark_of

if TYPE_CHECKING:
    from gymnast.play.trace import Trace

MOST_STEPS = 5_000  # of one rollout
Stopped = Callable[[], bool]
Progress = Callable[[int, int], None]


def candidates(session: PlaySession, trace: Trace, t: int, greedy: Any, idle: Any) -> list[Any]:
    """The actions to try at a step: all that are allowed, or where they are too many, the one that was taken, the
    agent's and the one that does nothing."""
    space, mask = session.game.engine.action_space, trace.steps[t].mask if t < trace.length else None
    if isinstance(space, gym.spaces.Discrete):
        return [action for action in range(int(space.n)) if mask is None or mask[action]]
    tried = [trace.steps[t].action if t < trace.length else None, greedy, idle]
    unique: list[Any] = []
    for action in tried:
        if action is not None and not any(np.array_equal(action, other) for other in unique):
            unique.append(np.asarray(action).tolist())
    return unique


def roll_out(
    session: PlaySession,
    trace: Trace,
    t: int,
    actions: list[Any],
    times: int,
    then: str,
    checkpoint: str | None,
    gamma: float,
    stopped: Stopped,
    progress: Progress,
) -> tuple[list[dict[str, Any]], bool]:
    """Of each action: the mean of what is earned from step t on, plain and discounted, with its standard error. Every
    action meets the same luck, so that differences are the actions'. Then whether the env always came back to the
    moment of the episode; rollouts that did not begin there are not counted."""
    names = ("return", "discounted", "length", "cut", "path")
    found: list[dict[str, list[Any]]] = [{name: [] for name in names} for _ in actions]
    exact = session.go_to(trace, t)
    kept = session.game.save() if exact else None
    for i in range(times):
        seed = derive_seed(trace.seed, "rollout", t, i)
        for place, action in enumerate(actions):
            if stopped():
                break
            exact &= _one(session, trace, t, kept, action, seed, then, checkpoint, gamma, found[place])
            progress(i * len(actions) + place + 1, times * len(actions))
    session.lose_place()
    return [{"action": action, **_summary(numbers)} for action, numbers in zip(actions, found, strict=True)], exact


def _one(
    session: PlaySession,
    trace: Trace,
    t: int,
    kept: Any,
    action: Any,
    seed: int,
    then: str,
    checkpoint: str | None,
    gamma: float,
    numbers: dict[str, list[Any]],
) -> bool:
    """One rollout; False: the env did not come back to the moment, so there is none."""
    game, thinker = session.game, session.thinker(then, checkpoint)
    if kept is not None:
        now = game.load(kept)
    else:
        session.lose_place()
        if not session.go_to(trace, t):
            return False
        now = session.now
    if thinker is not None:
        session.recall(thinker, trace, t)
    game.renew_luck(seed)
    total = discounted = 0.0
    steps, path = 0, blake2b(digest_size=8)
    with game.unwatched():
        while not game.over and steps < MOST_STEPS:
            given = action if steps == 0 else None
            thought, chosen = session.choose(now, t + steps, seed, then, thinker, given, describe=False)
            now = game.step(chosen)
            if thinker is not None and thought is not None:
                thinker.state = thought.after
            total += game.reward
            discounted += gamma**steps * game.reward
            steps += 1
            path.update(f"{mark_of(now.final_obs if game.over else now.obs)}{game.reward}".encode())
    session.forget(thinker)
    numbers["path"].append(path.hexdigest())
    cut = float(not game.over)
    for name, number in (("return", total), ("discounted", discounted), ("length", float(steps)), ("cut", cut)):
        numbers[name].append(number)
    return True


def _summary(numbers: dict[str, list[Any]]) -> dict[str, Any]:
    """`same`: every rollout went through the same observations and rewards."""
    n = len(numbers["return"])
    summary: dict[str, Any] = {"n": n, "cut": int(sum(numbers["cut"]))}  # those that were not over at MOST_STEPS
    summary["same"] = n > 1 and len(set(numbers["path"])) == 1
    for name, key in (("return", "mean"), ("discounted", "discounted"), ("length", "length")):
        values = np.array(numbers[name])
        summary[key] = float(values.mean()) if n else None
        error = float(values.std(ddof=1) / math.sqrt(n)) if n > 1 else None
        summary["error" if key == "mean" else f"{key}_error"] = error
    return summary
