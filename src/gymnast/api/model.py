"""Models: an algorithm, an agent and its envs in one object, in stable-baselines3's shape."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any, ClassVar, Self

import gymnasium as gym
import numpy as np
import torch
from numpy.typing import NDArray

from gymnast import config as configs
from gymnast.agent.agent import Agent
from gymnast.agent.nets import Net
from gymnast.api.learning import as_observer, learn, set_envs
from gymnast.api.settings import POLICIES, moved_to, new_config
from gymnast.api.sources import EnvSource, Spaces, source_of
from gymnast.api.vec_env import VecEnv
from gymnast.config import RunConfig
from gymnast.core.errors import UserError, did_you_mean
from gymnast.core.registry import ALGOS
from gymnast.core.seeds import derive_seed
from gymnast.runs import checkpoint
from gymnast.runs.checkpoint import Checkpoint
from gymnast.runs.references import CHECKPOINT_SUFFIX, Run
from gymnast.runs.saved_agent import SavedAgent
from gymnast.training.build import build
from gymnast.training.loop import Result
from gymnast.training.record import solved_threshold
from gymnast.training.rows import Observer
from gymnast.training.state import TrainState, restore, save_state

PREDICT_RNG = "rng/predict"


class Model:
    """What the models of all algorithms have in common.

    `env`: an env's id ("CartPole-v1": stable-baselines3's defaults; "CartPole-v1:ppo": a preset), a gymnasium.Env, a
    function that makes one, or what `make_vec_env` returns. Keywords are those of the algorithm and of the agent in a
    config, and n_envs, seed, device; `set={"eval.every": 5000}` reaches any other key. `verbose=1` shows the run on
    the console, `runs_dir` keeps it in a folder there, as `gymnast train` does.
    """

    algo: ClassVar[str]
    _session: TrainState | None = None

    def __init__(
        self,
        policy: Any = None,
        env: Any = None,
        *,
        verbose: int = 0,
        runs_dir: str | Path | None = None,
        **keywords: Any,
    ) -> None:
        name = type(self).__name__
        policy, env = _policy_and_env(name, policy, env)
        config, source, variant = new_config(name, self.algo, source_of(env), policy, keywords)
        self._begin(config, source, Spaces.of(config.env, source), verbose, runs_dir, variant)
        self._session = self._build(source)

    def _begin(
        self,
        config: RunConfig,
        source: EnvSource | None,
        spaces: Spaces,
        verbose: int,
        runs_dir: str | Path | None,
        variant: str | None = None,
        saved: Checkpoint | None = None,
    ) -> None:
        self.config, self.source, self.spaces = config, source, spaces
        self.verbose, self.runs_dir = verbose, runs_dir
        self.variant = variant  # of the preset it was made from
        self.run: Run | None = None  # the last learn()'s folder
        self.result: Result | None = None  # how the last learn() ended
        self.metrics: dict[str, float] = {}  # its last row
        self._saved = saved  # what the session will be restored from, once there is one
        self._loaded: SavedAgent | None = None  # of a loaded model whose envs are not built yet
        self._vec_env: VecEnv | None = None
        self._generator = torch.Generator().manual_seed(derive_seed(config.train.seed, "predict"))

    def _build(self, source: EnvSource) -> TrainState:
        if self._saved is not None:
            self._saved.require_training_state()
        session = build(self.config, _threshold(self.config, source), source.factory)
        session.about = self.spaces.to_json() | {"env": "id" if source.is_id else "object"}
        if self._saved is not None:
            restore(session, self._saved.tensors, self._saved.state)
        self._loaded = self._saved = None
        return session

    @property
    def session(self) -> TrainState:
        """Everything training moves. Built when it is first needed: a loaded model that only predicts needs no env."""
        if self._session is None:
            if self.source is None:
                raise UserError(
                    f"this model was trained on an object, {self.config.env.id}, which a file cannot hold. "
                    f"Load it with {type(self).__name__}.load(path, env=...) or call set_env(env)."
                )
            self._session = self._build(self.source)
        return self._session

    @property
    def policy(self) -> Agent:
        """The agent: network, distribution and normaliser."""
        return self.net.agent

    @property
    def net(self) -> Net:
        """What computes for the agent."""
        if self._session is not None:
            return self._session.net
        if self._loaded is None:
            assert self._saved is not None
            self._loaded = SavedAgent.build(self.config, self.spaces, self._saved.agent)
        return self._loaded.net

    @property
    def device(self) -> torch.device:
        return self.policy.device

    @property
    def num_timesteps(self) -> int:
        """Env steps trained for, summed over envs."""
        if self._session is not None:
            return self._session.counters.env_steps
        return int(self._saved.state["counters"]["env_steps"]) if self._saved else 0

    @property
    def observation_space(self) -> gym.Space[Any]:
        return self.spaces.observation

    @property
    def action_space(self) -> gym.Space[Any]:
        return self.spaces.action

    @property
    def n_envs(self) -> int:
        return self.config.env.n_envs

    def learn(
        self,
        total_timesteps: int,
        callback: Observer | None = None,
        log_interval: int | None = None,
        reset_num_timesteps: bool = True,
        progress_bar: bool = False,
    ) -> Self:
        """Trains for that many env steps, rounded up to whole rollouts, and returns the model. Ctrl-C ends it early.

        Called again it goes on with the same agent and optimizer: with `reset_num_timesteps` as a new run (counters,
        schedules and episodes begin anew), without it exactly where it stopped. `callback` is shown every row of
        metrics and cannot change anything; a row comes every `log_interval` updates.
        """
        observer = as_observer(callback)
        learn(self, total_timesteps, observer, log_interval, reset_num_timesteps, bool(self.verbose) or progress_bar)
        return self

    def predict(
        self,
        observation: Any,
        state: Any = None,
        episode_start: Any = None,
        deterministic: bool = False,
        action_masks: Any = None,
    ) -> tuple[Any, Any]:
        """The action for an observation, or actions for a batch of them, as the env takes them; and the state to pass
        with the next ones.

        `state` is what an agent with memory remembers: None, or what the previous call returned. `episode_start` says
        for each env whether an episode starts, and what was remembered is forgotten.
        """
        if isinstance(observation, tuple) and not isinstance(self.observation_space, gym.spaces.Tuple):
            raise UserError("predict() takes the observation alone: obs, info = env.reset(); model.predict(obs).")
        batch, single = self.spaces.layout.to_batch(observation)
        count, device = len(next(iter(batch.values()))), self.device
        mask = starts = None
        if action_masks is not None:
            mask = torch.from_numpy(np.array(action_masks, bool).reshape(count, -1)).to(device)
        if state is not None and self.policy.has_memory:
            starts = self._checked_memory(state, episode_start, count)
        obs = {key: torch.from_numpy(array).to(device) for key, array in batch.items()}
        acted = self.policy.act(
            obs, state if self.policy.has_memory else None, starts, mask, None if deterministic else self._generator
        )
        actions = self._for_env(self.policy.head.to_env(acted.action.cpu().numpy()))
        return (actions[0] if single else actions), acted.state if self.policy.has_memory else state

    def _checked_memory(self, state: Any, episode_start: Any, count: int) -> torch.Tensor | None:
        """What an agent with memory is given must fit the observations, row by row."""
        expected = self.policy.initial_state(count)
        fits = isinstance(state, dict) and state.keys() == expected.keys()
        if not fits or any(state[name].shape != rows.shape for name, rows in expected.items()):
            raise UserError(
                f"predict(state=...): must be None or what predict() returned for {count} observations at a time."
            )
        if episode_start is None:
            return None
        starts = np.array(episode_start, bool).reshape(-1)
        if len(starts) != count:
            raise UserError(f"predict(episode_start=...): has {len(starts)} entries for {count} observations.")
        return torch.from_numpy(starts).to(self.device)

    def _for_env(self, actions: NDArray[Any]) -> NDArray[Any]:
        layout = self.spaces.actions
        return np.asarray(layout.batch(actions, len(actions)) + layout.start, dtype=layout.source.dtype)

    def draw_seed(self) -> int:
        """A number that follows from the model's seed and is another one every time."""
        return int(torch.randint(2**31, (1,), generator=self._generator).item())

    def get_env(self) -> VecEnv:
        """The envs that are trained on. Once they were stepped by hand, training begins new episodes."""
        if self._vec_env is None:
            session = self.session
            assert self.source is not None
            self._vec_env = VecEnv(self.source, self.spaces, session.env.n_envs, lambda: session.env)
            self._vec_env.seed(derive_seed(self.config.train.seed, "get_env"))
        return self._vec_env

    def set_env(self, env: Any) -> None:
        """Trains on other envs from now on; their spaces must be the same."""
        source = source_of(env)
        config = moved_to(type(self).__name__, self.config, source)
        spaces = Spaces.of(config.env, source)
        if not spaces.fit(self.spaces):
            raise UserError(
                f"env: {source.name} does not fit this model: observations {spaces.observation} and actions "
                f"{spaces.action} instead of {self.observation_space} and {self.action_space}."
            )
        if self._session is not None:
            closes = self.source is not None and self.source.given is None
            set_envs(self._session, config, source, _threshold(config, source), closes)
            self._session.about["env"] = "id" if source.is_id else "object"
        self.config, self.source, self._vec_env = config, source, None
        if self._session is None:
            self._session = self._build(source)

    def save(self, path: str | Path) -> None:
        """Everything in one file: agent, optimizer, normaliser, counters, episodes under way. No pickle."""
        if self.source is not None:
            tensors, state = save_state(self.session)
        else:  # its envs cannot be made, so nothing has moved since it was loaded
            assert self._saved is not None
            tensors, state = self._saved.tensors, self._saved.state
        tensors = tensors | {PREDICT_RNG: self._generator.get_state()}
        file = with_suffix(path)
        file.parent.mkdir(parents=True, exist_ok=True)
        checkpoint.save(file, tensors, state, self.metrics, readable=False)

    @classmethod
    def load(cls, path: str | Path, env: Any = None, **keywords: Any) -> Self:
        """The model in a file, or in a run's checkpoint; `env` and keywords replace what it had."""
        from gymnast.api.loading import load

        model = load(path, env, **keywords)
        if not isinstance(model, cls):
            right = type(model).__name__
            raise UserError(f"{path} was trained by {right}. Load it with {right}.load or gymnast.load.")
        return model


@cache
def model_class(algo: str) -> type[Model]:
    """The class of an algorithm's models, named in capitals: `gymnast.PPO` is that of ppo."""
    return type(algo.upper(), (Model,), {"algo": algo, "__doc__": ALGOS.get(algo).__doc__, "__module__": "gymnast"})


def with_suffix(path: str | Path) -> Path:
    path = Path(path)
    return path if path.suffix == CHECKPOINT_SUFFIX else path.with_name(path.name + CHECKPOINT_SUFFIX)


def _threshold(config: RunConfig, source: EnvSource) -> float | None:
    """The mean return that counts as solved; an object's is known where the config says so."""
    if source.is_id:
        return solved_threshold(config, configs.load_facts(config.env.id))
    return config.stop.threshold


def _policy_and_env(model: str, policy: Any, env: Any) -> tuple[str | None, Any]:
    """stable-baselines3's two first arguments; the env alone will do."""
    if env is None:
        if policy is None or (isinstance(policy, str) and policy.endswith("Policy")):
            raise UserError(f"{model} needs an env: {model}('CartPole-v1') or {model}('MlpPolicy', env).")
        return None, policy
    if policy is None or (isinstance(policy, str) and policy in POLICIES):
        return policy, env
    hint = did_you_mean(policy, POLICIES) if isinstance(policy, str) else ""
    raise UserError(f"{model}: unknown policy {policy!r}.{hint} Known: {', '.join(POLICIES)}.")
