"""Trains with stable-baselines3, in whatever interpreter has it, as `gymnast speed` and `gymnast benchmark` ask for it.

Work of a `gymnast.jobs` worker, loaded by path, so nothing of Gymnast is imported. `channel` brings jobs and takes
answers; `spec` says what to train.
"""

from __future__ import annotations

import copy
import importlib
import sys
import time
from collections.abc import Callable
from typing import Any

ENDLESS = 10**12  # steps of a run that is measured in windows: its schedules stand at their start
EVAL_ENVS = 8
REPORT_SECONDS = 1.0  # between two events about how far a run is


class UserError(Exception):
    """What it says is for users as it stands."""


try:
    import gymnasium as gym
    import numpy as np
    import stable_baselines3 as sb3
    import torch
    from stable_baselines3.common.atari_wrappers import AtariWrapper
    from stable_baselines3.common.callbacks import BaseCallback
    from stable_baselines3.common.evaluation import evaluate_policy
    from stable_baselines3.common.monitor import Monitor
    from stable_baselines3.common.vec_env import (
        DummyVecEnv,
        VecEnv,
        VecFrameStack,
        VecNormalize,
        VecTransposeImage,
        sync_envs_normalization,
    )
except ImportError as error:
    advice = f"Run: {sys.executable} -m pip install stable-baselines3"
    raise UserError(f"{sys.executable} cannot import {error.name}. {advice}") from error

DEFAULT_THREADS = torch.get_num_threads()


def import_atari() -> None:
    """The games, and what stable-baselines3 shrinks their pictures with."""
    try:
        import ale_py

        importlib.import_module("cv2")
    except ImportError as error:
        advice = f"Run: {sys.executable} -m pip install {'opencv-python-headless' if error.name == 'cv2' else 'ale-py'}"
        raise UserError(f"{sys.executable} cannot import {error.name}. {advice}") from error
    gym.register_envs(ale_py)


def make_env(spec: dict[str, Any], training: bool) -> gym.Env[Any, Any]:
    settings = spec["env"]
    kwargs = dict(settings["kwargs"])
    if settings["max_episode_steps"] is not None:
        kwargs["max_episode_steps"] = settings["max_episode_steps"]
    atari = settings["atari"]
    if atari is not None:
        import_atari()
    env: gym.Env[Any, Any] = Monitor(gym.make(settings["id"], **kwargs))
    if atari is not None:
        env = AtariWrapper(env, **{**atari, "terminal_on_life_loss": atari["terminal_on_life_loss"] and training})
    if settings["rescale_actions"] and isinstance(env.action_space, gym.spaces.Box):
        env = gym.wrappers.RescaleAction(env, np.float32(-1), np.float32(1))
    scale, clip = settings["reward_scale"], settings["reward_clip"]
    if scale != 1.0 or clip is not None:
        limit = float("inf") if clip is None else clip
        env = gym.wrappers.TransformReward(env, lambda reward: min(max(float(reward) * scale, -limit), limit))
    return env


def make_vec(spec: dict[str, Any], n_envs: int, seed: int, training: bool = True) -> VecEnv:
    makers: list[Callable[[], gym.Env[Any, Any]]] = [lambda: make_env(spec, training) for _ in range(n_envs)]
    env: VecEnv = DummyVecEnv(makers)
    env.seed(seed)
    if spec["env"]["frame_stack"]:
        env = VecTransposeImage(VecFrameStack(env, spec["env"]["frame_stack"]))
    if spec["env"]["normalize"]:
        env = VecNormalize(env, training=training, **spec["env"]["normalize"])
    return env


def scheduled(value: Any) -> Any:
    """A number, or a callable of the share of training that is left, as stable-baselines3 asks for it."""
    if not isinstance(value, dict):
        return value
    progress, values = zip(*value["points"], strict=True)
    return lambda remaining: float(np.interp(1.0 - remaining, progress, values))


def make_model(spec: dict[str, Any], seed: int) -> Any:
    env = make_vec(spec, spec["env"]["n_envs"], seed)
    policy = spec["policy"]
    if policy == "MlpPolicy" and isinstance(env.observation_space, gym.spaces.Dict):
        policy = "MultiInputPolicy"
    network = dict(spec["policy_kwargs"])
    if "activation_fn" in network:
        network["activation_fn"] = getattr(torch.nn, network["activation_fn"])
    arguments = {name: scheduled(value) for name, value in spec["arguments"].items()}
    algorithm = getattr(sb3, spec["algorithm"])
    return algorithm(policy, env, policy_kwargs=network, seed=seed, verbose=0, **arguments)


def peak_memory() -> float:
    """Megabytes."""
    import resource

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / 1e6 if sys.platform == "darwin" else peak / 1e3


class Windows(BaseCallback):
    """One endless training run; between two updates it answers how far the last window got, and waits for the next."""

    def __init__(self, channel: Any) -> None:
        super().__init__()
        self.channel = channel
        self.began_with, self.began = 0, 0.0
        self.length: float | None = None

    def _on_rollout_start(self) -> None:
        now = time.perf_counter()
        if not self.num_timesteps:  # the first iteration warms everything up
            return
        if self.length is None:
            self.channel.ready(version=sb3.__version__, torch=torch.__version__, threads=DEFAULT_THREADS)
        elif now - self.began < self.length:
            return
        else:
            steps = self.num_timesteps - self.began_with
            self.channel.result({"steps": steps, "seconds": now - self.began, "memory_mb": peak_memory()})
        asked, _ = next(self.channel)
        torch.set_num_threads(asked["threads"] or DEFAULT_THREADS)
        self.length, self.began_with, self.began = asked["seconds"], self.num_timesteps, time.perf_counter()

    def _on_step(self) -> bool:
        return True


class Benchmark(BaseCallback):
    """Gymnast's rules of evaluating and judging: an evaluation after the update that passes each `every` steps, a
    verdict on fresh episodes when it reaches the threshold, and one on the best agent in the end. Their time does not
    count. With no `verdict_episodes` an evaluation that reaches the threshold is enough."""

    def __init__(self, channel: Any, eval_env: VecEnv, asked: dict[str, Any]) -> None:
        super().__init__()
        self.channel, self.eval_env, self.asked = channel, eval_env, asked
        self.next_evaluation = asked["every"]
        self.began = self.reported = time.perf_counter()
        self.judging = 0.0
        self.curve: list[tuple[int, float, float]] = []
        self.best = -np.inf
        self.best_agent: tuple[dict[str, Any], Any] | None = None
        self.solved_at: tuple[int, float] | None = None
        self.verdict: list[float] | None = None

    def score(self, episodes: int) -> list[float]:
        returns, _ = evaluate_policy(
            self.model, self.eval_env, episodes, deterministic=True, return_episode_rewards=True
        )
        return [float(value) for value in np.asarray(returns)]

    def evaluate(self) -> None:
        before = time.perf_counter()
        seconds = before - self.began - self.judging
        self.next_evaluation = (self.num_timesteps // self.asked["every"] + 1) * self.asked["every"]
        sync_envs_normalization(self.training_env, self.eval_env)
        mean = float(np.mean(self.score(self.asked["episodes"])))
        self.curve.append((self.num_timesteps, mean, seconds))
        if mean >= self.best:
            weights = {name: tensor.clone() for name, tensor in self.model.policy.state_dict().items()}
            self.best, self.best_agent = mean, (weights, copy.deepcopy(getattr(self.eval_env, "obs_rms", None)))
        if self.asked["threshold"] is not None and self.solved_at is None and mean >= self.asked["threshold"]:
            self.judge(seconds)
        self.judging += time.perf_counter() - before

    def judge(self, seconds: float) -> None:
        episodes, threshold = self.asked["verdict_episodes"], self.asked["threshold"]
        self.verdict = self.score(episodes) if episodes else [self.curve[-1][1]]
        if threshold is not None and self.solved_at is None and np.mean(self.verdict) >= threshold:
            self.solved_at = self.num_timesteps, seconds

    def finish(self) -> dict[str, Any]:
        """The last evaluation, the last agent's score where it is asked for, and the best agent's verdict."""
        seconds = time.perf_counter() - self.began - self.judging
        final = None
        if not self.done:
            if not self.curve or self.curve[-1][0] < self.num_timesteps:
                self.evaluate()
            final = self.score(self.asked["verdict_episodes"]) if self.asked["final"] else None
        if not self.done and self.best_agent is not None and self.asked["verdict_episodes"]:
            weights, obs_rms = self.best_agent
            self.model.policy.load_state_dict(weights)
            if obs_rms is not None:
                self.eval_env.obs_rms = obs_rms  # type: ignore[attr-defined]
            self.judge(seconds)
        return {
            "env_steps": self.curve[-1][0],
            "seconds": self.curve[-1][2],
            "verdict": self.verdict,
            "final": final,
            "solved_at": self.solved_at,
            "curve": self.curve,
        }

    @property
    def done(self) -> bool:
        return bool(self.asked["on_solved"]) and self.solved_at is not None

    def _on_training_start(self) -> None:
        self.began = time.perf_counter()

    def _on_rollout_start(self) -> None:
        if self.num_timesteps >= self.next_evaluation:
            self.evaluate()
        if (now := time.perf_counter()) - self.reported > REPORT_SECONDS:
            self.reported = now
            self.channel.event(steps=self.num_timesteps)

    def _on_step(self) -> bool:
        return not self.done


class FirstUpdate(BaseCallback):
    """When the first update was done, by the clock that other processes share."""

    at: float | None = None

    def _on_rollout_start(self) -> None:
        if self.num_timesteps and self.at is None:
            self.at = time.time()

    def _on_step(self) -> bool:
        return True


def windows(channel: Any, spec: dict[str, Any]) -> None:
    """Answers requests for windows, for as long as there are any."""
    make_model(spec, spec["seed"]).learn(ENDLESS, Windows(channel), log_interval=spec["log_interval"])


def benchmark(channel: Any, spec: dict[str, Any], asked: dict[str, Any]) -> dict[str, Any]:
    """A whole run, judged as ours are."""
    torch.set_num_threads(asked["threads"] or DEFAULT_THREADS)
    model = make_model(spec, asked["seed"])
    eval_env = make_vec(spec, min(EVAL_ENVS, asked["episodes"]), asked["seed"] + 10_000, training=False)
    watch = Benchmark(channel, eval_env, asked)
    model.learn(spec["total_timesteps"], watch, log_interval=spec["log_interval"])
    packages = {"stable-baselines3": sb3, "torch": torch, "gymnasium": gym, "numpy": np}
    versions = {name: package.__version__ for name, package in packages.items()}
    return watch.finish() | {"versions": {"python": sys.version.split()[0]} | versions}


def once(channel: Any, spec: dict[str, Any]) -> dict[str, Any]:
    """A whole run from Enter to its end."""
    asked, _ = next(channel)
    torch.set_num_threads(asked["threads"] or DEFAULT_THREADS)
    watch = FirstUpdate()
    make_model(spec, spec["seed"]).learn(asked["steps"], watch, log_interval=spec["log_interval"])
    return {"first_update_at": watch.at or time.time(), "threads": DEFAULT_THREADS}
