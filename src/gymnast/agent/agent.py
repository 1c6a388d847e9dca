"""The agent: what acts, and all it needs to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import gymnasium as gym
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from gymnast.agent.batch import VALUE, Batch, Outputs
from gymnast.agent.bodies.mlp import orthogonal
from gymnast.agent.bodies.norms import measure
from gymnast.agent.heads import GaussianHead, State, make_head
from gymnast.agent.memory import Memory
from gymnast.agent.normalizer import ObsNormalizer, RewardNormalizer
from gymnast.agent.tasks import TaskEncoder, make_task_head
from gymnast.agent.tracker.tracker import Tracker
from gymnast.core.registry import ENCODERS
from gymnast.core.tasks import TASK, TaskSpaces

if TYPE_CHECKING:
    from gymnast.config import AgentConfig

TensorObs = dict[str, Tensor]
ArrayObs = dict[str, NDArray[Any]]


def not_finite(tensors: Mapping[str, Tensor]) -> list[str]:
    """Names of those that hold a number which is none, or is infinite."""
    return [name for name, one in tensors.items() if one.is_floating_point() and not bool(one.isfinite().all())]


class Acted(NamedTuple):
    action: Tensor
    logp: Tensor
    values: dict[str, Tensor]
    state: State


class Agent(nn.Module):
    """Tracker, normaliser, bodies, memory and heads. `act` step by step and `evaluate` on the sequence agree.

    Whatever lasts between steps is in `state`, one row an env, and belongs to the caller: {} where nothing lasts.
    `values`: the names of what is estimated in addition to the policy.
    """

    def __init__(
        self,
        obs_space: dict[str, gym.Space[Any]],
        action_space: gym.Space[Any],
        cfg: AgentConfig,
        gamma: float,
        values: Sequence[str] = (VALUE,),
        reward_scales: Sequence[float] = (1.0,),
        tasks: TaskSpaces | None = None,
        shown_actions: Sequence[str] = (),
    ) -> None:
        """`reward_scales`: one a task. `tasks`: several that it is for; None: one. `shown_actions`: those that pictures
        have marks for, which a tracker reads."""
        super().__init__()
        self.cfg, self.value_names, self.reward_scales, self.tasks = cfg, tuple(values), list(reward_scales), tasks
        self.obs_space, self.action_space = obs_space, action_space
        self.tracker = None if cfg.track is None else Tracker.of(obs_space, cfg.track, shown_actions)
        if self.tracker is not None:
            obs_space = dict.fromkeys(obs_space, self.tracker.space)
        self.seen_space = obs_space  # of what is learned from, and what rollouts keep: the objects found in pictures
        owners = {} if tasks is None else tasks.owners
        self.normalizer = ObsNormalizer(obs_space, cfg.clip_obs, owners) if cfg.normalize_obs else None
        self.reward_normalizer = self.reward_normalizers = None
        if cfg.normalize_reward and tasks is None:
            self.reward_normalizer = RewardNormalizer(gamma, cfg.clip_reward)
        elif cfg.normalize_reward:  # the rewards of different tasks are of different sizes
            self.reward_normalizers = nn.ModuleList(RewardNormalizer(gamma, cfg.clip_reward) for _ in reward_scales)
        encoder: Any = ENCODERS.get(cfg.encoder)
        if tasks is not None and not tasks.alike:
            encoder = TaskEncoder.of(tasks)
        critic_cfg = cfg if cfg.critic_hidden is None else cfg.model_copy(update={"hidden": cfg.critic_hidden})
        self.actor_body = encoder(obs_space, cfg)
        self.critic_body = None if cfg.shared else encoder(obs_space, critic_cfg)
        width = self.actor_body.out_features
        critic_width = width if self.critic_body is None else self.critic_body.out_features
        self.actor_memory = self.critic_memory = None
        if cfg.memory is not None:
            self.actor_memory = Memory(width, cfg)
            self.critic_memory = None if cfg.shared else Memory(critic_width, cfg)
            width = critic_width = cfg.memory_size
        if tasks is None or tasks.alike:
            self.head = make_head(action_space, cfg, width)
        else:
            self.head = make_task_head(action_space, tasks, cfg)
        # A gain of 0.01 starts the policy near uniform (or near a zero mean): nothing is preferred before learning.
        self.actor_out = orthogonal(nn.Linear(width, self.head.n_outputs), 0.01, cfg)
        self.critic_out = orthogonal(nn.Linear(critic_width, len(self.reward_scales)), 1.0, cfg)  # one a task
        others = self.value_names[1:]
        self.critic_outs = nn.ModuleDict({name: orthogonal(nn.Linear(critic_width, 1), 1.0, cfg) for name in others})

    @property
    def device(self) -> torch.device:
        return self.critic_out.weight.device

    @property
    def has_memory(self) -> bool:
        return self.actor_memory is not None

    def initial_state(self, n: int) -> State:
        """Of n envs that start an episode."""
        return self.head.initial_state(n) | self.remembered(n)

    def remembered(self, n: int) -> State:
        """The part of the state that `evaluate` needs before a sequence: the memories', not the head's noise."""
        return {
            f"{owner}.{part}": rows
            for owner, memory in self._memories().items()
            for part, rows in memory.initial_state(n).items()
        }

    @torch.no_grad()
    def act(
        self,
        obs: TensorObs,
        state: State | None = None,
        starts: Tensor | None = None,
        mask: Tensor | None = None,
        sample: torch.Generator | None = None,
    ) -> Acted:
        """One step of N envs: sampled actions, or the likeliest without a generator, their log-probabilities, values.

        `state`: what the previous call returned; None: all envs start. `starts` [N]: which envs start an episode.
        """
        actor, critic, state = self._step(obs, state, starts)
        action, logp, state = self.head.act(self._outputs(actor, obs, mask), sample, state)
        return Acted(action, logp, self._values(critic, obs), state)

    def evaluate(self, batch: Batch) -> Outputs:
        """Log-probability and entropy of the actions taken, and values, all with gradients."""
        actor, critic = self._features(batch)
        obs = batch.obs
        logp, entropy = self.head.evaluate(self._outputs(actor, obs, batch.mask), batch["action"])
        return Outputs(logp, entropy, self._values(critic, obs))

    @torch.no_grad()
    def describe(self, batch: Batch) -> dict[str, Tensor]:
        """What it thinks of observations, for people: `value` [B] in the env's own reward, and its choices as
        `probability`, or as `mean` and `std`."""
        actor, critic = self._features(batch)
        obs = batch.obs
        choices = self.head.describe(self._outputs(actor, obs, batch.mask))
        return {VALUE: self.to_env(self._values(critic, obs)[VALUE], obs.get(TASK)), **choices}

    @torch.no_grad()
    def values(self, obs: TensorObs, state: State | None = None, starts: Tensor | None = None) -> dict[str, Tensor]:
        """What each value estimates for N envs that are about to act."""
        return self._values(self._step(obs, state, starts)[1], obs)

    def measure(self, obs: TensorObs) -> None:
        """Moves the statistics of norms, where there are any, by what these observations give."""
        rows = len(next(iter(obs.values())))
        measure(self, rows, lambda some: self._bodies({key: leaf[some].to(self.device) for key, leaf in obs.items()}))

    def to_env(self, value: Tensor, task: Tensor | None = None) -> Tensor:
        """A value in the env's own reward: scaling and normalisation of the learner's reward undone."""
        if self.tasks is not None and task is not None:
            scales = value.new_tensor(self.reward_scales)
            if self.reward_normalizers is not None:
                scales = scales * torch.stack(
                    [cast(RewardNormalizer, each).moments.scale for each in self.reward_normalizers]
                )
            return value / scales[task]
        value = value / self.reward_scales[0]
        return value if self.reward_normalizer is None else value / self.reward_normalizer.moments.scale

    @property
    def is_finite(self) -> bool:
        """Whether all weights and statistics are numbers. An agent whose training has diverged decides nothing."""
        return not not_finite(self.state_dict())

    def std(self) -> Tensor | None:
        """The Gaussian's standard deviation where it is a parameter: worth charting."""
        if isinstance(self.head, GaussianHead) and not self.head.state_dependent:
            return self.head.std().detach().mean()
        return None

    def parts(self) -> dict[str, list[nn.Parameter]]:
        """Parameters by what they serve, for gradient norms."""
        shared = self.critic_body is None
        groups: dict[str, list[nn.Parameter]] = {part: [] for part in ("actor", "critic", "shared")[: 2 + shared]}
        for name, parameter in self.named_parameters():
            if name.startswith(("actor_body", "actor_memory")) and shared:
                groups["shared"].append(parameter)
            else:
                groups["critic" if name.startswith("critic") else "actor"].append(parameter)
        return groups

    def _memories(self) -> dict[str, Memory]:
        memories = {"actor": self.actor_memory, "critic": self.critic_memory}
        return {owner: memory for owner, memory in memories.items() if memory is not None}

    def watch(self, obs: ArrayObs) -> ArrayObs:
        """What a rollout keeps of observations."""
        return obs if self.tracker is None else {key: self.tracker.watch(pictures) for key, pictures in obs.items()}

    def tracked(self, obs: TensorObs) -> TensorObs:
        """Observations, or the objects found in them."""
        return obs if self.tracker is None else {key: self.tracker(pictures) for key, pictures in obs.items()}

    def inputs(self, obs: TensorObs) -> TensorObs:
        """What the bodies get of observations."""
        obs = self.tracked(obs)
        return obs if self.normalizer is None else self.normalizer(obs)

    def _bodies(self, obs: TensorObs) -> dict[str, Tensor]:
        """What the bodies make of observations, by whose it is; without one of its own the critic takes the actor's."""
        obs = self.inputs(obs)
        features = {"actor": self.actor_body(obs)}
        return features if self.critic_body is None else features | {"critic": self.critic_body(obs)}

    def _step(self, obs: TensorObs, state: State | None, starts: Tensor | None) -> tuple[Tensor, Tensor, State]:
        """Features of actor and critic for one step, and the next state."""
        if state is None:
            state, starts = self.initial_state(len(next(iter(obs.values())))), None
        features = self._bodies(obs)
        for owner, memory in self._memories().items():
            mine = {part: state[f"{owner}.{part}"] for part in memory.parts}
            begins = features[owner].new_zeros(len(features[owner]), dtype=torch.bool) if starts is None else starts
            features[owner], mine = memory.step(features[owner], mine, begins)
            state = state | {f"{owner}.{part}": rows for part, rows in mine.items()}
        return features["actor"], features.get("critic", features["actor"]), state

    def _features(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """Of samples, or of whole sequences where there is a memory."""
        features = self._bodies(batch.obs)
        for owner, memory in self._memories().items():
            mine = {part: batch.state[f"{owner}.{part}"] for part in memory.parts}
            features[owner] = memory.sequences(features[owner], mine, batch["starts"])
        return features["actor"], features.get("critic", features["actor"])

    def _outputs(self, features: Tensor, obs: TensorObs, mask: Tensor | None) -> Tensor:
        """What the head takes."""
        out = self.actor_out(features)
        if self.tasks is not None:
            out = self.head.of_task(out, obs[TASK])
        return self.head.outputs(out, features, mask)

    def _values(self, features: Tensor, obs: TensorObs) -> dict[str, Tensor]:
        """The value of the env's reward is that of each row's own task; others are the same for all."""
        value = self.critic_out(features)
        value = value.squeeze(1) if self.tasks is None else value.gather(1, obs[TASK][:, None]).squeeze(1)
        return {VALUE: value} | {name: out(features).squeeze(1) for name, out in self.critic_outs.items()}
