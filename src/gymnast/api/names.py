"""What stable-baselines3's models have in addition to training, predicting and saving, by its names."""

from __future__ import annotations

import warnings
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar, Self

import torch

from gymnast.agent.agent import Agent
from gymnast.api.logger import Logger
from gymnast.api.policy import Policy, refuse_other
from gymnast.api.sources import Spaces
from gymnast.api.views import RolloutView, episode_infos, episode_successes
from gymnast.config import RunConfig
from gymnast.config.algos import settings_of
from gymnast.core.errors import Lacking, UserError, did_you_mean
from gymnast.core.schedule import Schedule
from gymnast.core.seeds import derive_seed
from gymnast.training.rows import Row
from gymnast.training.state import TrainState

if TYPE_CHECKING:
    from gymnast.api.vec_env import VecEnv

LONGEST_IN_A_TABLE = 33  # characters, without the section


class WrongParameters(UserError, ValueError):
    """Parameters of another model."""


class Scheduled(float):
    """A setting that may change over a run: the number at its start, and called the one where a share of it is left."""

    schedule: Schedule

    def __new__(cls, schedule: Schedule) -> Self:
        number = super().__new__(cls, schedule.value(0.0))
        number.schedule = schedule
        return number

    @property
    def __name__(self) -> str:
        """As a function has one: the schedule, as it is written in a config."""
        return str(self.schedule.to_form())

    def __call__(self, left: float) -> float:
        return float(self.schedule.value(1.0 - left))


class Names:
    """The half of a model that scripts written for stable-baselines3 ask for."""

    algo: ClassVar[str]
    config: RunConfig
    generator: torch.Generator
    spaces: Spaces
    _logger: Any = None
    continues = False  # whether episodes are under way that learn() has begun

    if TYPE_CHECKING:

        @property
        def session(self) -> TrainState: ...
        @property
        def agent(self) -> Agent: ...
        def get_env(self) -> Any: ...
        def own_env(self) -> VecEnv: ...
        @classmethod
        def load(cls, path: Any) -> Any: ...

    @property
    def policy(self) -> Any:
        """The agent, and what stable-baselines3's policies can do."""
        return Policy(self)  # type: ignore[arg-type]

    @policy.setter
    def policy(self, given: Any) -> None:
        warnings.warn(refuse_other(given, self.agent), stacklevel=2)

    def get_vec_normalize_env(self) -> Any:
        """stable-baselines3's VecNormalize, where the model was given one."""
        layer = self.get_env()
        while layer is not None and type(layer).__name__ != "VecNormalize":
            layer = vars(layer).get("venv")
        return layer

    @property
    def rollout_buffer(self) -> RolloutView:
        """The last rollout, to be read."""
        return RolloutView(self)  # type: ignore[arg-type]

    @property
    def ep_info_buffer(self) -> deque[dict[str, float]]:
        """Return and length of the last episodes."""
        return episode_infos(self)  # type: ignore[arg-type]

    @property
    def ep_success_buffer(self) -> deque[bool]:
        return episode_successes(self)  # type: ignore[arg-type]

    @property
    def _last_obs(self) -> Any:
        """What learn() acts on next; None: it begins new episodes."""
        collector = self.session.collector
        if not self.continues or self.own_env().used or collector.cut:
            return None
        return self.spaces.layout.to_raw(collector.now.obs)

    @property
    def logger(self) -> Any:
        """Where callbacks record numbers of their own: they come with the next row."""
        if self._logger is None:
            self._logger = Logger(self)  # type: ignore[arg-type]
        return self._logger

    def set_logger(self, logger: Any) -> None:
        """A logger of stable-baselines3's gets every row, too, and what callbacks record."""
        self._logger = logger

    def pass_on(self, row: Row) -> None:
        """A row to the logger that the user has set."""
        if self._logger is not None and not isinstance(self._logger, Logger):
            for name, value in row.items():
                # Its tables cut longer names, and refuse two that are then the same; files get all of them.
                is_long = len(name.partition("/")[2]) > LONGEST_IN_A_TABLE
                self._logger.record(name, value, exclude=("stdout", "log") if is_long else None)
            self._logger.dump(int(row["time/total_timesteps"]))

    def dump_logs(self, iteration: int = 0) -> None:
        """Nothing: training itself writes a row every `log_interval` updates."""

    def set_random_seed(self, seed: int | None = None) -> None:
        """Everything random from here on follows from this number; the envs begin new episodes."""
        if seed is not None:
            self.generator.manual_seed(derive_seed(seed, "predict"))
            self.session.collector.generator.manual_seed(derive_seed(seed, "actions"))
            self.session.restart_episodes(derive_seed(seed, "train"))
            self.own_env().seed(derive_seed(seed, "get_env"))

    def get_parameters(self) -> dict[str, dict[str, torch.Tensor]]:
        """Weights and statistics of the agent, and its optimizer's moments, by stable-baselines3's names of the two."""
        return {"policy": self.agent.state_dict(), "policy.optimizer": self.session.net.save_state()}

    def set_parameters(self, load_path_or_dict: Any, exact_match: bool = True, device: Any = "auto") -> None:
        """What `get_parameters` returned, or a file; without `exact_match` also a part of it."""
        given = load_path_or_dict
        if not isinstance(given, dict):
            given = type(self).load(given).get_parameters()
        known = self.get_parameters()
        wrong = [*(given.keys() - known.keys()), *(known.keys() - given.keys() if exact_match else ())]
        if wrong:
            raise WrongParameters(
                f"set_parameters: {', '.join(sorted(wrong))} does not match; a model has {', '.join(known)}, and "
                "exact_match=False takes a part of them."
            )
        if "policy" in given:
            self.agent.load_state_dict(given["policy"], strict=exact_match)
        if "policy.optimizer" in given:
            self.session.net.load_state(given["policy.optimizer"])

    @property
    def lr_schedule(self) -> Callable[[float], float]:
        """The learning rate by the share of the run that is left."""
        return Scheduled(self.config.algo.learning_rate)

    def __getattr__(self, name: str) -> Any:
        """Settings by their names, as stable-baselines3's models have them: model.gamma, model.n_steps."""
        config = vars(self).get("config")
        if config is not None and name in type(config.algo).model_fields:
            value = getattr(config.algo, name)
            return Scheduled(value) if isinstance(value, Schedule) else value
        if config is not None and name == "seed":
            return config.train.seed
        raise Lacking(
            f"{type(self).__name__} has no {name!r}.{did_you_mean(name, dir(type(self)))} The loop "
            "that trains is not made of methods (collect_rollouts, train): callbacks and rollout_buffer show it."
        )

    def __setattr__(self, name: str, value: Any) -> None:
        if name in settings_of(self.algo).model_fields:
            raise UserError(
                f"{type(self).__name__}.{name} = ...: the settings of a model cannot be changed. Save it, and load "
                f"it with the new value: {type(self).__name__}.load(path, {name}=...)."
            )
        known = getattr(type(self), name, None)
        if isinstance(known, property) and known.fset is None:
            raise UserError(f"{type(self).__name__}.{name} = ...: can be read and not be set.")
        super().__setattr__(name, value)
