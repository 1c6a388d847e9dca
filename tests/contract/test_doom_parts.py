"""Parts of a reward in Doom: a scripted player does what each part is about, and the learner is paid for it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import gymnasium as gym
import pytest

from gymnast.config import EnvConfig, validate
from gymnast.core.errors import UserError
from gymnast.envs.make import make_env
from gymnast.envs.recorder import recorder_of
from gymnast.envs.suites.vizdoom.measures import CELL, PARTS, READ, Measures

pytest.importorskip("vizdoom")

WEIGHT = 3.0
Opened = Callable[..., "Player"]


class Player:
    """Plays by labels, in the role of training. At every step the reward is the env's own plus the weighed parts."""

    def __init__(self, env: gym.Env[Any, Any]) -> None:
        self.env, self.doom = env, env.unwrapped
        self.recorder = recorder_of(env)
        self.parts: dict[str, float] = {}  # of the episode, unweighed
        self.over = False
        self.info: dict[str, Any] = {}  # of the last step
        env.reset(seed=2)

    def do(self, label: str, times: int = 1) -> None:
        for _ in range(times):
            if self.over:
                return
            raw = self.recorder.raw_return
            _, reward, terminated, truncated, self.info = self.env.step(self.doom.get_action_meanings().index(label))
            found = self.info["shaping"]
            assert set(found) == set(PARTS)
            own = self.recorder.raw_return - raw
            assert reward == pytest.approx(own + WEIGHT * sum(found.values()), abs=1e-6)
            self.parts = {name: self.parts.get(name, 0.0) + value for name, value in found.items()}
            self.over = terminated or truncated

    def cheat(self, command: str) -> None:
        self.doom.game.send_game_command(command)

    def sees(self, name: str) -> Any:
        """The label of the largest such object in the picture; None: there is none."""
        seen = [label for label in self.doom.game.get_state().labels if label.object_name == name]
        return max(seen, key=lambda label: label.width, default=None)


@pytest.fixture
def opened() -> Iterator[Opened]:
    players: list[Player] = []

    def make(env_id: str, actions: list[str], **kwargs: Any) -> Player:
        task = {"actions": ["NOOP", *actions], "labels": True, **kwargs}
        cfg = EnvConfig(id=f"Vizdoom{env_id}", kwargs=task, shaping=dict.fromkeys(PARTS, WEIGHT))
        players.append(Player(make_env(cfg, "train")))
        return players[-1]

    yield make
    for player in players:
        player.env.close()


def test_a_hit_pays_kills_damage_hits_ammo_and_shots(opened: Opened) -> None:
    player = opened("Basic-v1", ["ATTACK", "MOVE_LEFT", "MOVE_RIGHT"], frame_skip=1)
    while not player.over:
        monster = player.sees("Cacodemon")
        away = monster.x + monster.width / 2 - 80  # of 160 columns
        if abs(away) < monster.width / 4:
            player.do("ATTACK", 20)  # a shot takes its time
        else:
            player.do("MOVE_LEFT" if away < 0 else "MOVE_RIGHT")
            player.do("NOOP", 4)  # it slides on for a while
    assert player.info["is_success"]
    assert player.parts["kills"] == player.parts["hits"] == 1
    assert player.parts["damage"] > 0
    assert player.parts["shots"] == -player.parts["ammo"] >= 1
    assert player.parts["damage_taken"] == player.parts["health"] == 0
    # what metrics, videos and Studio show: the score stays the env's own
    sums = player.recorder.components
    assert sums["kills"] == WEIGHT
    assert sums["env"] == player.recorder.raw_return
    assert player.recorder.shaped_return == pytest.approx(sum(sums.values()))


def test_acid_and_a_medkit_pay_health(opened: Opened) -> None:
    player = opened("HealthGathering-v1", ["MOVE_FORWARD", "TURN_LEFT", "TURN_RIGHT"], frame_skip=2)
    player.do("NOOP", 30)
    lost = player.parts["health"]
    assert lost < 0
    assert player.parts["damage_taken"] == -lost
    for _ in range(300):
        medkit = player.sees("Medikit")
        away = 0 if medkit is None else medkit.x + medkit.width / 2 - 80
        player.do("TURN_LEFT" if medkit is None or away < -8 else "TURN_RIGHT" if away > 8 else "MOVE_FORWARD")
        if player.parts["health"] + player.parts["damage_taken"] > 0:
            break
    # damage taken and health differ by what medkits gave
    assert player.parts["health"] + player.parts["damage_taken"] > 0


def test_walking_pays_progress_and_cells(opened: Opened) -> None:
    player = opened("HealthGathering-v1", ["MOVE_FORWARD", "MOVE_BACKWARD"])
    start = player.doom.variables["POSITION_X"]  # it looks along x
    player.do("MOVE_FORWARD", 12)
    now = player.doom.variables["POSITION_X"]
    assert player.parts["progress"] == pytest.approx(now - start)
    assert now - start > CELL
    assert player.parts["cells"] == now // CELL - start // CELL
    before = dict(player.parts)
    player.do("MOVE_BACKWARD", 12)  # over the same ground
    assert player.parts["progress"] <= before["progress"] + 40  # it slides on before it turns round
    assert player.parts["cells"] <= before["cells"] + 1


def test_things_that_are_picked_up_pay(opened: Opened) -> None:
    player = opened("HealthGathering-v1", ["MOVE_FORWARD"])
    for thing, part in (("GreenArmor", "armour"), ("ClipBox", "ammo"), ("ArmorBonus", "items")):
        player.env.reset(seed=2)
        player.do("NOOP")
        before = player.parts[part]
        player.cheat(f"summon {thing}")
        player.do("MOVE_FORWARD", 10)
        assert player.parts[part] > before, part


def test_parts_are_for_training_and_have_names() -> None:
    cfg = EnvConfig(id="VizdoomBasic-v1", shaping={"shots": -1.0})
    env = make_env(cfg, "eval")
    env.reset(seed=0)
    attack = env.unwrapped.get_action_meanings().index("ATTACK")  # type: ignore[attr-defined]
    rewards = [float(env.step(attack)[1]) for _ in range(8)]
    assert sum(rewards) == recorder_of(env).raw_return  # what is paid is the env's own reward
    assert recorder_of(env).components["shots"] < 0  # and people see what a learner would be paid
    env.close()
    with pytest.raises(UserError, match=r"VizdoomBasic-v1 has no component 'kill'. Did you mean 'kills'"):
        validate({"env": {"id": "VizdoomBasic-v1", "shaping": {"kill": 1}}})


def test_something_is_always_allowed() -> None:
    """Without ammunition nobody shoots, but an agent that can do nothing else goes on."""
    nothing = [0.0] * len(READ)
    for actions, allowed in ((["NOOP", "ATTACK"], [True, False]), (["ATTACK"], [True])):
        assert Measures(READ, ["ATTACK"], actions).mask(nothing).tolist() == allowed
