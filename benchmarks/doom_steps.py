"""Steps a second of ViZDoom at 160 x 120, grey, four tics a step: the bare API, the package's wrapper, ours.

    nice -n 10 python benchmarks/doom_steps.py [steps] [rounds]

All play the same random actions from the same seeds. Rounds take turns, so that a busy machine slows all of them; the
best round of each counts. The last two columns: milliseconds of a core for a step, in Python and in Doom itself.
"""

from __future__ import annotations

import resource
import sys
import time
from collections.abc import Callable
from typing import Any

import gymnasium as gym
import numpy as np

from gymnast.config import EnvConfig
from gymnast.envs.make import make_env

IDS = ("VizdoomBasic-v1", "VizdoomHealthGathering-v1", "VizdoomDefendCenter-v1")
SAME = {"screen_size": [120, 160], "stack": 1}  # every pixel that the engine draws


def package(env_id: str) -> gym.Env[Any, Any]:
    import vizdoom.gymnasium_wrapper  # noqa: F401, registers them

    return gym.make(env_id, frame_skip=4, screen_resolution="RES_160X120", screen_format="GRAY8")


class Clock:
    """Steps a second, and milliseconds of a core for each, here and in processes that have ended since."""

    def __init__(self) -> None:
        self._wall, self._here, self._there = time.perf_counter(), time.process_time(), _children()

    def stop(self, steps: int, env: gym.Env[Any, Any]) -> list[float]:
        wall, here = time.perf_counter() - self._wall, time.process_time() - self._here
        env.close()
        return [steps / wall, 1000 * here / steps, 1000 * (_children() - self._there) / steps]


def _children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def bare(env_id: str, actions: list[int]) -> list[float]:
    env: Any = package(env_id).unwrapped
    env.reset(seed=0)
    game, table = env.game, [list(map(float, row)) for row in env.button_map]
    clock = Clock()
    for action in actions:
        game.make_action(table[action], 4)
        if game.is_episode_finished():
            game.new_episode()
        else:
            game.get_state().screen_buffer  # noqa: B018, the copy is what costs
    return clock.stop(len(actions), env)


def env_rate(make: Callable[[], gym.Env[Any, Any]], actions: list[int]) -> list[float]:
    env = make()
    env.reset(seed=0)
    clock = Clock()
    for number, action in enumerate(actions):
        _, _, terminated, truncated, _ = env.step(action)
        if terminated or truncated:
            env.reset(seed=number)
    return clock.stop(len(actions), env)


def main(steps: int = 2000, rounds: int = 3) -> None:
    print(f"{'':26} {'':13} {'steps/s':>8} {'ms Python':>10} {'ms Doom':>8}")
    actions = np.random.default_rng(0).integers(0, 4, steps).tolist()
    ways: dict[str, Callable[[str], list[float]]] = {
        "bare API": lambda env_id: bare(env_id, actions),
        "package": lambda env_id: env_rate(lambda: package(env_id), actions),
        "ours": lambda env_id: env_rate(lambda: make_env(EnvConfig(id=env_id, kwargs=SAME)), actions),
        "ours 45x60x4": lambda env_id: env_rate(lambda: make_env(EnvConfig(id=env_id)), actions),
    }
    for env_id in IDS:
        found = np.array([[way(env_id) for way in ways.values()] for _ in range(rounds)])
        for name, rates, here, there in zip(ways, *np.moveaxis(found, -1, 0).swapaxes(1, 2), strict=True):
            print(f"{env_id:26} {name:13} {rates.max():8,.0f} {here.min():10.3f} {there.min():8.3f}", flush=True)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
