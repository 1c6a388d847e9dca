"""One algorithm, two networks: torch's for any agent, a compiled one for small ones that it knows completely."""

from __future__ import annotations

from gymnast.agent.agent import Agent
from gymnast.agent.nets.base import Net as Net
from gymnast.agent.nets.dense_net import DenseNet, is_known
from gymnast.agent.nets.torch_net import TorchNet as TorchNet


def choose_net(agent: Agent) -> Net:
    """The network that computes for this agent: chosen once, when a run is built."""
    return DenseNet(agent) if is_known(agent) else TorchNet(agent)
