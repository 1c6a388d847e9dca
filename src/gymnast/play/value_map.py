"""The states of a small env as a map: what an agent does and expects in each, and what would be best."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray

from gymnast.agent.batch import OBS, VALUE, Batch
from gymnast.core.errors import UserError
from gymnast.envs.tabular.oracle import Table, find_table

if TYPE_CHECKING:
    from gymnast.agent.nets import Net
    from gymnast.play.game import Game

TIE = 1e-9  # between two actions that are equally good
TAXI_STANDS = ("red", "green", "yellow", "blue", "in the taxi")


def table_of_game(game: Game) -> Table | None:
    return find_table(game.config) if game.task is None else None


def value_map(net: Net | None, table: Table | None, game: Game) -> dict[str, Any]:
    """By state. `values`: what the critic says, discounted; `earned`: what the policy really earns if it is sampled,
    under `greedy` if it is not, and `optimum`: what the best one earns, all undiscounted within the time limit."""
    if table is None:
        raise UserError(f"{game.config.id} has no table of states, so there is no map.")
    best, of_actions = table.best_values
    ties = of_actions >= best[:, None] - TIE * np.maximum(1.0, np.abs(best[:, None]))
    found = layout(game, len(best)) | {
        "optimum": {
            "values": best.tolist(),
            "arrows": [np.flatnonzero(row).tolist() for row in ties],
            "start": table.best_value,
        },
        "values": None,
        "arrows": None,
        "earned": None,
    }
    if net is not None and not net.agent.has_memory:
        thoughts = _thoughts(net, table)
        policy = thoughts["probability"].double().cpu().numpy()
        sampled = policy / policy.sum(1, keepdims=True)
        greedy = np.eye(policy.shape[1])[policy.argmax(1)]
        found |= {
            "values": thoughts[VALUE].tolist(),
            "arrows": policy.tolist(),
            **_worth(table, sampled),
            "greedy": _worth(table, greedy) | {"arrows": greedy.tolist()},
        }
    return found


def _worth(table: Table, policy: NDArray[np.float64]) -> dict[str, Any]:
    return {"earned": table.values_of(policy).tolist(), "start": table.value_of(policy)}


def _thoughts(net: Net, table: Table) -> dict[str, torch.Tensor]:
    columns: dict[str, Any] = {OBS + key: torch.from_numpy(rows) for key, rows in table.obs.items()}
    if table.mask is not None:
        columns["mask"] = torch.from_numpy(table.mask)
    return net.agent.describe(Batch(columns).map(lambda column: column.to(net.agent.device)))


def layout(game: Game, states: int) -> dict[str, Any]:
    """Where each state is: `layers` of rows x cols states each, and what the cells are called."""
    base: Any = game.env.unwrapped
    every = np.arange(states)
    desc = getattr(base, "desc", None)
    if isinstance(desc, np.ndarray) and desc.size == states:
        cells = [str(cell, "ascii") for cell in desc.ravel()]
        return _layers(desc.shape, [("", every)]) | {"cells": cells}
    shape = getattr(base, "shape", None)
    if isinstance(shape, tuple) and len(shape) == 2 and shape[0] * shape[1] == states:
        return _layers(shape, [("", every)]) | {"cells": None}
    if type(base).__name__ == "TaxiEnv" and states == 500:
        tasks = [(who, where) for who in range(5) for where in range(4) if who != where]
        named = [
            (f"passenger {TAXI_STANDS[who]}, to {TAXI_STANDS[where]}", np.arange(25) * 20 + who * 4 + where)
            for who, where in tasks
        ]
        return _layers((5, 5), named) | {"cells": None}
    return _layers((1, states), [("", every)]) | {"cells": None}


def _layers(shape: tuple[int, int], layers: list[tuple[str, NDArray[Any]]]) -> dict[str, Any]:
    return {
        "rows": int(shape[0]),
        "cols": int(shape[1]),
        "layers": [{"label": label, "states": states.tolist()} for label, states in layers],
    }
