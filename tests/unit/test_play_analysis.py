"""What Studio says of an episode, on paper and against slopes that are measured."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch

from gymnast import config as configs
from gymnast.play import insight
from gymnast.play.analysis import advantages, flags_of, ledger, numbers_of, returns_to_go, why_incomparable
from gymnast.play.episode import Step
from gymnast.play.game import Game
from gymnast.play.insight import Situation
from gymnast.play.session import PlaySession
from gymnast.play.thinker import entropy_of
from gymnast.play.trace import Trace
from gymnast.rl.returns import gae
from gymnast.runs.saved_agent import SavedAgent


def trace_of(rewards: list[float], values: list[float], outcome: str = "terminated", n: int = 1, **more: Any) -> Trace:
    trace = Trace(n, 0, "sampled", None, outcome=outcome, **more)
    total = 0.0
    for t, (reward, value) in enumerate(zip(rewards, values, strict=True)):
        ended = outcome == "terminated" and t == len(rewards) - 1
        trace.add(Step(0, t, {}, reward=reward, value=value, total=total, terminated=ended), "sampled", 0.5)
        total += reward
    return trace


def session_of(target: str, *overrides: str) -> tuple[PlaySession, Any]:
    config = configs.load(target, overrides).config
    game = Game(config, pictures=False)
    return PlaySession(game, lambda name: None, SavedAgent.build(config, game.vec).net), config


def test_returns_to_go() -> None:
    # 1 + 0.5 * (2 + 0.5 * 4) = 3; 2 + 0.5 * 4 = 4; 4
    assert returns_to_go(trace_of([1, 2, 4], [0, 0, 0]), 0.5) == [3.0, 4.0, 4.0]
    # cut: what comes after it would count 0.5 ** (8 - t), which is below 1 % for t = 0 and t = 1 alone
    cut = returns_to_go(trace_of([1.0] * 8, [0.0] * 8, "truncated"), 0.5)
    assert [one is not None for one in cut] == [True, True, *[False] * 6]
    assert cut[0] == pytest.approx(2 * (1 - 0.5**8))


def test_advantages_are_the_learners() -> None:
    """By hand, and by the function that training calls, with lambda and gamma of any size."""
    ended = trace_of([1.0, 2.0], [0.5, 0.25])
    # deltas: 1 + 0.5 * 0.25 - 0.5 = 0.625 and 2 - 0.25 = 1.75; advantage 0.625 + 0.5 * 0.5 * 1.75
    found = advantages(ended, 0.5, 0.5, final_value=99.0)
    assert found["advantage"] == pytest.approx([0.625 + 0.25 * 1.75, 1.75])
    assert found["return"] == pytest.approx([0.625 + 0.25 * 1.75 + 0.5, 2.0])
    cut = trace_of([1.0, 2.0], [0.5, 0.25], "truncated")
    # the last delta has 0.5 * 8 of what is expected after the cut
    assert advantages(cut, 0.5, 0.5, final_value=8.0)["advantage"][1] == pytest.approx(2 + 4 - 0.25)
    rng = np.random.default_rng(0)
    rewards, values = rng.normal(size=9).tolist(), rng.normal(size=9).tolist()
    column = lambda numbers: torch.tensor(numbers, dtype=torch.float64)[:, None]  # noqa: E731
    last = torch.zeros(9, 1, dtype=torch.bool)
    last[-1] = True
    expected, _ = gae(
        column(rewards), column(values), column([3.0])[0], column([3.0] * 9), ~last & last, last, 0.9, 0.7
    )
    found = advantages(trace_of(rewards, values, "truncated"), 0.9, 0.7, 3.0)
    assert found["advantage"] == pytest.approx(expected[:, 0].tolist(), abs=0)


def test_a_ledger_adds_up() -> None:
    trace = Trace(1, 0, "greedy", None)
    for t, (alive, cost) in enumerate([(1.0, -0.25), (1.0, -0.5)]):
        step = Step(0, t, {}, reward=alive + cost + 0.1, total=trace.total, components={"alive": alive, "cost": cost})
        trace.add(step, "greedy", None)
    found = ledger(trace)
    assert found["parts"] == [{"name": "alive", "sum": 2.0}, {"name": "cost", "sum": -0.75}]
    assert found["rest"] == pytest.approx(0.2)  # what the env did not name
    assert sum(part["sum"] for part in found["parts"]) + found["rest"] == found["total"]


def test_flags() -> None:
    good, bad, long = trace_of([5.0], [5.0], n=1), trace_of([0.0], [3.0], n=2), trace_of([1.0] * 4, [0.0] * 4, n=3)
    long.entropies = [0.9] * 4
    open_ = trace_of([-9.0], [0.0], n=4)
    open_.outcome = None  # not over: nothing to say yet
    cut = trace_of([-1.0] * 9, [0.0] * 9, "cut", n=5)  # cancelled: it is no whole episode
    traces = [good, bad, long, open_, cut]
    numbers = numbers_of(traces, [1, 2, 3], 1.0)
    # errors: 0; 3; (4 + 3 + 2 + 1) / 4
    assert [numbers[n]["value_error"] for n in (1, 2, 3)] == [0.0, 3.0, 2.5]
    assert flags_of(traces, numbers) == {1: [], 2: ["worst", "value_error"], 3: ["longest", "entropy"], 4: [], 5: []}
    assert flags_of([good, good], numbers) == {1: []}  # all alike: nothing stands out
    assert numbers_of(traces, [], 1.0)[2]["value_error"] is None


def test_a_value_is_compared_only_with_what_it_estimates() -> None:
    session, config = session_of("CartPole-v1")
    trace = trace_of([1.0], [1.0])
    assert why_incomparable(trace, config, session.game) is None
    trace.who = ["human"]
    assert "human" in str(why_incomparable(trace, config, session.game))
    trace.who = ["sampled"]
    for setting, word in (
        ("env.shaping={centring: 0.1}", "shaping"),
        ("env.reward.clip=0.5", "clipped"),
        ("eval.env={max_episode_steps: 50}", "eval.env"),
    ):
        changed = configs.override(config, [setting])
        assert word in str(why_incomparable(trace, changed, session.game)), setting
    assert why_incomparable(trace, configs.override(config, ["env.reward.clip=1"]), session.game) is None  # never cut
    trace.outcome = "truncated"
    assert "cut" in str(why_incomparable(trace, configs.override(config, ["algo.gamma=1"]), session.game))
    trace.outcome = None
    assert "not over" in str(why_incomparable(trace, config, session.game))
    session.close()


def test_a_value_of_two_networks_is_not_compared() -> None:
    session, config = session_of("CartPole-v1")
    trace = trace_of([1.0, 1.0], [1.0, 1.0])
    trace.who = ["sampled", "untrained"]  # the untrained network took over: the episode began with another policy
    assert "untrained" in str(why_incomparable(trace, config, session.game))
    trace.who, trace.checkpoints = ["sampled", "sampled"], ["best", "last"]
    assert "Two checkpoints" in str(why_incomparable(trace, config, session.game))
    assert why_incomparable(trace.branch(2, 1, "sampled", "last"), config, session.game) == "The episode is not over."
    assert trace.branch(2, 1, "sampled", "last").networks == {"best"}
    trace.checkpoints = ["last", "last"]
    assert why_incomparable(trace, config, session.game) is None
    session.close()


def test_what_ends_an_episode_in_training_only() -> None:
    breakout, config = session_of("ALE/Breakout-v5")
    assert "life" in str(
        why_incomparable(trace_of([1.0], [1.0]), configs.override(config, ["env.reward.clip=null"]), breakout.game)
    )
    breakout.close()
    pong, config = session_of("ALE/Pong-v5")
    assert "a point (episodic_points) ended the episode" in str(
        why_incomparable(trace_of([1.0], [1.0]), config, pong.game)
    )
    pong.close()
    pong, config = session_of("ALE/Pong-v5", "env.kwargs.episodic_points=false")
    assert why_incomparable(trace_of([1.0], [1.0]), config, pong.game) is None  # rewards of -1 to 1 are not clipped
    pong.close()


def test_entropies() -> None:
    assert entropy_of({"probability": [0.5, 0.25, 0.25]}, [3]) == pytest.approx(1.5 * math.log(2))
    assert entropy_of({"probability": [1.0, 0.0]}, [2]) == 0.0
    assert entropy_of({"probability": [0.5, 0.5, 0.5, 0.5]}, [2, 2]) == pytest.approx(2 * math.log(2))  # two choices
    assert entropy_of({"probability": [0.5, 1.0]}, None) == pytest.approx(math.log(2))  # two bits
    assert entropy_of({"mean": [9.0], "std": [2.0]}, None) == pytest.approx(0.5 * math.log(2 * math.pi * math.e * 4))


@pytest.fixture
def here(request: pytest.FixtureRequest) -> Iterator[tuple[Any, Situation]]:
    """An untrained agent in the middle of an episode; its last layer is widened, or it would not care what it sees."""
    session, _ = session_of(*request.param)
    trace = session.begin(2, "untrained")
    for _ in range(5):
        session.advance("untrained")
    thinker = session.thinker("untrained", None)
    assert thinker is not None
    with torch.no_grad():
        thinker.net.agent.actor_out.weight.mul_(100)
    session.recall(thinker, trace, 5)
    state = {key: rows[0].numpy() for key, rows in thinker.state.items()}
    yield thinker.net, Situation(trace.obs(5), state, None, False)
    session.close()


@pytest.mark.parametrize(
    "here",
    [
        ["CartPole-v1"],
        ["CartPole-v1", "agent.memory=lstm", "agent.sequence_length=1"],
        ["LunarLander-v3", "agent.normalize_obs=true"],
    ],
    indirect=True,
    ids=["mlp", "lstm", "normalised"],
)
def test_slopes_are_those_that_are_measured(here: tuple[Any, Situation]) -> None:
    """Each number is moved a little to both sides, and what changes is looked at."""
    net, situation = here
    (slopes,) = insight.gradient(net, situation).values()
    thoughts = net.agent.describe(situation.batch(net))
    best = int(thoughts["probability"][0].argmax())
    size = 1e-2
    for i in range(len(situation.obs["obs"])):
        ends = []
        for side in (size, -size):
            moved = situation.obs["obs"].copy()
            moved[i] += side
            seen = Situation({"obs": moved}, situation.state, None, False)
            found = net.agent.describe(seen.batch(net))
            ends.append((float(found["probability"][0, best].log()), float(found["value"][0])))
        measured = [abs(a - b) / (2 * size) for a, b in zip(*ends, strict=True)]
        assert slopes["action"][i] == pytest.approx(measured[0], rel=0.05, abs=2e-3)
        assert slopes["value"][i] == pytest.approx(measured[1], rel=0.05, abs=2e-3)


@pytest.mark.parametrize("here", [["ALE/Pong-v5:cnn"]], indirect=True)
def test_pictures_maps_and_filters(here: tuple[Any, Situation]) -> None:
    net, situation = here
    (slopes,) = insight.gradient(net, situation).values()
    assert slopes["action"].shape == (2, 42, 42)
    assert slopes["action"].max() > 0
    found = insight.occlusion(net, situation, "obs")
    assert found["value"].shape == (11, 11)  # patches of 4 x 4 pixels
    assert found["value"].max() > 0
    # a picture of one colour has nothing to cover
    blank = Situation({"obs": np.full_like(situation.obs["obs"], 7)}, {}, None, False)
    assert insight.occlusion(net, blank, "obs")["value"].max() < 1e-5
    maps, kernels = insight.activations(net, situation), insight.filters(net)
    assert [name for name, _ in maps] == [name for name, _ in kernels]
    assert [kernel.shape for _, kernel in kernels] == [(16, 2, 8, 8), (32, 16, 4, 4)]
    # the first layer's maps, computed again by torch's own convolution from the kernels that are shown
    (layer,) = [module for name, module in insight.convolutions(net) if name == maps[0][0]]
    picture = torch.as_tensor(situation.obs["obs"]).float()[None]
    if layer.norm is not None:
        picture = layer.norm(picture)
        scale = float(layer.norm.scale)
    else:
        scale = layer.scale
    again = torch.nn.functional.conv2d(
        picture, torch.as_tensor(kernels[0][1]).float() * scale, layer.bias, layer.stride, layer.padding
    )
    np.testing.assert_allclose(maps[0][1], again[0].relu().detach().numpy(), atol=1e-4)


@pytest.mark.parametrize("here", [["Pendulum-v1"]], indirect=True)
def test_continuous_actions_have_slopes_too(here: tuple[Any, Situation]) -> None:
    net, situation = here
    assert insight.gradient(net, situation)["obs"]["action"].max() > 0


@pytest.mark.parametrize("here", [["FrozenLake-v1"]], indirect=True)
def test_categories_have_no_slopes(here: tuple[Any, Situation]) -> None:
    assert insight.gradient(*here) == {}
