"""What a Ray actor does on its node. Nothing here imports torch: an actor must start quickly and stay small."""

from __future__ import annotations

import traceback
from collections.abc import Mapping
from time import perf_counter
from typing import TYPE_CHECKING, Any

from gymnast.core.errors import EnvFailure, UserError
from gymnast.core.machine import SAME_VERSIONS, other_versions
from gymnast.envs.engines.sync import SyncEngine
from gymnast.envs.types import StepBatch

if TYPE_CHECKING:
    from gymnast.envs.make import EnvMaker

# done, mistake or failed; what came of it (of opening: the node's id); the arrays of all its envs
Answer = tuple[str, Any, dict[str, Any]]


class EnvsOnNode:
    """A slice of the vector, stepped by one call for all its envs."""

    def __init__(self, maker: EnvMaker, start: int, stop: int, versions: Mapping[str, str]) -> None:
        """`versions`: that this node must have."""
        self.maker, self.start, self.stop, self.versions = maker, start, stop, versions
        self.engine: SyncEngine

    def call(self, command: str, argument: Any) -> Answer:
        try:
            return self._done(command, argument)
        except (EnvFailure, UserError) as error:
            return "failed" if isinstance(error, EnvFailure) else "mistake", str(error), {}
        except Exception:  # an env's constructor is foreign code
            return "failed", f"{self.maker.title}: an actor failed.\n{traceback.format_exc().rstrip()}", {}

    def _done(self, command: str, argument: Any) -> Answer:
        if command == "opening":
            import ray

            node = str(ray.get_runtime_context().get_node_id())[:6]
            if other := other_versions(self.versions):
                raise UserError(f"{ray.util.get_node_ip_address()} (node {node}) has {other}: {SAME_VERSIONS}.")
            masks = self.maker.config.action_masks
            self.engine = SyncEngine(
                self.maker, self.stop - self.start, name=self.maker.title, action_masks=masks, first_env=self.start
            )
            return "done", node, {}
        began = perf_counter()
        batch: StepBatch = getattr(self.engine, command)(argument)  # reset, load_state or step
        return "done", (batch.episodes, perf_counter() - began), arrays_of(batch)


def arrays_of(batch: StepBatch) -> dict[str, Any]:
    """Last observations only where there are any: a picture is large."""
    found: dict[str, Any] = {name: getattr(batch, name) for name in ("obs", "reward", "terminated", "truncated")}
    if batch.mask is not None:
        found["mask"] = batch.mask
    if (batch.terminated | batch.truncated).any():
        found["final_obs"] = batch.final_obs
    return found
