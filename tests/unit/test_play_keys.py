"""Every action of every env can be reached by keys, by the keys that people expect."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import pytest

from gymnast import config as configs
from gymnast.config.files import preset_ids
from gymnast.core.errors import UserError
from gymnast.envs.suites.atari.task import ACTIONS
from gymnast.play.game import Game
from gymnast.play.keys import Keys, directions, shown_name
from gymnast.play.step_table import Labels, labels_of
from gymnast.runs.saved_agent import SavedAgent

IDS = [env_id for env_id in preset_ids() if not env_id.startswith("defaults/")]


def discrete(*names: str, **more: Any) -> Keys:
    return Keys(gym.spaces.Discrete(len(names)), Labels(list(names), {}, [len(names)]), **more)


@pytest.mark.parametrize("target", IDS)
def test_every_action_has_its_keys(target: str) -> None:
    config = configs.load(target).config
    try:
        game = Game(config, pictures=False)
    except UserError as error:
        pytest.skip(str(error))
    agent = SavedAgent.build(config, game.vec).agent
    labels = labels_of(agent, game.config, game.vec.action_labels, game.task)
    keys = Keys(game.vec.action_space, labels, game.turned)
    shown = {row["label"] for row in keys.rows}
    if keys.kind == "discrete":
        assert shown == set(labels.actions)
        for row in keys.rows:
            held = row["keys"] if row["together"] else row["keys"][:1]
            assert labels.actions[keys.action(held)] == row["label"]
    else:
        assert labels.bounds is not None
        for component, (low, high) in enumerate(labels.bounds):
            reached = {float(np.ravel(keys.action([code]))[component]) for code in keys.by_code}
            assert {low, high} <= reached
        assert not np.any(keys.action([]))  # no key is no force
    game.close()


def test_all_18_keys_of_an_atari_joystick() -> None:
    keys = discrete(*ACTIONS)
    wanted = {
        ("ArrowUp",): "UP",
        ("ArrowUp", "ArrowRight"): "UPRIGHT",
        ("KeyS", "KeyA", "Space"): "DOWNLEFTFIRE",
        ("Space",): "FIRE",
        (): "NOOP",
        ("KeyZ",): "NOOP",
    }
    for held, name in wanted.items():
        assert ACTIONS[keys.action(held)] == name
    # without the diagonal one of the two is taken
    assert discrete("NOOP", "UP", "RIGHT").action(["ArrowUp", "ArrowRight"]) in (1, 2)


def test_without_noop_fire_is_the_action_of_no_key() -> None:
    """Where every action presses FIRE, nothing, right and left are left to choose."""
    keys = discrete("FIRE", "RIGHTFIRE", "LEFTFIRE", turned={"right": "up", "left": "down"})
    held: tuple[list[str], ...] = ([], ["ArrowUp"], ["ArrowRight"], ["KeyS"], ["ArrowLeft"])
    assert [keys.action(codes) for codes in held] == [0, 1, 1, 2, 2]
    assert keys.idle == 0
    keys = discrete("FIRE", "RIGHT", "LEFT", turned={"right": "up", "left": "down"})
    assert [keys.action(codes) for codes in (*held, ["Space"], ["Space", "ArrowUp"])] == [0, 1, 1, 2, 2, 0, 1]
    assert discrete("pick up", "right").idle is None  # no joystick: time stands still until a key is pressed


def test_names() -> None:
    assert directions("push left") == {"left"}
    assert directions("pick up") == {"fire"}  # not the direction
    assert directions("main engine") == {"up"}
    assert directions("torque -1") == {"left"}
    assert directions("torque +1") == {"right"}
    assert directions("arm 3") == set()
    assert directions("") == set()


def test_what_no_key_does() -> None:
    assert discrete("left", "right").action([]) is None  # there is nothing that does nothing: time stands still
    assert discrete("left", "coast", "right").action([]) == 1
    assert discrete("arm 0", "arm 1").action(["Digit1"]) == 1
    assert discrete("hit", "stick").action(["Digit2"]) == 1


def test_directions_that_are_shown_otherwise() -> None:
    pong = discrete("NOOP", "RIGHT", "LEFT", turned={"right": "up", "left": "down"})
    assert [pong.action([code]) for code in ("ArrowUp", "ArrowRight", "KeyS", "ArrowLeft")] == [1, 1, 2, 2]


def test_continuous_actions() -> None:
    labels = Labels(["main engine", "side engines"], {}, None, [(-1.0, 1.0), (-1.0, 1.0)])
    keys = Keys(gym.spaces.Box(-1, 1, (2,)), labels)
    assert keys.action(["ArrowUp"]).tolist() == [1.0, 0.0]
    assert keys.action(["ArrowUp", "ArrowLeft"]).tolist() == [1.0, -1.0]
    assert keys.action(["ArrowLeft", "ArrowRight"]).tolist() == [0.0, 0.0]


def test_buttons_and_several_choices() -> None:
    buttons = Keys(gym.spaces.MultiBinary(3), Labels(["left", "right", "attack"], {}))
    assert buttons.action(["ArrowRight", "Space"]).tolist() == [0, 1, 1]
    space = gym.spaces.MultiDiscrete([3, 2])
    several = Keys(space, Labels(["0: 0", "0: 1", "0: 2", "1: 0", "1: 1"], {}, [3, 2]))
    assert several.action([]).tolist() == [0, 0]
    reached = {tuple(several.action([code]).tolist()) for code in several.by_code}
    assert reached == {(1, 0), (2, 0), (0, 1)}


def test_who_can_turn_turns_by_arrows_and_steps_aside_by_letters() -> None:
    """As in Doom."""
    names = ["NOOP", "ATTACK", "MOVE_FORWARD", "MOVE_FORWARD+TURN_LEFT", "MOVE_LEFT", "TURN_LEFT", "TURN_LEFT+ATTACK"]
    keys = discrete(*names, "MOVE_FORWARD+SPEED", "SELECT_WEAPON3", "SELECT_NEXT_WEAPON")
    wanted = {
        ("ArrowLeft",): "TURN_LEFT",
        ("KeyA",): "MOVE_LEFT",
        ("KeyW",): "MOVE_FORWARD",
        ("ArrowUp", "ArrowLeft"): "MOVE_FORWARD+TURN_LEFT",
        ("ArrowLeft", "Space"): "TURN_LEFT+ATTACK",
        ("KeyW", "ShiftLeft"): "MOVE_FORWARD+SPEED",
        ("Digit3",): "SELECT_WEAPON3",
        ("Digit1",): "SELECT_NEXT_WEAPON",
        (): "NOOP",
    }
    assert {codes: keys.labels.actions[keys.action(codes)] for codes in wanted} == wanted
    buttons = Keys(gym.spaces.MultiBinary(3), Labels(["MOVE_LEFT", "TURN_LEFT", "ATTACK"], {}, None))
    assert buttons.action(["KeyA", "ArrowLeft"]).tolist() == [1, 1, 0]


def test_a_turned_action_is_called_by_the_direction_that_people_see() -> None:
    turned = {"right": "up", "left": "down"}
    shown = {"NOOP": "NOOP", "FIRE": "FIRE", "RIGHT": "up (RIGHT)", "LEFTFIRE": "down + fire (LEFTFIRE)"}
    assert {name: shown_name(name, turned) for name in shown} == shown
    assert shown_name("RIGHT", {}) == "RIGHT"
