"""From the actor's outputs to actions: one head per kind of action space.

A head keeps the action it sampled (before clipping or squashing), so that learning sees the very number whose
probability it computes; `to_env` turns it into what the env takes.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import gymnasium as gym
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Generator, Tensor, nn
from torch.nn import functional as F

from gymnast.core.errors import UserError

if TYPE_CHECKING:
    from gymnast.config import AgentConfig

MASKED = -1e9  # a logit whose probability is exactly 0 in float32, and finite so that 0 * log 0 is 0
LEAST_NOISE = 1.2e-38  # instead of an exponential number of 0, whose logarithm would lift a masked logit to the top
LOG_2PI = math.log(2 * math.pi)
State = dict[str, Tensor]  # what lasts between steps, [N, ...] each


class Head(nn.Module):
    """`act` samples, `evaluate` scores; both take the same outputs and agree on the log-probability.

    Random numbers are drawn on the CPU, whatever device the outputs are on: a seed means the same everywhere.
    """

    n_outputs: int  # how many numbers the actor gives
    n_mask: int = 0  # how many entries an action mask has; 0: masks make no sense here
    uniform_entropy: float | None = None  # of choices that are all alike, in nats; None: actions are numbers
    shape: tuple[int, ...]  # of one stored action
    env_shape: tuple[int, ...]  # of one action as the env takes it
    dtype: torch.dtype

    def outputs(self, actor_out: Tensor, features: Tensor, mask: Tensor | None) -> Tensor:
        """What the other methods take, of the actor's last layer, the features below it and what is allowed."""
        return actor_out if mask is None else actor_out.masked_fill(~mask, MASKED)

    def of_task(self, actor_out: Tensor, task: Tensor) -> Tensor:
        """What the actor's last layer says of each row's own task; here one layer serves them all."""
        return actor_out

    def choices_of(self, task: int | None = None) -> int:
        """How many numbers `describe` gives of an action; of a task that has fewer, the first ones mean something."""
        return self.n_mask or math.prod(self.shape)

    def initial_state(self, n: int) -> State:
        """What lasts between steps, for n envs; empty where nothing does."""
        return {}

    def renew(self, state: State, envs: Tensor | None = None) -> State:
        """The state from which exploration noise that lasts is drawn again, for all envs or for these [N]: where a
        rollout begins, and an episode in which the agent does not learn."""
        return state

    def act(self, outputs: Tensor, sample: Generator | None, state: State) -> tuple[Tensor, Tensor, State]:
        """Actions, their log-probabilities and the next state. Without a generator the likeliest actions."""
        raise NotImplementedError

    def evaluate(self, outputs: Tensor, action: Tensor) -> tuple[Tensor, Tensor]:
        """Log-probability of the actions, and the entropy."""
        raise NotImplementedError

    def describe(self, outputs: Tensor) -> dict[str, Tensor]:
        """The distribution in numbers a person reads: `probability` [B, choices], or `mean` and `std` [B, size]."""
        raise NotImplementedError

    def to_env(self, action: NDArray[Any]) -> NDArray[Any]:
        """Stored actions as the env takes them."""
        return action.reshape(len(action), *self.env_shape)


class CategoricalHead(Head):
    """Discrete and MultiDiscrete: one softmax per component."""

    def __init__(self, space: gym.spaces.Discrete | gym.spaces.MultiDiscrete) -> None:
        super().__init__()
        self.single = isinstance(space, gym.spaces.Discrete)
        nvec = [space.n] if isinstance(space, gym.spaces.Discrete) else space.nvec.flatten()
        self.sizes = [int(n) for n in nvec]
        self.env_shape = tuple(space.shape or ())
        self.n_outputs = self.n_mask = sum(self.sizes)
        self.uniform_entropy = sum(math.log(size) for size in self.sizes)
        self.shape = () if self.single else (len(self.sizes),)
        self.dtype = torch.int64

    def _log_probs(self, outputs: Tensor) -> list[Tensor]:
        parts = [outputs] if self.single else list(outputs.split(self.sizes, 1))
        return [F.log_softmax(part, 1) for part in parts]

    def act(self, outputs: Tensor, sample: Generator | None, state: State) -> tuple[Tensor, Tensor, State]:
        actions, logps = [], []
        for log_probs in self._log_probs(outputs):
            scores = log_probs
            if sample is not None:  # Gumbel: the largest of log p - log(exponential) is a sample of p
                noise = torch.empty(log_probs.shape).exponential_(generator=sample).clamp_min_(LEAST_NOISE)
                scores = log_probs - noise.to(log_probs.device).log_()
            actions.append(scores.argmax(1, keepdim=True))
            logps.append(log_probs.gather(1, actions[-1]))
        if self.single:
            return actions[0].squeeze(1), logps[0].squeeze(1), state
        return torch.cat(actions, 1), torch.cat(logps, 1).sum(1), state

    def evaluate(self, outputs: Tensor, action: Tensor) -> tuple[Tensor, Tensor]:
        columns = action.reshape(len(action), len(self.sizes))
        logp = entropy = outputs.new_zeros(len(outputs))
        for i, log_probs in enumerate(self._log_probs(outputs)):
            logp = logp + log_probs.gather(1, columns[:, i : i + 1]).squeeze(1)
            entropy = entropy - (log_probs.exp() * log_probs).sum(1)
        return logp, entropy

    def describe(self, outputs: Tensor) -> dict[str, Tensor]:
        return {"probability": torch.cat(self._log_probs(outputs), 1).exp()}


class BernoulliHead(Head):
    """MultiBinary: independent bits. A mask switches bits off: a masked bit is never 1."""

    def __init__(self, space: gym.spaces.MultiBinary) -> None:
        super().__init__()
        self.env_shape = tuple(space.shape)
        self.n_outputs = self.n_mask = math.prod(self.env_shape)
        self.uniform_entropy = self.n_outputs * math.log(2)
        self.shape = (self.n_outputs,)
        self.dtype = torch.int8

    def act(self, outputs: Tensor, sample: Generator | None, state: State) -> tuple[Tensor, Tensor, State]:
        if sample is None:
            bits = outputs > 0
        else:
            bits = torch.rand(outputs.shape, generator=sample).to(outputs.device) < outputs.sigmoid()
        action = bits.to(self.dtype)
        return action, self.evaluate(outputs, action)[0], state

    def evaluate(self, outputs: Tensor, action: Tensor) -> tuple[Tensor, Tensor]:
        log_on, log_off = F.logsigmoid(outputs), F.logsigmoid(-outputs)
        logp = torch.where(action > 0, log_on, log_off).sum(1)
        on = outputs.sigmoid()
        return logp, -(on * log_on + (1 - on) * log_off).sum(1)

    def describe(self, outputs: Tensor) -> dict[str, Tensor]:
        return {"probability": outputs.sigmoid()}


class GaussianHead(Head):
    """Box: a diagonal Gaussian, its standard deviation a parameter or an output, bounded by clipping or by tanh.

    With `rescale_actions`, -1..1 means low..high wherever the space is bounded.
    """

    def __init__(self, space: gym.spaces.Box, cfg: AgentConfig) -> None:
        super().__init__()
        size = math.prod(space.shape)
        self.low, self.high = low, high = [b.reshape(-1).astype(np.float32) for b in (space.low, space.high)]
        bounded = np.isfinite(low) & np.isfinite(high)
        if cfg.squash and not bounded.all():
            raise UserError(f"agent.squash: true needs bounded actions, but the env's are {space}. Set it to false.")
        self.env_shape = space.shape
        rescaled = bounded & (cfg.rescale_actions or cfg.squash)
        low, high = np.where(rescaled, low, np.float32(-1)), np.where(rescaled, high, np.float32(1))
        self.center, self.half_width = (low + high) / 2, (high - low) / 2
        self.squash = cfg.squash
        self.state_dependent = cfg.std == "state_dependent"
        self.log_std_init = cfg.log_std_init
        if not self.state_dependent:
            self.log_std = nn.Parameter(torch.full((size,), cfg.log_std_init))
        self.n_outputs = size * (2 if self.state_dependent else 1)
        self.shape = (size,)
        self.dtype = torch.float32

    def std(self) -> Tensor:
        """The standard deviation, where it is a parameter."""
        return self.log_std.exp()

    def _moments(self, outputs: Tensor) -> tuple[Tensor, Tensor]:
        if not self.state_dependent:
            return outputs, self.log_std.expand_as(outputs)
        mean, log_std = outputs.chunk(2, 1)
        return mean, (log_std + self.log_std_init).clamp(-10.0, 2.0)

    def _log_slope(self, action: Tensor) -> Tensor:
        """log of tanh's derivative, in a form that does not underflow."""
        return 2 * (math.log(2) - action - F.softplus(-2 * action))

    def _logp(self, mean: Tensor, log_std: Tensor, action: Tensor) -> Tensor:
        logp = -0.5 * ((action - mean) / log_std.exp()).square() - log_std - 0.5 * LOG_2PI
        if self.squash:
            logp = logp - self._log_slope(action)
        return logp.sum(1)

    def act(self, outputs: Tensor, sample: Generator | None, state: State) -> tuple[Tensor, Tensor, State]:
        mean, log_std = self._moments(outputs)
        action = mean
        if sample is not None:
            noise, state = self._noise(outputs, log_std, sample, state)
            action = mean + noise
        return action, self._logp(mean, log_std, action), state

    def _noise(self, outputs: Tensor, log_std: Tensor, sample: Generator, state: State) -> tuple[Tensor, State]:
        return log_std.exp() * torch.randn(log_std.shape, generator=sample).to(log_std.device), state

    def evaluate(self, outputs: Tensor, action: Tensor) -> tuple[Tensor, Tensor]:
        mean, log_std = self._moments(outputs)
        entropy = (log_std + 0.5 + 0.5 * LOG_2PI).sum(1)
        if self.squash:
            # The squashing's share of the entropy is its expected log-slope. It is estimated at the action taken,
            # rewritten as mean + std * noise so that it has a gradient.
            std = log_std.exp()
            sample = mean + std * ((action - mean) / std).detach()
            entropy = entropy + self._log_slope(sample).sum(1)
        return self._logp(mean, log_std, action), entropy

    def describe(self, outputs: Tensor) -> dict[str, Tensor]:
        """Before clipping, squashing and scaling: in the numbers that a rollout keeps as actions."""
        mean, log_std = self._moments(outputs)
        return {"mean": mean, "std": log_std.exp()}

    def to_env(self, action: NDArray[Any]) -> NDArray[Any]:
        unit = np.tanh(action) if self.squash else action
        return super().to_env(np.clip(unit * self.half_width + self.center, self.low, self.high))


class SDEHead(GaussianHead):
    """Box, explored by noise that depends on the state and lasts (gSDE: Raffin, Kober, Stulp, 2020).

    The noise is a random linear function of the actor's last features, one matrix an env, which stays for several
    steps: the same state gets the same push, and exploration is smooth. Over all matrices an action is Gaussian with
    variance features^2 @ std^2, which is what its probability is computed from. Outputs are means, then features.
    """

    EPSILON = 1e-6  # of stable-baselines3: a variance that is never zero

    def __init__(self, space: gym.spaces.Box, cfg: AgentConfig, n_features: int) -> None:
        super().__init__(space, cfg)
        self.sizes = [self.n_outputs, n_features]
        self.log_std = nn.Parameter(torch.full((n_features, self.n_outputs), cfg.log_std_init))
        self.lasts, self.expln = cfg.sde_sample_freq, cfg.sde_expln

    def std(self) -> Tensor:
        """[features, actions]. With `sde_expln` it grows with the logarithm of the parameter above 1."""
        if not self.expln:
            return self.log_std.exp()
        below = self.log_std.clamp(max=0.0).exp()  # each side sees what is finite there, and so do its slopes
        return torch.where(self.log_std > 0, self.log_std.clamp(min=0.0).log1p() + 1.0, below)

    def outputs(self, actor_out: Tensor, features: Tensor, mask: Tensor | None) -> Tensor:
        """Features that shape the exploration are not trained by it."""
        return torch.cat([actor_out, features.detach()], 1)

    def initial_state(self, n: int) -> State:
        device = self.log_std.device
        return {
            "sde_matrix": torch.zeros((n, *self.log_std.shape), device=device),
            "sde_age": torch.zeros(n, dtype=torch.int64, device=device),
        }

    def renew(self, state: State, envs: Tensor | None = None) -> State:
        age = state["sde_age"]
        return state | {"sde_age": torch.zeros_like(age) if envs is None else age * ~envs.to(age.device)}

    def _moments(self, outputs: Tensor) -> tuple[Tensor, Tensor]:
        mean, features = outputs.split(self.sizes, 1)
        variance = features.square() @ self.std().square()
        return mean, 0.5 * (variance + self.EPSILON).log()

    def _noise(self, outputs: Tensor, log_std: Tensor, sample: Generator, state: State) -> tuple[Tensor, State]:
        """Each env's matrix is drawn at age 0 and every `sde_sample_freq` steps."""
        matrix, age = state["sde_matrix"], state["sde_age"]
        due = age == 0 if self.lasts is None else age % self.lasts == 0
        if due.any():
            std = self.std().detach()
            drawn = torch.randn((int(due.sum()), *std.shape), generator=sample)
            matrix = matrix.clone()
            matrix[due] = std * drawn.to(std.device)
        features = outputs[:, self.sizes[0] :]
        noise = torch.bmm(features[:, None], matrix).squeeze(1)
        return noise, state | {"sde_matrix": matrix, "sde_age": age + 1}


def make_head(space: gym.Space, cfg: AgentConfig, n_features: int) -> Head:
    """The head for an action space, on an actor that gives so many features."""
    if cfg.std == "sde":
        if not isinstance(space, gym.spaces.Box):
            raise UserError(f"agent.std: sde is for continuous actions, but the env's are {space}. Leave it out.")
        return SDEHead(space, cfg, n_features)
    if isinstance(space, gym.spaces.Discrete | gym.spaces.MultiDiscrete):
        return CategoricalHead(space)
    if isinstance(space, gym.spaces.MultiBinary):
        return BernoulliHead(space)
    if isinstance(space, gym.spaces.Box):
        return GaussianHead(space, cfg)
    raise UserError(
        f"the env's action space {space} is not supported. "
        "Discrete, MultiDiscrete, MultiBinary and Box are; wrap the env to give one of them."
    )
