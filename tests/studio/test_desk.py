"""One env of every family that has presets, through everything that a session can do. A family joins by its presets."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from gymnast import config as configs
from gymnast.config.files import preset_ids
from gymnast.core.errors import UserError
from gymnast.studio.desk import Desk
from gymnast.studio.moments import NEEDS
from gymnast.studio.opening import Opened
from gymnast.studio.packets import FRAME

STEPS = 12


class Idle:
    def is_cancelled(self) -> bool:
        return False


class Said:
    """What a session says; every message must be JSON."""

    def __init__(self) -> None:
        self.pushes: list[dict[str, Any]] = []
        self.pictures: list[tuple[int, tuple[int, int], bytes]] = []

    def push(self, **message: Any) -> None:
        self.pushes.append(json.loads(json.dumps(message)))

    def picture(self, kind: int, codec: int, size: tuple[int, int], data: bytes, **more: Any) -> None:
        self.pictures.append((kind, size, data))


def families() -> dict[str, str]:
    """The first env of each."""
    found: dict[str, str] = {}
    for env_id in preset_ids():
        facts = configs.load_facts(env_id)
        if facts is not None and not env_id.startswith("defaults/"):
            found.setdefault(facts.family, env_id)
    return found


@pytest.mark.parametrize("env_id", families().values(), ids=families().keys())
def test_a_family_is_played_and_inspected(env_id: str, tmp_path: Path) -> None:
    try:
        opened = Opened(tmp_path, None, env_id, {"env.max_episode_steps": 400})
    except UserError as error:
        if "not installed" in str(error):
            pytest.skip(str(error))
        raise
    said = Said()
    desk: Any = Desk(opened, Idle(), said)  # type: ignore[arg-type]

    def do(name: str, **fields: Any) -> dict[str, Any]:
        return json.loads(json.dumps(desk.do({"do": name, **fields}, 1)))

    about = json.loads(json.dumps(desk.about))
    assert about["key_rows"]
    assert about["actions"]
    do("reset", seed=3)
    do("step", n=STEPS, policy="untrained")
    steps = [push for push in said.pushes if push["type"] == "step"]
    assert steps
    assert [step["t"] for step in steps] == list(range(len(steps)))
    assert steps[0]["value"] is not None
    frames = [one for one in said.pictures if one[0] == FRAME]
    assert bool(frames) == about["picture"]
    episode = do("episode", n=1)
    length = episode["length"]
    assert length == len(steps)
    assert sum(episode["reward"]) == pytest.approx(episode["return"])
    middle = length // 2
    said.pictures.clear()
    moment = do("moment", n=1, t=middle, need=list(NEEDS))
    assert moment["hash"] == episode["hash"][middle]
    if about["picture"]:
        assert moment["frame"]["exact"]
    pictures = [leaf for leaf in about["obs"] if leaf["kind"] == "picture"]
    assert bool(moment["inputs"]) == bool(pictures)
    assert bool(moment["activations"]) == bool(moment["filters"]) == about["encoder"].endswith("cnn")
    assert all(len(layer["values"]) > 1 for layer in moment["units"])
    assert moment["units"] or about["encoder"].endswith("cnn")  # a network has layers, of one kind or the other
    if episode["components"]:
        assert episode["ledger"]["rest"] == pytest.approx(0.0, abs=1e-5)
    assert bool(episode["components"]) or about["family"] != "mujoco"
    advantages = do("advantages", n=1, gamma=0.9, **{"lambda": 0.8})
    if about["family"] in ("atari", "retro"):  # in training a point or a lost life ends the episode
        assert "ended the episode" in advantages["reason"]
    else:
        assert len(advantages["advantage"]) == length
    branch = do("branch", n=1, t=middle, action=episode["action"][middle], then="untrained")
    assert branch["exact"]
    tried = do("rollouts", n=1, t=middle, k=1, then="random")
    assert all(row["n"] == 1 for row in tried["actions"])
    if about["tabular"]:
        found = do("map", policy="untrained")
        assert len(found["values"]) == len(found["optimum"]["values"])
    assert len(do("episodes")["episodes"]) >= 2
    # and the episode that was played goes on where it was, if it is not over
    again = do("branch", n=1, t=middle, then="human")
    assert again["length"] == middle
    do("step", action=episode["action"][middle])
    assert desk.session.trace.marks[middle + 1] == episode["hash"][middle + 1]
    desk.session.close()
