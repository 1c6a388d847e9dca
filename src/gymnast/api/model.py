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
from gymnast.api.arguments import WrongArgument, argument_errors
from gymnast.api.callbacks import Callbacks
from gymnast.api.files import File, excluded, write
from gymnast.api.learning import learn, set_envs, whole
from gymnast.api.names import Names
from gymnast.api.policies import policy_and_env
from gymnast.api.predicting import one_action, refuse_nan
from gymnast.api.settings import moved_to, new_config
from gymnast.api.sources import EnvSource, Spaces, source_of
from gymnast.api.vec_env import VecEnv
from gymnast.config import RunConfig
from gymnast.core.errors import UserError
from gymnast.core.registry import ALGOS
from gymnast.core.seeds import derive_seed
from gymnast.core.trust import made_on
from gymnast.envs import types
from gymnast.envs.spaces import mask_parts
from gymnast.envs.types import Obs
from gymnast.metrics.meter import Meter
from gymnast.runs.checkpoint import Checkpoint
from gymnast.runs.references import Run
from gymnast.runs.saved_agent import SavedAgent
from gymnast.training.build import build
from gymnast.training.loop import Result
from gymnast.training.record import solved_threshold
from gymnast.training.state import TrainState, restore, save_state

PREDICT_RNG = "rng/predict"
WINDOW = 100  # episodes that training scores are means of


class Model(Names):
    """What the models of all algorithms have in common.

    `env`: an env's id ("CartPole-v1": stable-baselines3's defaults; "CartPole-v1:ppo": a preset), a gymnasium.Env, a
    function that makes one, or what `make_vec_env` returns. Keywords are those of the algorithm and of the agent in a
    config, and n_envs, seed, device; `set={"eval.every": 5000}` reaches any other key. `verbose=1` shows the run on
    the console, `runs_dir` keeps it in a folder there, as `gymnast train` does.
    """

    algo: ClassVar[str]
    _session: TrainState | None = None
    callbacks: Callbacks | None = None  # of the last learn()
    tensorboard_log: str | Path | None = None  # folder of event files, for runs without a folder of their own

    @argument_errors
    def __init__(
        self,
        policy: Any = None,
        env: Any = None,
        *,
        verbose: int = 0,
        runs_dir: str | Path | None = None,
        tensorboard_log: str | Path | None = None,
        stats_window_size: int = WINDOW,
        **keywords: Any,
    ) -> None:
        name = type(self).__name__
        if tensorboard_log is not None and runs_dir is not None:
            raise UserError(
                f"{name}(tensorboard_log=...): a run in a folder has its events there, by "
                "set={'log.sinks': ['jsonl', 'tensorboard']}; leave tensorboard_log or runs_dir out."
            )
        policy, env = policy_and_env(name, policy, env)
        config, source, variant = new_config(name, self.algo, source_of(env), policy, keywords)
        self._begin(config, source, Spaces.of(config.env, source), verbose, runs_dir, variant)
        self.tensorboard_log, self._window = tensorboard_log, whole("stats_window_size", stats_window_size)
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
        self._window = WINDOW if saved is None else saved.about.get("window", WINDOW)
        self._saved = saved  # what the session will be restored from, once there is one
        self._loaded: SavedAgent | None = None  # of a loaded model whose envs are not built yet
        self._vec_env: VecEnv | None = None
        self.generator = torch.Generator().manual_seed(derive_seed(config.train.seed, "predict"))

    def _build(self, source: EnvSource) -> TrainState:
        if self._saved is not None:
            self._saved.require_training_state()
        session = build(self.config, _threshold(self.config, source), source.factory)
        session.meter = Meter(self._window, session.meter.thresholds)
        about = {"env": "id" if source.is_id else "object", "window": self._window, "made_on": made_on()}
        session.about = self.spaces.to_json() | about
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
    def agent(self) -> Agent:
        """Network, distribution and normaliser."""
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
        return self.agent.device

    @property
    def num_timesteps(self) -> int:
        """Env steps trained for, summed over envs."""
        if self._session is not None:
            return self._session.counters.env_steps + (self.callbacks.in_rollout if self.callbacks else 0)
        return int(self._saved.state["counters"]["env_steps"]) if self._saved else 0

    @num_timesteps.setter
    def num_timesteps(self, steps: int) -> None:
        self.session.counters.env_steps = whole("num_timesteps", steps, least=0)

    @property
    def observation_space(self) -> gym.Space[Any]:
        return self.spaces.observation

    @property
    def action_space(self) -> gym.Space[Any]:
        return self.spaces.action

    @property
    def n_envs(self) -> int:
        return self.config.env.n_envs

    @argument_errors
    def learn(
        self,
        total_timesteps: int,
        callback: Any = None,
        log_interval: int | None = None,
        tb_log_name: str | None = None,
        reset_num_timesteps: bool = True,
        progress_bar: bool = False,
    ) -> Self:
        """Trains for that many env steps, rounded up to whole rollouts, and returns the model. Ctrl-C ends it early.

        Called again it goes on with the same agent and optimizer: with `reset_num_timesteps` as a new run (counters,
        schedules and episodes start again), without it exactly where it stopped. `callback`: a function of a row of
        metrics, one of (locals, globals) at every step, an object like stable-baselines3's callbacks, or a list of
        them; it looks, and stops training by returning False (`gymnast.api.callbacks` says when each is called). A
        row comes every `log_interval` updates. `tb_log_name`: of the folder in the model's `tensorboard_log`.
        """
        shown = bool(self.verbose) or progress_bar
        learn(self, total_timesteps, callback, log_interval, tb_log_name, reset_num_timesteps, shown)
        return self

    @argument_errors
    def predict(
        self,
        observation: Any,
        state: Any = None,
        episode_start: Any = None,
        deterministic: bool = False,
        action_masks: Any = None,
    ) -> tuple[Any, Any]:
        """The action for an observation, or actions for a batch of them, as arrays that the env takes; and the state
        to pass with the next ones.

        `state` is what an agent with memory remembers: None, or what the previous call returned. `episode_start` says
        for each env whether an episode starts, and what was remembered is forgotten.
        """
        if isinstance(observation, tuple) and not isinstance(self.observation_space, gym.spaces.Tuple):
            raise WrongArgument(
                "predict() takes the observation alone, and got a tuple: mixing Gym API and VecEnv API? With a "
                "gymnasium.Env write obs, info = env.reset(); model.predict(obs)."
            )
        batch, single = self.spaces.layout.to_batch(observation)
        refuse_nan(batch)
        count, device = len(next(iter(batch.values()))), self.device
        mask = starts = None
        if action_masks is not None:
            mask = self._checked_mask(action_masks, count)
        if state is not None and self.agent.has_memory:
            starts = self._checked_memory(state, episode_start, count)
        obs = {key: torch.from_numpy(array).to(device) for key, array in self._seen(batch).items()}
        acted = self.agent.act(
            obs, state if self.agent.has_memory else None, starts, mask, None if deterministic else self.generator
        )
        actions = self._for_env(self.agent.head.to_env(acted.action.cpu().numpy()))
        return (one_action(actions) if single else actions), acted.state if self.agent.has_memory else state

    def _seen(self, batch: Obs) -> Obs:
        """Observations of the env as the agent sees them."""
        return batch

    def seen_by_agent(self, env: types.VecEnv) -> types.VecEnv:
        """Envs as the agent sees them."""
        return env

    def _checked_mask(self, action_masks: Any, count: int) -> torch.Tensor:
        """[observations, entries]; each component must allow something."""
        mask, needed = np.array(action_masks, bool), self.agent.head.n_mask
        if not needed or mask.size != count * needed:
            takes = (
                f"{needed} entries for each of {count} observations" if needed else "no masks for continuous actions"
            )
            raise UserError(f"predict(action_masks=...): has shape {mask.shape}, and this agent takes {takes}.")
        mask = mask.reshape(count, needed)
        allowed = np.logical_or.reduceat(mask, mask_parts(self.action_space), axis=1)
        if not allowed.all():
            row, part = np.argwhere(~allowed)[0]
            raise UserError(f"predict(action_masks=...): observation {row} allows nothing in component {part}.")
        return torch.from_numpy(mask).to(self.device)

    def _checked_memory(self, state: Any, episode_start: Any, count: int) -> torch.Tensor | None:
        """What an agent with memory is given must fit the observations, row by row."""
        expected = self.agent.initial_state(count)
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
        return int(torch.randint(2**31, (1,), generator=self.generator).item())

    def get_env(self) -> Any:
        """The envs that are trained on. Once they were stepped by hand, training begins new episodes."""
        vector = None if self.source is None else self.source.vector
        return self.own_env() if vector is None else vector

    env = property(get_env)

    def own_env(self) -> VecEnv:
        """The envs of the run, in the shape for scripts."""
        if self._vec_env is None:
            env = self.session.env
            assert self.source is not None
            self._vec_env = VecEnv(self.source, self.spaces, env.n_envs, lambda _: env)
            self._vec_env.seed(derive_seed(self.config.train.seed, "get_env"))
        return self._vec_env

    @argument_errors
    def set_env(self, env: Any, force_reset: bool = True) -> None:
        """Trains on other envs from now on; their spaces must be the same. New episodes begin; only where `env` is
        what the model has already do those under way go on, without `force_reset`."""
        if env is self._vec_env and env is not None and not force_reset:
            return
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
        self.config, self.source, self._vec_env, self.continues = config, source, None, False
        if self._session is None:
            self._session = self._build(source)

    @argument_errors
    def save(self, path: File, exclude: Any = None, include: Any = None) -> None:
        """Everything in one file: agent, optimizer, normaliser, counters, episodes under way. No pickle.

        `path`: "m" is written to m.zip, an archive with model.safetensors in it, "m.safetensors" to that file alone; or
        a file that is open for writing bytes. `exclude` may leave out `verbose`; the rest belongs to a model.
        """
        left_out = excluded(type(self).__name__, exclude, include)
        if self.source is not None:
            tensors, state = save_state(self.session)
        else:  # its envs cannot be made, so nothing has moved since it was loaded
            assert self._saved is not None
            tensors, state = self._saved.tensors, self._saved.state
        if "verbose" not in left_out:
            state = state | {"about": state["about"] | {"verbose": self.verbose}}
        tensors = tensors | {PREDICT_RNG: self.generator.get_state()}
        write(path, tensors, state, self.metrics)

    @classmethod
    def load(cls, path: File, env: Any = None, **keywords: Any) -> Self:
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


def _threshold(config: RunConfig, source: EnvSource) -> float | None:
    """The mean return that counts as solved; an object's is known where the config says so."""
    if source.is_id:
        return solved_threshold(config, configs.load_facts(config.env.id))
    return config.stop.threshold
