"""env.forbid: what is left of each kind of action space, its labels, its masks, and what is refused."""

from __future__ import annotations

import itertools
import math
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from gymnasium import spaces

from gymnast.agent.heads import make_head
from gymnast.config import AgentConfig, EnvConfig
from gymnast.core.errors import EnvFailure, UserError
from gymnast.envs.forbid import MOST, Forbid, find_forbid
from gymnast.envs.make import make_env, make_vec
from gymnast.verbs.envs.check import check_env
from tests.envs_for_tests import full_id

PAD = ["left", "right", "fire"]


class Spy(gym.Env[Any, Any]):
    """Remembers the last action; refuses one outside its space."""

    def __init__(self, action_space: gym.Space[Any], names: list[str] | None, mask: Any = None) -> None:
        self.observation_space, self.action_space = spaces.Box(0, 1, (1,), np.float32), action_space
        self.mask, self.last = mask, None
        if names is not None:
            self.get_action_meanings = lambda: names

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        return np.zeros(1, np.float32), self.info()

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        assert self.action_space.contains(action), action
        self.last = np.copy(action).tolist()
        return np.zeros(1, np.float32), 0.0, False, False, self.info()

    def info(self) -> dict[str, Any]:
        return {} if self.mask is None else {"action_mask": self.mask}


def forbidding(space: gym.Space[Any], names: list[str] | None, *forbid: list[str], **more: Any) -> Any:
    mask = more.pop("mask", None)
    cfg = EnvConfig(id="mine", forbid=list(forbid), action_masks=mask is not None, **more)
    return make_env(cfg, factory=lambda: Spy(space, names, mask))


def every_action(space: gym.Space[Any]) -> list[Any]:
    if isinstance(space, spaces.Discrete):
        return list(range(int(space.n)))
    assert isinstance(space, spaces.MultiDiscrete)
    return [np.array(action) for action in itertools.product(*map(range, space.nvec.tolist()))]


def reached(env: gym.Env[Any, Any]) -> list[Any]:
    """What reaches the env when every action of the agent is taken once."""
    env.reset()
    found = []
    for action in every_action(env.action_space):
        env.step(action)
        found.append(env.unwrapped.last)  # type: ignore[attr-defined]
    return found


@pytest.mark.parametrize(
    ("space", "names", "forbid", "sizes", "labels", "allowed"),
    [
        # 3 of the 4 combinations of left and right; fire is independent of them
        (
            spaces.MultiBinary(3),
            PAD,
            [["left", "RIGHT"]],
            [3, 2],
            [["no left/right", "right", "left"], ["no fire", "fire"]],
            lambda bits: not (bits[0] and bits[1]),
        ),
        # a chain links all three: 8 less the 2 with left and right and the 2 with right and fire, which share one: 5
        (
            spaces.MultiBinary(3),
            PAD,
            [["left", "right"], ["right", "fire"]],
            [5],
            [["no left/right/fire", "fire", "right", "left", "left+fire"]],
            lambda bits: not (bits[0] and bits[1]) and not (bits[1] and bits[2]),
        ),
        (
            spaces.MultiBinary(3),
            None,
            [["action 1"]],
            [2, 1, 2],
            [["no action 0", "action 0"], ["no action 1"], ["no action 2", "action 2"]],
            lambda bits: not bits[1],
        ),
        # components 0 and 2 are linked, although 1 lies between them
        (
            spaces.MultiDiscrete([3, 2, 2]),
            ["stay", "left", "right", "stand", "duck", "hold", "fire"],
            [["left", "fire"]],
            [5, 2],
            [["stay+hold", "stay+fire", "left+hold", "right+hold", "right+fire"], ["stand", "duck"]],
            lambda parts: not (parts[0] == 1 and parts[2] == 1),
        ),
        (
            spaces.MultiDiscrete([3, 2], start=[5, 1]),
            None,
            [["0: 1"]],
            [2, 2],
            [["0: 0", "0: 2"], ["1: 0", "1: 1"]],
            lambda parts: parts[0] != 6,
        ),
        (spaces.Discrete(3), PAD, [["fire"]], [2], [["left", "right"]], lambda action: action != 2),
        # the label of a Discrete action may be a combination itself
        (
            spaces.Discrete(4, start=-1),
            [*PAD, "left+fire"],
            [["left", "fire"]],
            [3],
            [PAD],
            lambda action: action != 2,
        ),
        (spaces.Discrete(4), [*PAD, "left+fire"], [["fire"]], [2], [["left", "right"]], lambda action: action < 2),
        (spaces.Discrete(2), ["torque -1", "torque +1"], [["torque +1"]], [1], [["torque -1"]], lambda a: a == 0),
    ],
)
def test_what_is_left(space: Any, names: Any, forbid: Any, sizes: Any, labels: Any, allowed: Any) -> None:
    env = forbidding(space, names, *forbid)
    single = isinstance(env.action_space, spaces.Discrete)
    assert ([env.action_space.n] if single else env.action_space.nvec.tolist()) == sizes
    layer = find_forbid(env)
    assert layer is not None
    assert layer.labels == labels
    if isinstance(space, spaces.Discrete):
        everything: list[Any] = [int(space.start) + i for i in range(int(space.n))]
    else:
        starts, counts = ([0] * 3, [2] * 3) if isinstance(space, spaces.MultiBinary) else (space.start, space.nvec)
        ranges = [range(start, start + count) for start, count in zip(starts, counts, strict=True)]
        everything = [list(map(int, action)) for action in itertools.product(*ranges)]
    found = reached(env)
    assert sorted(found) == [action for action in everything if allowed(action)]  # each of them, and nothing else
    assert len(found) == math.prod(sizes)  # and each of them once


def test_the_distribution_is_one_over_what_is_allowed() -> None:
    """Log-probabilities of the 6 allowed actions add up to 1, the entropy is theirs, and it is at most log 6."""
    env = forbidding(spaces.MultiBinary(3), PAD, ["left", "right"])
    head = make_head(env.action_space, AgentConfig(), 1)
    outputs = torch.randn(1, head.n_outputs, generator=torch.Generator().manual_seed(0))
    actions = every_action(env.action_space)
    logps = torch.cat([head.evaluate(outputs, torch.tensor(action)[None])[0] for action in actions])
    assert len(actions) == 6
    assert float(logps.exp().sum()) == pytest.approx(1.0)
    entropy = head.evaluate(outputs, torch.tensor(actions[0])[None])[1]
    assert float(entropy) == pytest.approx(float(-(logps.exp() * logps).sum()))
    assert head.uniform_entropy == pytest.approx(math.log(6))


@pytest.mark.parametrize(
    ("space", "names", "forbid", "mask", "expected"),
    [
        # right is masked: of [none, right, left] the second is out; of [none, fire] nothing
        (spaces.MultiBinary(3), PAD, [["left", "right"]], [1, 0, 1], [1, 0, 1, 1, 1]),
        (spaces.MultiBinary(3), PAD, [["left", "right"]], [0, 0, 0], [1, 0, 0, 1, 0]),
        # [0: 0+1: 0, 0: 0+1: 1, 0: 1+1: 0], where 1: 1 is masked
        (spaces.MultiDiscrete([2, 2]), None, [["0: 1", "1: 1"]], [1, 1, 1, 0], [1, 0, 1]),
        (spaces.Discrete(3), PAD, [["right"]], [0, 1, 1], [0, 1]),
    ],
)
def test_masks_of_the_env_and_forbid_hold_both(space: Any, names: Any, forbid: Any, mask: Any, expected: Any) -> None:
    env = forbidding(space, names, *forbid, mask=np.array(mask, np.int8))
    for info in (env.reset()[1], env.step(every_action(env.action_space)[0])[4]):
        assert info["action_mask"].tolist() == [bool(one) for one in expected]


def test_the_masks_that_leave_nothing_are_named_with_env_and_component() -> None:
    cfg = EnvConfig(id="mine", action_masks=True, forbid=[["0: 1", "2: 1"]])
    mask = np.array([0, 1, 1, 1, 0, 1])  # component 0 must be 1 and component 2 must be 1, which is forbidden

    def spy() -> Spy:
        return Spy(spaces.MultiDiscrete([2, 2, 2]), None, mask)

    with pytest.raises(
        EnvFailure, match=r"env 0, after a reset, allows nothing in component 0 .*0: 0\+2: 0.*env.forbid"
    ):
        make_vec(cfg, 2, "train", spy).reset(0)
    mask = mask[:-1]
    with pytest.raises(EnvFailure, match=r"info\['action_mask'\] has 5 entries, needs 6"):
        make_vec(cfg, 2, "train", spy).reset(0)


@pytest.mark.parametrize(
    ("space", "forbid", "message"),
    [
        (
            spaces.Discrete(3),
            [["lift"]],
            r"there is no action 'lift'. Did you mean 'left'\? Known: left, right, fire\.",
        ),
        (spaces.Discrete(3), [["left"], ["right"], ["fire"]], r"leaves nothing of left/right/fire"),
        (
            spaces.Discrete(3),
            [["left", "right"]],
            r"never one action here. To forbid each of them: \[\[left\], \[right\]\]",
        ),
        (spaces.MultiDiscrete([2, 1]), [["left", "right"]], r"\[left, right\] is never one action here"),
        (spaces.MultiDiscrete([2, 1]), [["fire"]], r"leaves nothing of fire"),
        (spaces.Box(0, 1, (3,)), [["left"]], r"needs Discrete, MultiDiscrete or MultiBinary actions; this env has Box"),
    ],
)
def test_refused(space: gym.Space[Any], forbid: list[list[str]], message: str) -> None:
    with pytest.raises(UserError, match=rf"^env.forbid: .*{message}"):
        forbidding(space, PAD, *forbid)


def test_too_many_linked_buttons_are_refused() -> None:
    buttons = [f"action {i}" for i in range(13)]
    assert MOST == 2**12
    assert isinstance(forbidding(spaces.MultiBinary(12), None, buttons[:12]), Forbid)
    with pytest.raises(UserError, match=r"links 13 components .* 8,192 combinations, more than 4,096"):
        forbidding(spaces.MultiBinary(13), None, buttons)
    # pairs link little, however many buttons there are
    env = forbidding(spaces.MultiBinary(40), None, ["action 0", "action 1"], ["action 2", "action 3"])
    assert env.action_space.nvec.tolist() == [3, 3, *[2] * 36]


def test_wrappers_see_the_allowed_actions_alone() -> None:
    """Random actions of `action_noise` are allowed ones; `action_remap` would count other actions than it says."""
    env = forbidding(spaces.MultiBinary(3), PAD, ["left", "right"], wrappers=[{"action_noise": {"p": 1.0}}])
    env.reset(seed=0)
    seen = set()
    for _ in range(300):
        env.step(np.array([0, 0]))
        seen.add(tuple(env.unwrapped.last))
    assert len(seen) == 6
    assert not any(left and right for left, right, _ in seen)
    with pytest.raises(UserError, match=r"env.forbid: the wrapper action_remap lists .* Drop one of the two"):
        forbidding(spaces.MultiBinary(3), PAD, ["left"], wrappers=[{"action_remap": {"actions": [[0, 0, 0]]}}])


@pytest.mark.parametrize(
    ("env_id", "forbid", "sync"),
    [
        ("CartPole-v1", [["push left"]], "cartpole"),
        ("ALE/Pong-v5", [["FIRE"]], "ale"),
        ("Acrobot-v1", [["torque 0"]], "envpool"),
    ],
)
def test_engines_with_envs_of_their_own_refuse_it(env_id: str, forbid: list[list[str]], sync: str) -> None:
    with pytest.raises(UserError, match=rf"env.engine: {sync} cannot run this env: it takes all actions .* env.forbid"):
        make_vec(EnvConfig(id=env_id, engine=sync, forbid=forbid), 8, "train")


def test_names_of_the_presets_are_known() -> None:
    env = make_env(EnvConfig(id="ALE/Pong-v5", forbid=[["RIGHTFIRE"], ["LEFTFIRE"], ["noop"]]))
    layer = find_forbid(env)
    env.close()
    assert layer is not None
    assert layer.labels == [["FIRE", "RIGHT", "LEFT"]]
    assert layer.actions == [1, 2, 3]


def test_envs_check_names_what_is_left_and_keeps_to_it() -> None:
    """Random actions, too; the env raises at what is forbidden or masked."""
    rules = ["env.action_masks=true", "env.forbid=[[left, right]]"]
    data = check_env(full_id("Pad-v0"), rules, 50).data
    assert data["actions_left"] == ["no left/right", "right", "left", "no fire", "fire"]
    assert check_env("CartPole-v1", [], 5).data["actions_left"] is None
