"""Small envs whose every number is known beforehand. Importing this module registers them under `test/`.

Usable everywhere as e.g. `tests.envs_for_tests:test/Counting-v0`: in tests, on the command line, in workers.
"""

from __future__ import annotations

import copy
import os
import signal
import sys
import time
import warnings
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces

from gymnast.core.registry import SHAPERS, SUITES
from gymnast.envs.shaping.components import Shaper, Signal
from gymnast.envs.suites.base import Suite

MODULE = "tests.envs_for_tests"


def full_id(name: str) -> str:
    """The id by which any process can find the env: full_id("Counting-v0")."""
    return f"{MODULE}:test/{name}"


class Counting(gym.Env[Any, Any]):
    """The observation is the step index, the reward too; terminates after `length` steps (None: never).

    It returns the same array every time, changed in place: whoever keeps it by reference will see it change.
    """

    metadata = {"render_modes": ["rgb_array"]}  # noqa: RUF012

    def __init__(self, length: int | None = 5, both_flags: bool = False, render_mode: str | None = None) -> None:
        self.length, self.both_flags, self.render_mode = length, both_flags, render_mode
        self.observation_space = spaces.Box(0.0, np.inf, (1,), np.float32)
        self.action_space = spaces.Discrete(2)
        self.t = 0
        self._observation = np.zeros(1, np.float32)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.t = 0
        return self.observe(), self.info()

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.t += 1
        ended = self.t == self.length
        return self.observe(), float(self.t), ended, ended and self.both_flags, self.info()

    def observe(self) -> Any:
        self._observation[0] = self.t
        return self._observation

    def info(self) -> dict[str, Any]:
        return {"t": self.t}

    def render(self) -> Any:
        return np.full((4, 4, 3), self.t, np.uint8)


class Endless(Counting):
    """Reward 1 for ever, nothing to see: its value is 1 / (1 - gamma) whatever the agent does."""

    def __init__(self) -> None:
        super().__init__(length=None)

    def observe(self) -> Any:
        return self._observation

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.t += 1
        return self._observation, 1.0, False, False, {}


class SeedEcho(Counting):
    """Shows the seed it was reset with, the step, and a random number of its own generator."""

    def __init__(self, length: int | None = 5) -> None:
        super().__init__(length)
        self.observation_space = spaces.Box(0, 2**62, (3,), np.int64)
        self.seed = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        self.seed = -1 if seed is None else seed
        return super().reset(seed=seed)

    def observe(self) -> Any:
        return np.array([self.seed, self.t, self.np_random.integers(2**31)])


class Dice(Counting):
    """Random rewards and ends, drawn from the episode's seed: exact resume must find the same ones."""

    def __init__(self, render_mode: str | None = None) -> None:
        super().__init__(length=None, render_mode=render_mode)
        self.observation_space = spaces.Box(-np.inf, np.inf, (2,), np.float64)

    def observe(self) -> Any:
        return np.array([self.t, self.np_random.normal()])

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.t += 1
        parts = {"luck": float(self.np_random.normal()), "choice": float(np.sum(action))}
        ended = bool(self.np_random.random() < 0.05)
        return self.observe(), sum(parts.values()), ended, False, {"reward_components": parts}


class Sampling(Counting):
    """Samples what it shows and pays from its spaces, as tutorials do; one of them belongs to the class."""

    action_space = spaces.Discrete(1000)  # of the class: all envs have the same object

    def __init__(self) -> None:
        super().__init__(length=7)
        self.observation_space = spaces.Box(-1.0, 1.0, (2,), np.float32)
        del self.action_space  # that of Counting; the class's is left
        self.goal_space = spaces.Dict({"place": spaces.Box(0.0, 1.0, (1,), np.float64), "kind": spaces.Discrete(9)})
        self.goal: Any = None

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        self.goal = self.goal_space.sample()
        return super().reset(seed=seed, options=options)

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        _, _, ended, cut, info = super().step(action)
        paid = float(self.goal["place"][0]) + int(self.goal["kind"]) + int(self.action_space.sample())
        return self.observe(), paid, ended, cut, info

    def observe(self) -> Any:
        return self.observation_space.sample()


class LyingParts(Counting):
    """Names a part of its reward, 0.5, where it pays 1."""

    def info(self) -> dict[str, Any]:
        return {"reward_components": {"speed": 0.5}} if self.t else {}


class Unseeded(Counting):
    """Ignores its seed, so no episode can be replayed."""

    def observe(self) -> Any:
        return np.random.default_rng().random(1).astype(np.float32)


class Troubled(Counting):
    """Counts, and does what `trouble` says in step `at`."""

    def __init__(self, trouble: str = "crash", at: int = 3, seconds: float = 3600.0) -> None:
        super().__init__(length=None)
        self.trouble, self.at, self.seconds = trouble, at, seconds
        if trouble == "quit_making":
            sys.exit(0)

    def close(self) -> None:
        if self.trouble == "close":
            raise OSError("the door is stuck")

    def step(self, action: Any) -> tuple[Any, Any, Any, bool, dict[str, Any]]:
        observation, reward, terminated, truncated, info = super().step(action)
        if self.t != self.at:
            return observation, reward, terminated, truncated, info
        if self.trouble == "crash":
            raise RuntimeError("the gearbox is on fire")
        if self.trouble == "quit":
            raise SystemExit(3)
        if self.trouble == "exit":
            os._exit(7)
        if self.trouble == "fork":
            os.fork()
        if self.trouble == "warn":
            warnings.warn("\x1b[31mhot\x1b[0m \x1b]0;title\x07\nand loud", stacklevel=1)
        if self.trouble == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        if self.trouble == "hang":
            time.sleep(self.seconds)
        changed: dict[str, Any] = {
            "nan_reward": (observation, float("nan"), terminated),
            "nan_observation": (observation * np.nan, reward, terminated),
            "inf_observation": (observation - np.inf, reward, terminated),
            "inf_last_observation": (observation + np.inf, reward, True),
            "huge_observation": (observation * 0 + 1e38, reward, terminated),
            "wrong_shape": (np.zeros(2, np.float32), reward, terminated),
            "list_reward": (observation, [1.0], terminated),
            "none_flag": (observation, reward, None),
        }
        return *changed.get(self.trouble, (observation, reward, terminated)), truncated, info


class Leaky(Counting):
    """Opens a file in each episode and closes none."""

    def __init__(self) -> None:
        super().__init__()
        self.files: list[Any] = []

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        self.files.append(open(os.devnull))  # noqa: SIM115
        return super().reset(seed=seed, options=options)


class Slow(Counting):
    """Each step takes `seconds`."""

    def __init__(self, seconds: float = 0.01, length: int = 5) -> None:
        super().__init__(length)
        self.seconds = seconds

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        time.sleep(self.seconds)
        return super().step(action)


class Masked(Counting):
    """Of four actions only t % 4 and the next one are allowed; any other is an error. Rewards 1 for t % 4."""

    def __init__(self, length: int | None = 6, render_mode: str | None = None) -> None:
        super().__init__(length, render_mode=render_mode)
        self.action_space = spaces.Discrete(4)

    def info(self) -> dict[str, Any]:
        mask = np.zeros(4, np.int8)
        mask[[self.t % 4, (self.t + 1) % 4]] = 1
        return {"action_mask": mask}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        assert self.info()["action_mask"][action], f"action {action} is masked at step {self.t}"
        right = action == self.t % 4
        observation, _, terminated, truncated, info = super().step(action)
        return observation, float(right), terminated, truncated, info


class Pad(Counting):
    """Buttons left, right and fire, of which left and right together are an error, and so is fire at odd steps, where
    it is masked. Each step pays 1 for pressing what the first observation showed, -1 left or 1 right; with `hint` all
    observations show it."""

    def __init__(self, hint: bool = True, render_mode: str | None = None) -> None:
        super().__init__(6, render_mode=render_mode)
        self.observation_space = spaces.Box(-1.0, 6.0, (2,), np.float32)
        self.action_space = spaces.MultiBinary(3)
        self.hint = hint

    def get_action_meanings(self) -> list[str]:
        return ["left", "right", "fire"]

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.way = int(self.np_random.integers(2))
        return self.observe(), self.info()

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        left, right, fire = action.tolist()
        assert not (left and right)
        assert not (fire and self.t % 2)
        observation, _, ended, _, info = super().step(action)
        return observation, float((left, right)[self.way]), ended, False, info

    def observe(self) -> Any:
        shown = 2 * getattr(self, "way", 0) - 1 if self.hint or self.t == 0 else 0
        return np.array([self.t, shown], np.float32)

    def info(self) -> dict[str, Any]:
        return {"action_mask": np.array([1, 1, self.t % 2 == 0], np.int8)}


class Lonely(Counting):
    """Refuses a second one in its process, and shows which process that is."""

    ID = "tests.envs_for_tests:lonely/Lonely-v0"
    alive = 0

    def __init__(self) -> None:
        super().__init__()
        type(self).alive += 1
        if self.alive > 1:
            raise RuntimeError("there is another one in this process")

    def observe(self) -> Any:
        return np.array([os.getpid()], np.float32)

    def close(self) -> None:
        type(self).alive -= 1


class LonelySuite(Suite):
    one_per_process = True


OBSERVATIONS: dict[str, gym.Space[Any]] = {
    "Box": spaces.Box(-1.0, 1.0, (3,), np.float64),
    "Image": spaces.Box(0, 255, (16, 12, 3), np.uint8),
    "Discrete": spaces.Discrete(5, start=2),
    "MultiDiscrete": spaces.MultiDiscrete([3, 4]),
    "MultiBinary": spaces.MultiBinary(4),
    "Dict": spaces.Dict(
        {
            "camera": spaces.Box(0, 255, (8, 10, 1), np.uint8),
            "inside": spaces.Dict({"room": spaces.Discrete(3), "speed": spaces.Box(-1.0, 1.0, (2,), np.float64)}),
        }
    ),
    "Tuple": spaces.Tuple([spaces.Discrete(4), spaces.Box(-1.0, 1.0, (2,), np.float32)]),
}
ACTIONS: dict[str, gym.Space[Any]] = {
    "Discrete": spaces.Discrete(3),
    "ShiftedDiscrete": spaces.Discrete(3, start=-1),
    "MultiDiscrete": spaces.MultiDiscrete([2, 3]),
    "MultiBinary": spaces.MultiBinary(3),
    "Box": spaces.Box(np.array([-1.0, 0.0]), np.array([1.0, 4.0]), dtype=np.float32),
}


class Spaces(gym.Env[Any, Any]):
    """Random observations of one space, actions of another; the reward grows with the action, so it can be learned."""

    def __init__(self, observation: str = "Box", action: str = "Discrete", length: int = 8) -> None:
        self.observation_space = copy.deepcopy(OBSERVATIONS[observation])  # its generator is this env's own
        self.action_space = ACTIONS[action]
        self.length, self.t = length, 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.observation_space.seed(seed)
        self.t = 0
        return self.observation_space.sample(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        assert self.action_space.contains(action), f"{action!r} is not in {self.action_space}"
        self.t += 1
        return self.observation_space.sample(), float(np.mean(action)), self.t >= self.length, False, {}


class Varied(Spaces):
    """Episodes of 1 to 9 steps, each terminated or truncated by chance; of every choice one is forbidden. All of it is
    drawn from the episode's seed."""

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        observation, _ = super().reset(seed=seed)
        self.length, self.terminates = int(self.np_random.integers(1, 10)), bool(self.np_random.integers(2))
        return observation, self.info()

    def info(self) -> dict[str, Any]:
        if isinstance(self.action_space, spaces.Box):
            return {}
        sizes = [self.action_space.n] if isinstance(self.action_space, spaces.Discrete) else self.action_space.nvec
        masks = [self.np_random.permutation(size) > 0 for size in sizes]
        return {"action_mask": np.concatenate(masks).astype(np.int8)}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        observation, reward, ended, _, _ = super().step(action)
        return observation, reward, ended and self.terminates, ended and not self.terminates, self.info()


class Stuck(Counting):
    """Its constructor makes a file and then takes minutes."""

    def __init__(self, sign: str) -> None:
        super().__init__()
        with open(sign, "w"):
            time.sleep(300)


class Ruinous(Counting):
    """Costs so much a step that half a unit more or less makes no difference to a float."""

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        observation, _, terminated, truncated, info = super().step(action)
        return observation, -1e18, terminated, truncated, info


class Paid(Counting):
    """Pays the action itself. Every episode shows the same five observations."""

    def __init__(self) -> None:
        super().__init__()
        self.action_space = spaces.Box(-10.0, 10.0, (1,), np.float32)

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        observation, _, terminated, truncated, info = super().step(action)
        return observation, float(action[0]), terminated, truncated, info


def _register() -> None:
    gym.register("test/Counting-v0", f"{MODULE}:Counting")
    gym.register("test/BothFlags-v0", f"{MODULE}:Counting", kwargs={"length": 4, "both_flags": True})
    gym.register("test/Truncating-v0", f"{MODULE}:Counting", kwargs={"length": None}, max_episode_steps=7)
    gym.register("test/Endless-v0", f"{MODULE}:Endless", max_episode_steps=100)
    gym.register("test/SeedEcho-v0", f"{MODULE}:SeedEcho")
    gym.register("test/Dice-v0", f"{MODULE}:Dice", max_episode_steps=40)
    gym.register("test/Sampling-v0", f"{MODULE}:Sampling")
    gym.register("test/LyingParts-v0", f"{MODULE}:LyingParts")
    gym.register("test/Unseeded-v0", f"{MODULE}:Unseeded")
    gym.register("test/Troubled-v0", f"{MODULE}:Troubled")
    gym.register("test/Crashing-v0", f"{MODULE}:Troubled", kwargs={"trouble": "crash"})
    gym.register("test/Hanging-v0", f"{MODULE}:Troubled", kwargs={"trouble": "hang"})
    gym.register("test/Dying-v0", f"{MODULE}:Troubled", kwargs={"trouble": "kill"})
    gym.register("test/Leaky-v0", f"{MODULE}:Leaky")
    gym.register("test/Slow-v0", f"{MODULE}:Slow")
    gym.register("test/Masked-v0", f"{MODULE}:Masked")
    gym.register("test/Pad-v0", f"{MODULE}:Pad")
    gym.register("test/Paid-v0", f"{MODULE}:Paid")
    gym.register("test/Stuck-v0", f"{MODULE}:Stuck")
    gym.register("test/Ruinous-v0", f"{MODULE}:Ruinous")
    gym.register("test/Varied-v0", f"{MODULE}:Varied")
    for name in OBSERVATIONS:
        gym.register(f"test/{name}Observation-v0", f"{MODULE}:Spaces", kwargs={"observation": name})
    for name in ACTIONS:
        gym.register(f"test/{name}Action-v0", f"{MODULE}:Spaces", kwargs={"action": name})
    late = Signal("half of the step index", lambda state, action, following: following[:, 0] / 2.0)
    gym.register("lonely/Lonely-v0", f"{MODULE}:Lonely")
    SUITES.register("lonely/", LonelySuite)
    SHAPERS.register("test/Counting-v0", Shaper(1, {"late": late}))


_register()
