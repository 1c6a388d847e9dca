"""The agent: what acts, and all it needs to."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import gymnasium as gym
import torch
from torch import Tensor, nn

from gymnast.agent.bodies.mlp import orthogonal
from gymnast.agent.heads import GaussianHead, SDEHead, make_head
from gymnast.agent.normalizer import ObsNormalizer, RewardNormalizer
from gymnast.core.registry import ENCODERS

if TYPE_CHECKING:
    from gymnast.config import AgentConfig

TensorObs = dict[str, Tensor]


class Acted(NamedTuple):
    action: Tensor
    logp: Tensor
    value: Tensor


class Evaluated(NamedTuple):
    logp: Tensor
    entropy: Tensor
    value: Tensor


class Agent(nn.Module):
    """Normaliser, encoders and heads. `act` and `evaluate` give the same log-probability for the same action."""

    def __init__(
        self, obs_space: dict[str, gym.Space[Any]], action_space: gym.Space[Any], cfg: AgentConfig, gamma: float
    ) -> None:
        super().__init__()
        self.cfg = cfg
        self.obs_space, self.action_space = obs_space, action_space
        self.normalizer = ObsNormalizer(obs_space, cfg.clip_obs) if cfg.normalize_obs else None
        self.reward_normalizer = RewardNormalizer(gamma, cfg.clip_reward) if cfg.normalize_reward else None
        encoder = ENCODERS.get(cfg.encoder)
        self.actor_body = encoder(obs_space, cfg)
        self.critic_body = None if cfg.shared else encoder(obs_space, cfg)
        self.head = make_head(action_space, cfg, self.actor_body.out_features)
        # A gain of 0.01 starts the policy near uniform (or near a zero mean): nothing is preferred before learning.
        self.actor_out = orthogonal(nn.Linear(self.actor_body.out_features, self.head.n_outputs), 0.01, cfg)
        self.critic_out = orthogonal(nn.Linear(self.actor_body.out_features, 1), 1.0, cfg)

    def _bodies(self, obs: TensorObs) -> tuple[Tensor, Tensor]:
        if self.normalizer is not None:
            obs = self.normalizer(obs)
        features = self.actor_body(obs)
        return features, features if self.critic_body is None else self.critic_body(obs)

    def _outputs(self, features: Tensor) -> Tensor:
        """What the head takes. Features that shape the exploration are not trained by it."""
        outputs = self.actor_out(features)
        return torch.cat([outputs, features.detach()], 1) if isinstance(self.head, SDEHead) else outputs

    @torch.no_grad()
    def act(
        self,
        obs: TensorObs,
        mask: Tensor | None = None,
        deterministic: bool = False,
        generator: torch.Generator | None = None,
        step: int = 0,
    ) -> Acted:
        """Actions for a batch of observations, with their log-probabilities and values.

        `step` counts a sequence of calls for the same envs: noise that lasts begins anew at 0.
        """
        actor, critic = self._bodies(obs)
        if isinstance(self.head, SDEHead) and not deterministic:
            self.head.renew(step, len(actor), generator)
        action, logp = self.head.act(self._outputs(actor), mask, deterministic, generator)
        return Acted(action, logp, self.critic_out(critic).squeeze(1))

    def evaluate(self, obs: TensorObs, action: Tensor, mask: Tensor | None = None) -> Evaluated:
        """Log-probability and entropy of given actions, and values, all with gradients."""
        actor, critic = self._bodies(obs)
        logp, entropy = self.head.evaluate(self._outputs(actor), action, mask)
        return Evaluated(logp, entropy, self.critic_out(critic).squeeze(1))

    @torch.no_grad()
    def describe(self, obs: TensorObs, mask: Tensor | None = None) -> dict[str, Tensor]:
        """What it thinks of observations: `value` [B], and its choices as `probability`, or as `mean` and `std`."""
        actor, critic = self._bodies(obs)
        return {"value": self.critic_out(critic).squeeze(1), **self.head.describe(self._outputs(actor), mask)}

    @torch.no_grad()
    def value(self, obs: TensorObs) -> Tensor:
        return self.critic_out(self._bodies(obs)[1]).squeeze(1)

    def std(self) -> Tensor | None:
        """The Gaussian's spread where it is a parameter: worth charting."""
        if isinstance(self.head, GaussianHead) and not self.head.state_dependent:
            return self.head.log_std.detach().exp().mean()
        return None

    def parts(self) -> dict[str, list[nn.Parameter]]:
        """Parameters by what they serve, for gradient norms."""
        shared = self.critic_body is None
        groups: dict[str, list[nn.Parameter]] = {part: [] for part in ("actor", "critic", "shared")[: 2 + shared]}
        for name, parameter in self.named_parameters():
            if name.startswith("actor_body") and shared:
                groups["shared"].append(parameter)
            else:
                groups["critic" if name.startswith("critic") else "actor"].append(parameter)
        return groups
