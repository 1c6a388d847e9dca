"""The agent of a model, by the names that stable-baselines3's policies have."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from gymnast.agent.agent import Agent
from gymnast.agent.batch import VALUE
from gymnast.api.distribution import Distribution, evaluated
from gymnast.api.files import File
from gymnast.core.errors import Lacking, UserError, did_you_mean

if TYPE_CHECKING:
    from gymnast.api.model import Model

# of stable-baselines3's policies, and what to do instead
INSTEAD = {
    "optimizer": "The optimizer belongs to the network: model.get_parameters()['policy.optimizer'] has its state.",
}


class PolicyClass(Agent):
    """What isinstance() takes a policy for: it stands for its agent. Nothing is ever made of it."""

    @staticmethod
    def load(path: File, device: Any = None) -> Any:
        """The policy of a saved model."""
        from gymnast.api.loading import load

        return load(path, device=device).policy


class Policy:
    """Whatever the agent has (a torch module: parameters, state_dict, its layers), and `predict` and its like."""

    def __init__(self, model: Model) -> None:
        object.__setattr__(self, "_model", model)

    __class__ = property(lambda self: PolicyClass)

    def save(self, path: File) -> None:
        """With all of its model: `load` of its class, or of the model's, takes the file."""
        self._model.save(path)

    @property
    def net_arch(self) -> list[int]:
        return list(self._model.config.agent.hidden)

    def predict(
        self, observation: Any, state: Any = None, episode_start: Any = None, deterministic: bool = False
    ) -> tuple[Any, Any]:
        return self._model.predict(observation, state, episode_start, deterministic)

    def obs_to_tensor(self, observation: Any) -> tuple[Tensor | dict[str, Tensor], bool]:
        """As the agent reads it, with a leading axis; and whether it had one."""
        batch, single = self._model.spaces.layout.to_batch(observation)
        leaves = {name: torch.from_numpy(array).to(self._model.device) for name, array in batch.items()}
        return (leaves["obs"] if set(leaves) == {"obs"} else leaves), not single

    def predict_values(self, obs: Tensor | dict[str, Tensor]) -> Tensor:
        return self._model.agent.values(_leaves(obs))[VALUE][:, None]

    def evaluate_actions(self, obs: Tensor | dict[str, Tensor], actions: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Values, log-probabilities and entropies of actions as the agent counts them; with gradients."""
        out = evaluated(self._model.agent, _leaves(obs), torch.as_tensor(actions))
        return out.values[VALUE][:, None], out.logp, out.entropy

    def get_distribution(self, obs: Tensor | dict[str, Tensor]) -> Distribution:
        """Of the actions for a batch of observations."""
        return Distribution(self._model.agent, _leaves(obs), self._model.generator)

    def reset_noise(self, n_envs: int = 1) -> None:
        """Noise that lasts (gSDE) is drawn again, in the envs that training steps."""
        collector = self._model.session.collector
        collector.state = self._model.agent.head.renew(collector.state)

    def __call__(self, obs: Tensor | dict[str, Tensor], deterministic: bool = False) -> tuple[Tensor, Tensor, Tensor]:
        """Actions as the agent counts them, their values and log-probabilities; without gradients."""
        acted = self._model.agent.act(_leaves(obs), sample=None if deterministic else self._model.generator)
        return acted.action, acted.values[VALUE][:, None], acted.logp

    forward = __call__

    def set_training_mode(self, mode: bool) -> None:
        self._model.agent.train(mode)

    def __getattr__(self, name: str) -> Any:
        agent = self._model.agent
        if name in INSTEAD:
            raise Lacking(f"model.policy.{name}: not offered here. {INSTEAD[name]}")
        try:
            return getattr(agent, name)
        except AttributeError:
            layers = [part for part, _ in agent.named_children()]
            raise Lacking(
                f"model.policy has no {name!r}.{did_you_mean(name, layers)} Its parts are {', '.join(layers)}; "
                "print(model.policy) shows them."
            ) from None

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self._model.agent, name, value)

    def __delattr__(self, name: str) -> None:
        self.__getattr__(name)
        delattr(self._model.agent, name)

    def __repr__(self) -> str:
        return repr(self._model.agent)

    def __dir__(self) -> list[str]:
        return sorted({*dir(self._model.agent), *vars(Policy)})

    def __deepcopy__(self, memo: dict[int, Any]) -> Agent:
        return copy.deepcopy(self._model.agent, memo)


def refuse_other(given: Any, agent: Agent) -> str:
    """What is said of `model.policy = given`: a compiled copy of the agent is left aside, anything else refused."""
    inner = getattr(given, "_orig_mod", given)
    if type(inner) is Policy or inner is agent:
        return "model.policy: torch.compile is not used, the agent computes as before; small ones are compiled anyway."
    raise UserError(
        "model.policy = ...: a model keeps its agent. Change its weights with model.set_parameters, or a layer of it "
        "with model.policy.LAYER = ...; other networks are settings (policy_kwargs, encoder)."
    )


def _leaves(obs: Any) -> dict[str, Tensor]:
    return dict(obs) if isinstance(obs, dict) else {"obs": torch.as_tensor(obs)}
