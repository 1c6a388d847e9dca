"""Episodes as a Minari dataset, as the env itself shows them: pixels without loss, and who acted at each step."""

from __future__ import annotations

import os
import re
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from gymnast.core.errors import UserError, package_problem
from gymnast.envs.suites import find_spec
from gymnast.envs.suites.gymnasium import GymnasiumSuite

if TYPE_CHECKING:
    from gymnast.play.game import Game
    from gymnast.play.trace import Trace

FOLDER = "MINARI_DATASETS_PATH"  # where Minari looks for datasets, if it is set


def require_minari() -> None:
    for package in ("minari", "h5py"):
        if problem := package_problem(package, "minari"):
            raise UserError(f"record: {problem}")


def save_dataset(traces: Sequence[Trace], game: Game, folder: Path, name: str) -> dict[str, Any]:
    """A new dataset in a folder of them: with MINARI_DATASETS_PATH set to it, `minari.load_dataset` takes its id.

    infos["human"] is 1 where a human acted.
    """
    require_minari()
    played = [trace for trace in traces if trace.steps]
    if not played:
        raise UserError("record: nothing was played, so there is nothing to save.")
    import minari

    stem = f"gymnast/{re.sub('[^a-z0-9]+', '-', game.config.id.lower()).strip('-')}/{name}"
    before = os.environ.get(FOLDER)
    os.environ[FOLDER] = str(folder)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        number = next(i for i in range(10**6) if not (folder / f"{stem}-v{i}").exists())
        spaces: dict[str, Any] = {
            "observation_space": game.env.observation_space,
            "action_space": game.env.action_space,
        }
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", module="minari")  # authors and e-mail addresses are nobody's business
            minari.create_dataset_from_buffers(
                f"{stem}-v{number}",
                [_buffer(i, trace, game) for i, trace in enumerate(played)],
                env=_spec(game),
                algorithm_name="human and agents",
                description=f"{game.config.id}, played with Gymnast. env.kwargs: {game.config.kwargs}.",
                jpeg_encoding=False,
                **spaces,
            )
    finally:
        if before is None:
            del os.environ[FOLDER]
        else:
            os.environ[FOLDER] = before
    steps = sum(trace.length for trace in played)
    return {
        "id": f"{stem}-v{number}",
        "path": str(folder / f"{stem}-v{number}"),
        "episodes": len(played),
        "steps": steps,
    }


def _spec(game: Game) -> Any:
    """By which Minari can make the env again; None: what it would make is another env than this one."""
    plain = type(game.suite) is GymnasiumSuite and ":" not in game.config.id
    unchanged = not (game.config.wrappers or game.config.kwargs or game.config.max_episode_steps or game.config.forbid)
    return find_spec(game.config.id) if plain and unchanged else None


def _buffer(number: int, trace: Trace, game: Game) -> Any:
    from minari.data_collector import EpisodeBuffer

    keys = game.own_leaves
    seen = [trace.obs(t) for t in range(len(trace.marks))]
    leaves = {own: np.stack([one[key] for one in seen]) for own, key in keys.items()}
    ends = [step.truncated for step in trace.steps]
    if not trace.steps[-1].terminated:
        ends[-1] = True  # also of an episode that was left before its end
    return EpisodeBuffer(
        id=number,
        seed=trace.seed,
        observations=game.engine.raw_obs(leaves),
        actions=game.engine.raw_actions(np.array(trace.actions)),
        rewards=[step.reward for step in trace.steps],
        terminations=[step.terminated for step in trace.steps],
        truncations=ends,
        infos={"human": np.array([who == "human" for who in trace.who], np.int8)},
    )
