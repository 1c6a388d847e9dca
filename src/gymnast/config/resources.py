"""`train.resources`: what a run reserves on another machine."""

from __future__ import annotations

import re
from typing import Annotated, Any

from pydantic import BeforeValidator, Field

from gymnast.config.fields import Float, Section

UNITS = {"M": 2**20, "G": 2**30, "T": 2**40}
LABEL = r"^[A-Za-z0-9]([\w.-]*[A-Za-z0-9])?$"


def _memory(size: Any) -> str:
    if not isinstance(size, str) or not re.fullmatch(r"[0-9]+(\.[0-9]+)?[MGT]", size):
        raise ValueError(f"must be a size like 4G (units: {', '.join(UNITS)}).")
    return size


class ResourcesConfig(Section):
    """What a run reserves where `--on` sends it, in addition to its cores; of no meaning on this machine."""

    gpu: Annotated[Float, Field(ge=0, le=1)] | None = Field(
        None,
        description="GPUs that the run reserves with --on: 1, or a part of one that runs share, like 0.5; null: 1 with "
        "train.device=cuda, else none.",
    )
    memory: Annotated[str, BeforeValidator(_memory)] | None = Field(
        None, description="Memory that the run reserves with --on, like 4G; null: none."
    )
    labels: dict[str, Annotated[str, Field(pattern=LABEL)]] = Field(
        {},
        description="Labels that the node of a run must have with --on (`ray start --labels`), like {gpu: A100}; on "
        "Modal `gpu` names the kind of GPU.",
    )

    @property
    def memory_bytes(self) -> int:
        return 0 if self.memory is None else int(float(self.memory[:-1]) * UNITS[self.memory[-1]])
