"""Shaped rewards of envs that say themselves what could be paid extra: games that are seen as pictures.

Such an env puts the unweighed parts of a step into info["shaping"]; its suite names them (`Suite.shaping_parts`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import gymnasium as gym

from gymnast.envs.recorder import recorder_of
from gymnast.envs.shaping.components import TRUE_REWARD

PARTS = "shaping"  # the key of info


class Shaped(gym.Wrapper[Any, Any, Any, Any]):
    """Weighs the parts, and pays them in training. The recorder gets what each of them comes to, for metrics, videos
    and Studio; the score stays that of the env.

    It is directly above the env, so that a frame skip of the config adds up what is paid here.
    """

    def __init__(self, env: gym.Env[Any, Any], weights: Mapping[str, float], training: bool) -> None:
        super().__init__(env)
        self._weights, self._training = dict(weights), training
        self._recorder = recorder_of(env)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        result = self.env.reset(seed=seed, options=options)
        self._recorder.components = dict.fromkeys((TRUE_REWARD, *self._weights), 0.0)
        self._recorder.shaped_return = 0.0 if self._training else None
        return result

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        observation, reward, terminated, truncated, info = self.env.step(action)
        found, sums = info[PARTS], self._recorder.components
        paid = {name: weight * found[name] for name, weight in self._weights.items()}
        if info.get("reward_components"):  # the env's own reward has names too, and the recorder has added them up
            sums.pop(TRUE_REWARD, None)
        else:
            sums[TRUE_REWARD] += float(reward)
        for name, value in paid.items():
            sums[name] += value
        if self._recorder.shaped_return is not None:
            reward = sum(paid.values(), float(reward))
            self._recorder.shaped_return += reward
        return observation, reward, terminated, truncated, info
