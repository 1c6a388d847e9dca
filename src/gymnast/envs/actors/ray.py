"""Actors of a Ray cluster, on any of its nodes: one call a step for all envs of an actor, which brings their arrays."""

from __future__ import annotations

import os
from collections.abc import Collection
from math import inf
from time import perf_counter, sleep
from typing import TYPE_CHECKING, Any

from gymnast.core.errors import EnvFailure, UserError
from gymnast.core.machine import versions_to_share
from gymnast.core.ray_cluster import Head, connect
from gymnast.envs.actors.base import ActorDied
from gymnast.envs.actors.node import EnvsOnNode
from gymnast.envs.engines.buffers import Buffers
from gymnast.envs.engines.workers import even_slices
from gymnast.envs.forbid import agent_labels
from gymnast.envs.spaces import ActionLayout, ObsLayout, mask_size

if TYPE_CHECKING:
    from gymnast.envs.make import EnvMaker

WHERE = "train.central.where"
NODE_SECONDS = 60.0  # until Ray must have learned that a node is gone, and sends nobody there any more
PAUSE = 0.5  # before the next actor takes the place of one that was sent there


class RayActors:
    def __init__(self, maker: EnvMaker, n_envs: int, count: int, address: str | None) -> None:
        """`address`: of a cluster; None: that of RAY_ADDRESS, else one on this machine that ends with this process."""
        probe = maker()  # an error of the config shows here, before any actor starts
        self.obs_space, self.action_space = probe.observation_space, probe.action_space
        self.action_labels = agent_labels(probe)
        probe.close()
        masks = mask_size(ActionLayout(self.action_space).space) if maker.config.action_masks else None
        self.buffers = Buffers.allocate(ObsLayout(self.obs_space), n_envs, masks)
        self.slices, self._maker = even_slices(n_envs, count), maker
        address = address or os.environ.get("RAY_ADDRESS") or None
        self._ray = connect(address, WHERE)
        self._head = Head(address)
        self._versions = {
            name: version for name, version in versions_to_share().items() if name != "torch"
        }  # unused there
        # a core each, or less where there are fewer: envs that wait need none
        free = self._ray.available_resources().get("CPU", 0.0)
        self._cores = min(1.0, int(100 * free / count) / 100)
        self._handles: dict[int, Any] = {}
        self._calls: dict[int, Any] = {}  # the last one of each actor
        self.nodes: dict[int, str] = {}  # where each actor is
        self._lost: dict[int, float] = {}  # when the last one that had begun was lost

    def start(self, index: int) -> None:
        # one that takes the place of another reserves nothing: its node may be gone, and the others full
        cores = 0.0 if index in self._calls else self._cores
        while index in self._calls and not self._head.has_nodes():
            sleep(PAUSE)
        remote = self._ray.remote(num_cpus=cores, max_restarts=0, scheduling_strategy="SPREAD")(EnvsOnNode)
        self._handles[index] = remote.remote(self._maker, *self.slices[index], self._versions)
        self.ask(index, "opening")

    def ask(self, actor: int, command: str, argument: Any = None) -> None:
        self._calls[actor] = self._handles[actor].call.remote(command, argument)

    def ready(self, actors: Collection[int], seconds: float) -> list[int]:
        calls = [self._calls[actor] for actor in actors]
        if not calls:
            return []
        found, waits = self._ray.wait(calls, timeout=seconds, fetch_local=True)
        if found and waits:  # it waits for the first one: others may have come with it
            found += self._ray.wait(waits, num_returns=len(waits), timeout=0)[0]
        done = set(found)
        return [actor for actor in actors if self._calls[actor] in done]

    def answer(self, actor: int) -> Any:
        try:
            kind, result, arrays = self._ray.get(self._calls[actor])
        except self._ray.exceptions.RayError as error:  # the actor, its node or the way to it
            raise ActorDied(self._was_sent_to_a_dying_node(actor)) from error
        if kind != "done":
            raise (EnvFailure if kind == "failed" else UserError)(result)
        if not arrays:
            self.nodes[actor] = result
        rows = self.buffers.rows(*self.slices[actor])
        for name, array in arrays.items():
            mine = getattr(rows, name)
            for key in array if isinstance(array, dict) else ():
                mine[key][:] = array[key]
            if not isinstance(array, dict):
                mine[:] = array
        return result

    def who(self, actor: int) -> str:
        start, stop = self.slices[actor]
        return f"the Ray actor of envs {start} to {stop - 1}"

    def _was_sent_to_a_dying_node(self, actor: int) -> bool:
        """As the successor of one that was lost with its node: Ray learns of that some seconds later."""
        if actor in self.nodes or perf_counter() - self._lost.get(actor, -inf) >= NODE_SECONDS:
            return False
        sleep(PAUSE)
        return True

    def end(self, actor: int, seconds: float) -> str:
        self._ray.kill(self._handles.pop(actor))
        if (node := self.nodes.pop(actor, None)) is None:
            return "was lost before it had begun"
        self._lost[actor] = perf_counter()
        return f"was lost on node {node}"

    def close(self) -> None:
        for actor in list(self._handles):
            self.end(actor, 0.0)
