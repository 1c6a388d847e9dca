"""From a config to an agent that acts, and from a checkpoint to its weights: the one way for every verb."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, Self

import gymnasium as gym
import torch
from torch import Tensor

from gymnast.agent.agent import Agent, not_finite
from gymnast.agent.batch import VALUE
from gymnast.agent.nets import Net, choose_net
from gymnast.core.devices import pick_device, set_threads
from gymnast.core.errors import UserError
from gymnast.core.registry import ENCODERS, EXTENSIONS
from gymnast.core.seeds import derive_seed
from gymnast.envs.types import ObsSpace

if TYPE_CHECKING:
    from gymnast.config import RunConfig


class HasSpaces(Protocol):
    """What an agent must know of its env: spaces as the learner sees them."""

    obs_space: ObsSpace
    action_space: gym.Space[Any]


@dataclass(frozen=True)
class SavedAgent:
    """An agent and the network that acts for it; it takes the weights of any checkpoint of its config."""

    config: RunConfig
    net: Net

    @classmethod
    def build(cls, config: RunConfig, env: HasSpaces, tensors: dict[str, Tensor] | None = None) -> Self:
        """For an env, with threads and device as in training, so that every number is the same."""
        set_threads(1)
        built = cls(config, choose_net(build_agent(config, env)))
        choose_threads(config, built.net)
        if tensors is not None:
            built.load(tensors)
        return built

    @property
    def agent(self) -> Agent:
        return self.net.agent

    def load(self, tensors: dict[str, Tensor]) -> None:
        load_agent(self.agent, tensors)


def build_agent(config: RunConfig, env: HasSpaces) -> Agent:
    """An untrained agent for an env, on its device. Its weights depend on the seed alone."""
    if config.env.action_masks and not isinstance(
        env.action_space, gym.spaces.Discrete | gym.spaces.MultiDiscrete | gym.spaces.MultiBinary
    ):
        raise UserError(f"env.action_masks: true makes no sense for actions in {env.action_space}. Set it to false.")
    values = [VALUE, *(value for spec in config.algo.extensions for value in EXTENSIONS.get(spec.name).values)]
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(derive_seed(config.train.seed, "weights"))
        spaces = getattr(env, "tasks", None)  # of an env that has several
        tasks = spaces if spaces is not None and len(spaces.names) > 1 else None
        scales = config.task_scales or [config.env.reward.scale]
        kwargs = config.env.kwargs
        shown = kwargs["actions"] if config.agent.track and kwargs.get("show_action") else ()
        agent = Agent(env.obs_space, env.action_space, config.agent, config.algo.gamma, values, scales, tasks, shown)
    return agent.to(pick_device(config.train.device, is_large(config)))


def is_large(config: RunConfig) -> bool:
    """Whether the network gains from an accelerator and from several threads."""
    return bool(getattr(ENCODERS.get(config.agent.encoder), "is_large", False))


def choose_threads(config: RunConfig, net: Net) -> None:
    """The config's number, or what pays for its network: convolutions keep all cores busy, small layers one, and wide
    ones a core for the actor and one for the critic."""
    set_threads(config.train.threads, is_large(config), net.trunks)


def load_agent(agent: Agent, tensors: dict[str, Tensor]) -> None:
    """All of an agent's weights and statistics; a mismatch is a user's mistake, reported with the way out."""
    mine = agent.state_dict()
    wrong = [
        name
        for name in mine.keys() | tensors.keys()
        if name not in mine or name not in tensors or mine[name].shape != tensors[name].shape
    ]
    if wrong:
        raise UserError(
            f"the checkpoint's agent does not fit this config: {', '.join(sorted(wrong)[:3])}"
            f"{' ...' if len(wrong) > 3 else ''} differ. Keep agent and env as they were, or start with --init-from."
        )
    refuse_not_finite(tensors)
    agent.load_state_dict(tensors)


def refuse_not_finite(tensors: dict[str, Tensor]) -> None:
    """What such an agent does is the same whatever it sees, and a score of it would look like any other."""
    if names := not_finite(tensors):
        some = f"{', '.join(names[:3])}{' ...' if len(names) > 3 else ''}"
        raise UserError(
            f"the checkpoint's agent has weights that are not finite: {some}. "
            "Its training diverged, or the file is damaged. Use another checkpoint."
        )


def init_agent_from(agent: Agent, tensors: dict[str, Tensor], same_env: bool = True) -> tuple[list[str], list[str]]:
    """Copies what fits by name and shape from another agent; returns the names taken and those left as they were.

    A normaliser or a tracker is taken whole or not at all: a count without its mean would hold the statistics where
    they are. The scale of rewards and the objects in pictures are not taken to another env, which has its own.
    """
    mine = agent.state_dict()
    if not same_env:
        tensors = {name: tensor for name, tensor in tensors.items() if not name.startswith(OF_ONE_ENV)}
    misfits = {_owner(name) for name in mine if name not in tensors or mine[name].shape != tensors[name].shape}
    taken = [name for name in mine if _owner(name) not in misfits]
    refuse_not_finite({name: tensors[name] for name in taken})
    agent.load_state_dict({name: tensors[name] for name in taken}, strict=False)
    return taken, [name for name in mine if name not in taken]


OF_ONE_ENV = ("reward_normalizer.", "reward_normalizers.", "tracker.")


def _owner(name: str) -> str:
    """What is taken as a whole, or not at all: statistics that belong together."""
    parent = name.rpartition(".")[0]
    if parent == "tracker":
        return parent
    return parent if "moments" in name or parent.endswith(".norm") else name
