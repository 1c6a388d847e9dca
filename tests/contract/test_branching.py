"""Any step of any episode can be gone on from, in every env that has a preset: by its seed and actions, and by a copy
of the env where its suite has one. An env joins by having a preset."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from gymnast import config as configs
from gymnast.config.files import preset_ids
from gymnast.core.errors import UserError
from gymnast.envs.suites import suite_of
from gymnast.play.game import Game
from gymnast.play.random_actions import same_actions
from gymnast.play.session import ANCHOR_EVERY, PlaySession
from gymnast.play.trace import Trace
from gymnast.runs.saved_agent import SavedAgent

STEPS = 2 * ANCHOR_EVERY + 8  # two copies on the way, and some steps after them
REPLAYED = {"box2d", "vizdoom"}  # families whose suites have no copies
# Scenarios of Doom are one engine with other maps, and take seconds each: these stand for all but in `make learn`
DOOM = ("VizdoomBasic-v1", "VizdoomDeathmatch-v1")
IDS = [
    pytest.param(env_id, marks=[pytest.mark.slow] if env_id.startswith("Vizdoom") and env_id not in DOOM else [])
    for env_id in preset_ids()
    if not env_id.startswith("defaults/")
]


def session_of(target: str, *overrides: str, pictures: bool = False) -> PlaySession:
    config = configs.load(target, overrides).config
    if missing := suite_of(config.env.id).missing:
        pytest.skip(missing)
    try:
        game = Game(config, pictures=pictures)
    except UserError as error:
        if "not installed" in str(error):
            pytest.skip(str(error))
        raise
    return PlaySession(game, lambda name: None, SavedAgent.build(config, game.vec).net)


@pytest.fixture
def session(request: pytest.FixtureRequest) -> Iterator[PlaySession]:
    made = session_of(*([request.param] if isinstance(request.param, str) else request.param))
    yield made
    made.close()


def played(session: PlaySession, seed: int, policy: str = "untrained", steps: int = STEPS) -> Trace:
    """An episode of at most so many steps."""
    trace = session.begin(seed, policy)
    for _ in range(steps):
        if trace.outcome is None:
            session.advance(policy)
    return trace


def the_rest(trace: Trace, at: int) -> list[Any]:
    steps = [(step.action, step.reward, step.terminated, step.truncated, step.value) for step in trace.steps[at:]]
    return [trace.marks[at:], steps]


def other_action(session: PlaySession, trace: Trace, t: int) -> Any:
    """One that the env allows and that was not taken, if there is any."""
    mask = trace.steps[t].mask
    rows = None if mask is None else mask[None]
    found = [same_actions(session.game.engine, rows, seed)[0] for seed in range(20)]
    return next((one for one in found if not np.array_equal(one, trace.steps[t].action)), found[0])


def go_on(session: PlaySession, trace: Trace, steps: int) -> None:
    while trace.outcome is None and trace.length < steps:
        session.advance("untrained")


def check_that_branches_go_on(session: PlaySession) -> None:
    """With the same action and the same luck it is the same episode, however its step was reached."""
    trace = played(session, 7)
    for at in sorted({0, trace.length // 3, trace.length - 1}):
        by_copies = session.branch(trace, at, None, "untrained")
        go_on(session, by_copies, trace.length)
        assert by_copies.exact
        anchors, trace.anchors = trace.anchors, {}
        session.lose_place()
        by_replay = session.branch(trace, at, None, "untrained")
        go_on(session, by_replay, trace.length)
        trace.anchors = anchors
        assert by_replay.exact
        assert the_rest(by_copies, at) == the_rest(by_replay, at) == the_rest(trace, at)
        assert by_copies.marks[: at + 1] == trace.marks[: at + 1]


@pytest.mark.parametrize("session", IDS, indirect=True)
def test_a_branch_goes_on_as_the_episode_did_and_another_action_leaves_the_past_as_it_was(session: PlaySession) -> None:
    check_that_branches_go_on(session)
    check_that_the_past_stays(session)
    facts = configs.load_facts(session.game.config.id)
    assert facts is not None
    assert session.game.has_copies == (facts.family not in REPLAYED)


def check_that_the_past_stays(session: PlaySession) -> None:
    """Another action than the one that was taken, in the middle of an episode."""
    trace = played(session, 11)
    at = trace.length // 2
    action = other_action(session, trace, at)
    before = list(trace.marks)
    branch = session.branch(trace, at, action, "random")
    assert branch.exact
    assert branch.parent == trace.n
    assert branch.at == at
    assert np.array_equal(branch.steps[at].action, action)
    assert branch.marks[: at + 1] == before[: at + 1]
    assert branch.steps[:at] == trace.steps[:at]
    assert trace.marks == before  # and the parent's future too
    # back to the parent's end, from wherever the branch has led
    assert session.go_to(trace, trace.length)


@pytest.mark.parametrize(
    "session",
    [
        (
            "CartPole-v1",
            "env.wrappers=[{frame_stack: {n: 3}}, {observation_noise: {std: 0.1}}, {time_limit: {steps: 60}}]",
        ),
        ("CartPole-v1", "env.wrappers=[{sticky_actions: {p: 0.5}}, {frame_skip: {low: 1, high: 3}}]"),
        ("ALE/Pong-v5:objects", "env.kwargs.stack=2"),
        ("ALE/Pong-v5:ram", "env.kwargs.stack=2", "env.wrappers=[]"),
        ("ALE/Pong-v5:cnn", "env.kwargs.show_action=true"),
        ("gymnast/Corridor-v0", "agent.memory=lstm", "env.kwargs.length=40"),
        ("Pendulum-v1", "agent.std=sde", "agent.sde_sample_freq=4"),
    ],
    indirect=True,
    ids=["stack and noise", "sticky and skip", "objects", "ram", "shown actions", "memory", "sde"],
)
def test_what_is_around_an_env_is_put_back_too(session: PlaySession) -> None:
    """Frame stacks, the wrappers' own generators, elapsed steps, an agent's memory and its lasting noise."""
    check_that_branches_go_on(session)


@pytest.mark.parametrize(
    "session", ["FrozenLake-v1", "ALE/Pong-v5", "MinAtar/Asterix-v0", "gymnast/Bandit-v0"], indirect=True
)
def test_other_luck_is_other_and_can_be_repeated(session: PlaySession) -> None:
    """With the same actions: the env's own randomness differs by the seed of the branch, and by nothing else."""
    trace = played(session, 3, "random", 1)
    outcomes = []
    for seed in (1, 1, 2, 3, 4, 5, 6, 7):
        branch = session.branch(trace, 0, trace.steps[0].action, "random", seed=seed)
        actions = [same_actions(session.game.engine, None, i)[0] for i in range(40)]
        for action in actions:
            if branch.outcome is None:
                session.advance("human", action)
        outcomes.append((branch.marks, [step.reward for step in branch.steps]))
        # reached again by replay, the luck included
        session.lose_place()
        branch.anchors = {}
        assert session.go_to(branch, branch.length)
    assert outcomes[0] == outcomes[1]
    assert any(other != outcomes[0] for other in outcomes[2:])


@pytest.mark.parametrize("target", ["ALE/Pong-v5", "MinAtar/Freeway-v1", "MountainCar-v0", "Acrobot-v1", "Taxi-v4"])
def test_the_picture_of_any_step_is_the_one_that_was_seen(target: str) -> None:
    """After a jump by a copy, on the way from one, and at a copy of a copy. Not of Box2D: LunarLander's smoke fades and
    BipedalWalker's ray turns with every picture that is drawn, so that they depend on who looked before."""
    session = session_of(target, pictures=True)
    trace = session.begin(4, "random")
    seen = [session.game.picture()]
    for _ in range(ANCHOR_EVERY + 5):
        if trace.outcome is None:
            session.advance("random")
            seen.append(session.game.picture())
    for t in (ANCHOR_EVERY, 3, ANCHOR_EVERY + 2, ANCHOR_EVERY, 0):
        session.lose_place()
        assert session.go_to(trace, t)
        np.testing.assert_array_equal(session.game.picture(), seen[t])
        if (kept := session.game.save()) is not None:
            session.game.load(kept)
            np.testing.assert_array_equal(session.game.picture(), seen[t])
    session.close()


def test_an_env_that_does_not_repeat_itself_is_reported() -> None:
    """What it shows at the step is not what it showed: `exact` is False."""
    session = session_of("CartPole-v1")
    trace = played(session, 5, steps=12)
    session.game.env.unwrapped.gravity = 30.0  # type: ignore[attr-defined]
    session.lose_place()
    assert not session.go_to(trace, 10)
    assert not session.branch(trace, 10, None, "untrained").exact
    session.game.env.unwrapped.theta_threshold_radians = 0.0  # type: ignore[attr-defined]
    session.lose_place()
    with pytest.raises(UserError, match="not exact"):  # it is over after a step
        session.branch(trace, 10, None, "untrained")
    session.close()
