"""Play step by step: the same episodes as evaluation, masks for everybody, and a bounded history."""

from __future__ import annotations

import numpy as np
import pytest

from gymnast import config as configs
from gymnast.core.errors import UserError
from gymnast.envs.make import make_vec
from gymnast.judge.evaluate import evaluate
from gymnast.play import session as play_session
from gymnast.play.game import Game
from gymnast.play.player import episode_seed
from gymnast.play.session import PlaySession
from gymnast.runs.saved_agent import SavedAgent
from tests.envs_for_tests import full_id


def session_of(target: str, *overrides: str) -> PlaySession:
    config = configs.load(target, overrides).config
    game = Game(config, pictures=False)
    net = SavedAgent.build(config, game.vec).net
    return PlaySession(game, lambda name: net, net)


@pytest.mark.parametrize("target", ["CartPole-v1", "Pendulum-v1", "FrozenLake-v1", "MinAtar/Breakout-v1", "Taxi-v4"])
def test_greedy_play_is_evaluation(target: str) -> None:
    """Episode by episode: the same seeds, the same env, the same actions, so the same returns and lengths."""
    session, count, root = session_of(target), 4, 31
    thinker = session.thinker("greedy", None)
    assert thinker is not None
    env = make_vec(configs.load(target).config.eval_env, count, "eval")
    scores = evaluate(thinker.net, env, count, root, deterministic=True)
    env.close()
    played = []
    for i in range(count):
        trace = session.begin(episode_seed(root, i), "greedy")
        list(session.play_out("greedy"))
        played.append((trace.total, trace.length))
    expected = zip(scores.returns.tolist(), scores.lengths.tolist(), strict=True)
    np.testing.assert_allclose(sorted(played), sorted(expected), rtol=1e-9)
    session.close()


@pytest.mark.parametrize("policy", ["random", "untrained", "sampled", "greedy"])
def test_nobody_does_what_is_masked(policy: str) -> None:
    session = session_of(full_id("Masked-v0"), "env.action_masks=true", "env.max_episode_steps=50")
    for seed in range(4):
        trace = session.begin(seed, policy)
        for _ in range(12):
            if trace.outcome is None:
                session.advance(policy)
        for step in trace.steps:
            assert step.mask is not None
            assert step.mask[step.action]
            assert np.all(np.array(step.choices["probability"])[~step.mask] == 0)
    session.close()


def test_sampled_play_repeats_itself_and_differs_by_seed() -> None:
    session = session_of("CartPole-v1")
    actions = []
    for seed in (1, 1, 2):
        trace = session.begin(seed, "sampled")
        list(session.play_out("sampled"))
        actions.append(trace.actions)
    assert actions[0] == actions[1] != actions[2]
    session.close()


def test_an_agent_remembers_what_it_watched() -> None:
    """A human plays some steps; when the agent takes over it knows them, as if it had played itself."""
    session = session_of("gymnast/Corridor-v0", "agent.memory=lstm")
    own = session.begin(8, "greedy")
    list(session.play_out("greedy"))
    shared = session.begin(8, "human")
    for t in range(4):
        session.advance("human", own.steps[t].action)
    list(session.play_out("greedy"))
    assert shared.actions == own.actions
    assert [step.value for step in shared.steps] == [step.value for step in own.steps]
    session.close()


def test_an_episode_that_goes_on_elsewhere_is_not_exact() -> None:
    session = session_of("CartPole-v1")
    trace = session.begin(5, "random")
    session.advance("random")
    session.lose_place()  # another moment was looked at
    session.advance("random")
    assert trace.exact
    session.game.env.unwrapped.gravity = 30.0  # type: ignore[attr-defined]
    session.lose_place()
    session.advance("random")
    assert not trace.exact
    session.close()


def test_each_step_knows_its_checkpoint() -> None:
    session = session_of("CartPole-v1")
    parent = session.begin(1, "sampled", "best")
    for checkpoint in ("best", "last", "last"):
        session.advance("sampled", checkpoint=checkpoint)
    assert parent.checkpoints == ["best", "last", "last"]
    branch = session.branch(parent, 2, 0, "sampled", "best")
    assert branch.checkpoints == ["best", "last", "best"]
    session.close()


def test_history_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(play_session, "MOST_EPISODES", 3)
    session = session_of("CartPole-v1")
    for seed in range(5):
        session.begin(seed, "random")
        session.advance("random")
    assert list(session.traces) == [3, 4, 5]
    with pytest.raises(UserError, match="too old"):
        session.find(1)
    monkeypatch.setattr(play_session, "MOST_BYTES", 1)
    session.begin(9, "random")
    assert list(session.traces) == [6]  # the one that is played stays
    session.close()
