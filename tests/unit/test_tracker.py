"""Objects in pictures: found without labels, and the numbers that are made of them."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from gymnast.agent.agent import Agent
from gymnast.agent.batch import VALUE
from gymnast.agent.nets import choose_net
from gymnast.agent.nets.dense_net import DenseNet
from gymnast.agent.nets.torch_net import TorchNet
from gymnast.agent.tracker import fit, kernels
from gymnast.agent.tracker import tracker as tracker_module
from gymnast.agent.tracker.tracker import APART, FARTHEST, LEAST_SHARE, MOVE, PLACE, Tracker
from gymnast.alerts.advice import Known
from gymnast.alerts.book import AlertBook
from gymnast.alerts.rules import RULES
from gymnast.config import AgentConfig, load
from gymnast.core.devices import set_threads
from gymnast.core.errors import UserError
from gymnast.core.pulse import Pulse
from gymnast.envs.suites.atari.pictures import Pictures
from gymnast.envs.suites.atari.task import AtariTask
from gymnast.runs.saved_agent import init_agent_from
from tests.learners_for_tests import as_batch

SIDE = 40
PADDLE, BALL = (8, 2), (2, 2)  # height and width
PICTURES = gym.spaces.Box(0, 255, (2, SIDE, SIDE), np.uint8)


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fit, "STARTS", 4)


def scene(*objects: tuple[int, int, tuple[int, int], int]) -> NDArray[np.uint8]:
    """A picture with objects: row, column, size and brightness of each; later ones are in front."""
    picture = np.full((SIDE, SIDE), 87, np.uint8)
    picture[:, 18:22] = 120  # a net
    for row, column, (height, width), brightness in objects:
        picture[row : row + height, column : column + width] = brightness
    return picture


def tennis(left: int, right: int, ball: tuple[int, int] | None) -> NDArray[np.uint8]:
    balls = [] if ball is None else [(*ball, BALL, 236)]
    return scene((left, 4, PADDLE, 147), (right, 34, PADDLE, 147), *balls)


def game(count: int, seed: int = 0) -> tuple[NDArray[np.uint8], NDArray[np.float64], NDArray[np.bool_]]:
    """Pictures [count, 2, SIDE, SIDE], the centres of left paddle, right paddle and ball in the later one, and whether
    there is a ball: in five of six."""
    rng = np.random.default_rng(seed)
    pictures, centres, balls = [], [], []
    for _ in range(count):
        left, right, row, column = (int(n) for n in rng.integers(2, 30, 4))
        ball = None if rng.random() < 1 / 6 else (row, max(column, 7))
        before = tennis(left - 2, right + 2, ball)
        pictures.append([before, tennis(left, right, ball)])
        where = ball or (0, 0)  # a centre of 2 rows, 5 and 6, is 5.5
        centres.append([[left + 3.5, 4.5], [right + 3.5, 34.5], [where[0] + 0.5, where[1] + 0.5]])
        balls.append(ball is not None)
    return np.array(pictures), np.array(centres), np.array(balls)


@pytest.fixture(scope="module")
def found() -> tuple[Tracker, list[int]]:
    """A tracker that has seen a game, and which of its objects are left paddle, right paddle and ball."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fit, "STARTS", 4)
        tracker = Tracker((2, SIDE, SIDE), 3)
        tracker.learn(torch.from_numpy(game(2000)[0]), seed=1)
    seen = tracker.find(tennis(10, 20, (30, 20))[None])[0]
    order = [int(np.abs(seen[:, 2] - column).argmin()) for column in (4.5, 34.5, 20.5)]
    return tracker, order


def test_finds_every_object_where_it_is(found: tuple[Tracker, list[int]]) -> None:
    tracker, order = found
    assert sorted(order) == [0, 1, 2]
    pictures, centres, balls = game(500, seed=7)  # others than it was fitted to
    seen = tracker.find(pictures[:, 1])[:, order]
    there = seen[..., 0] >= LEAST_SHARE * tracker.mass.numpy()[order]
    assert there[:, :2].mean() > 0.99
    assert (there[:, 2] == balls).mean() > 0.97
    errors = np.abs(seen[..., 1:] - centres)
    assert np.median(errors[:, :2]) == 0
    assert errors[:, :2].mean() < 0.1
    assert errors[balls & there[:, 2], 2].mean() < 0.2


def test_how_well_objects_were_found_is_measured() -> None:
    """A rectangle of h x w pixels: their squares are (h^2 - 1 + w^2 - 1) / 12 from the centre, and fill it. A ball is
    in five of six pictures. For one object all three are too many: what lies between them is empty."""
    pictures = torch.from_numpy(game(2000)[0])
    fitted = Tracker((2, SIDE, SIDE), 3).learn(pictures, seed=1)
    distance, seen, filled = (
        sorted(fitted[f"objects/{name}/{n}"] for n in (1, 2, 3)) for name in ("distance", "seen", "filled")
    )
    assert distance == pytest.approx([(3 + 3) / 12, (63 + 3) / 12, (63 + 3) / 12], abs=0.05)
    assert seen == pytest.approx([5 / 6, 1, 1], abs=0.02)
    assert filled == pytest.approx([1, 1, 1], abs=0.02)
    few = Tracker((2, SIDE, SIDE), 1).learn(pictures, seed=1)
    assert few["objects/filled/1"] < 0.1


def test_bricks_that_vanish_take_an_object_and_the_fit_says_so() -> None:
    """Sixteen bricks, of which one goes every 40 pictures, a ball and paddles: three objects are too few."""
    rng, alive, pictures = np.random.default_rng(0), np.ones(16, bool), []
    bricks = [(2 + 3 * (n // 8), 3 + 4 * (n % 8), (2, 3), 180) for n in range(16)]
    for number in range(2000):
        if number % 40 == 0:
            alive[rng.integers(16)] = False
        left, right, row, column = (int(n) for n in rng.integers(2, 30, 4))
        moving = [(left, 4, PADDLE, 147), (right, 34, PADDLE, 147), (max(row, 12), max(column, 7), BALL, 236)]
        shown = scene(*(brick for brick, there in zip(bricks, alive, strict=True) if there), *moving)
        pictures.append([shown, shown])
    fitted = Tracker((2, SIDE, SIDE), 3).learn(torch.from_numpy(np.array(pictures)), seed=1)
    row = {"time/total_timesteps": 1.0, "time/progress": 0.01, **fitted}
    (alert,) = AlertBook(Known(load("ALE/Pong-v5").config), [rule for rule in RULES if "objects" in rule.name]).check(
        row
    )
    assert alert.rule == "objects_scattered"
    assert min(found.value for found in alert.evidence.values()) < 0.5


def test_numbers_are_places_movements_and_distances(found: tuple[Tracker, list[int]]) -> None:
    """By hand: left paddle from row 8 to 10, right one from 24 to 20, ball from (30, 20) to (28, 29)."""
    tracker, order = found
    left, right, ball = order
    pictures = np.stack([tennis(8, 24, (30, 20)), tennis(10, 20, (28, 29))])[None]
    (numbers,) = tracker.see(pictures)
    assert numbers.shape == (tracker.out_features,) == (3 * 3 + 3 * 2 + 3 * 2,)
    by_name = dict(zip(tracker.names, numbers.tolist(), strict=True))

    def of(who: int, what: str) -> float:
        return by_name[f"object {who + 1} {what}"]

    assert [of(who, "seen") for who in order] == [1, 1, 1]
    # The middle of the picture is 0: a left paddle at rows 10 to 17 has its centre at 13.5 of 40.
    assert of(left, "row") == pytest.approx((13.5 / 40 - 0.5) / PLACE)
    assert of(right, "column") == pytest.approx((34.5 / 40 - 0.5) / PLACE)
    assert (of(ball, "row"), of(ball, "column")) == pytest.approx(
        ((28.5 / 40 - 0.5) / PLACE, (29.5 / 40 - 0.5) / PLACE)
    )
    assert of(left, "row change") == pytest.approx(2 / 40 / MOVE)
    assert of(right, "row change") == pytest.approx(-4 / 40 / MOVE)
    assert (of(ball, "row change"), of(ball, "column change")) == pytest.approx((-2 / 40 / MOVE, 9 / 40 / MOVE))
    one, other = sorted((right, ball))
    sign = 1 if one == ball else -1  # ball minus right paddle: 28.5 - 23.5 rows, 29.5 - 34.5 columns
    apart = (
        by_name[f"object {one + 1} - object {other + 1} row"],
        by_name[f"object {one + 1} - object {other + 1} column"],
    )
    assert apart == pytest.approx((sign * 5 / 40 / APART, sign * -5 / 40 / APART))
    one, other = sorted((left, right))  # 30 columns apart: farther than is shown
    assert abs(by_name[f"object {one + 1} - object {other + 1} column"]) == pytest.approx(FARTHEST)


def test_what_is_not_there_has_no_numbers(found: tuple[Tracker, list[int]]) -> None:
    tracker, (_, _, ball) = found
    (numbers,) = tracker.see(np.stack([tennis(8, 24, (30, 20)), tennis(10, 20, None)])[None])
    by_name = dict(zip(tracker.names, numbers.tolist(), strict=True))
    mine = [value for name, value in by_name.items() if f"object {ball + 1}" in name]
    assert len(mine) == 3 + 2 + 4
    assert mine == [0] * len(mine)


def test_an_object_that_the_edge_cuts_is_where_all_of_it_would_be() -> None:
    """8 x 2 pixels of brightness 4: whole in rows 0 to 7; rows -5 to 2, of which 0 to 2 are found; rows 38 to 45, of
    which 38 and 39 are; and one in the middle, a part of which is behind something else."""
    tracker = Tracker((1, SIDE, SIDE), 1)
    tracker.mass[:], tracker.size[:] = 64, torch.tensor([8, 2])
    found = np.array([[[64, 3.5, 4.5]], [[24, 1, 4.5]], [[16, 38.5, 4.5]], [[48, 20, 4.5]]], np.float32)
    assert tracker._centres(found)[:, 0].tolist() == [[3.5, 4.5], [-1.5, 4.5], [41.5, 4.5], [20, 4.5]]
    found[..., 2] = 0.5  # in the first two columns: the left edge cuts none of them
    assert tracker._centres(found[:3])[:, 0].tolist() == [[3.5, 0.5], [-1.5, 0.5], [41.5, 0.5]]


def test_knows_how_large_objects_are(found: tuple[Tracker, list[int]]) -> None:
    tracker, order = found
    np.testing.assert_allclose(tracker.size.numpy()[order], [PADDLE, PADDLE, BALL], atol=0.1)
    np.testing.assert_allclose(tracker.mass.numpy()[order] * 64, [16 * 60, 16 * 60, 4 * 149], rtol=0.01)


def test_marks_of_actions_are_read_and_are_no_objects(found: tuple[Tracker, list[int]]) -> None:
    """Pictures as envs mark them: the last column, its upper half for the first of two actions."""
    tracker = Tracker((2, SIDE, SIDE), 3, ["LEFT", "RIGHT"])
    tracker.load_state_dict(found[0].state_dict())
    plain = np.stack([tennis(8, 24, (30, 20)), tennis(10, 20, (28, 29))])[None]
    task = load("ALE/Pong-v5", ["env.kwargs.stack=2"]).config.env
    pictures = Pictures(1, (SIDE, SIDE), AtariTask(**task.kwargs | {"screen_size": SIDE, "crop_rows": None}))
    pictures.start(plain[:, 0], np.ones(1, np.bool_))
    pictures.mark(np.array([1]), 2)
    pictures.add(plain[:, 1])
    pictures.mark(np.array([0]), 2)
    assert (pictures.obs != plain).sum() == SIDE
    numbers, unmarked = tracker.see(pictures.obs)[0], found[0].see(plain)[0]
    np.testing.assert_allclose(numbers[:-4], unmarked, atol=1e-5)
    assert dict(zip(tracker.names[-4:], numbers[-4:].tolist(), strict=True)) == {
        "last LEFT, 1 before": 0,
        "last RIGHT, 1 before": 1,
        "last LEFT": 1,
        "last RIGHT": 0,
    }
    assert tracker.see(plain)[0, -4:].tolist() == [0, 0, 0, 0]
    black = np.concatenate([np.zeros((1, 1, SIDE, SIDE), np.uint8), plain[:, 1:]], 1)  # before a game's first picture
    assert tracker.see(black)[0, -4:].tolist() == [0, 0, 0, 0]


@pytest.mark.parametrize("share", [0.4, 0.6, 0.9])
@pytest.mark.parametrize("bright", [False, True], ids=["dark", "bright"])
def test_marks_are_read_however_often_an_action_is_chosen(
    share: float, bright: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fit, "STEPS", 10)
    tracker = Tracker((2, SIDE, SIDE), 3, ["LEFT", "RIGHT"])
    marked = game(300)[0] + np.uint8(50 * bright)
    actions = (np.random.default_rng(0).random((300, 2)) > share).astype(int)
    for (game_, time), action in np.ndenumerate(actions):
        place = marked[game_, time, action * SIDE // 2 : (action + 1) * SIDE // 2, -1]
        place[:] = np.where(place < 128, place + 48, place - 48)
    tracker.learn(torch.from_numpy(marked), seed=1)
    numbers = dict(zip(tracker.names, tracker.see(marked).T, strict=True))
    for time, when in enumerate((", 1 before", "")):
        np.testing.assert_array_equal(numbers[f"last LEFT{when}"], actions[:, time] == 0)
        np.testing.assert_array_equal(numbers[f"last RIGHT{when}"], actions[:, time] == 1)
    assert tracker.find(marked[:, 1])[..., 2].max() < SIDE - 1


def test_another_scene_shows_nothing(found: tuple[Tracker, list[int]]) -> None:
    """The black picture before a game's first one: every pixel differs."""
    tracker, order = found
    (numbers,) = tracker.see(np.stack([np.zeros((SIDE, SIDE), np.uint8), tennis(10, 20, (28, 29))])[None])
    by_name = dict(zip(tracker.names, numbers.tolist(), strict=True))
    assert [by_name[f"object {who + 1} seen"] for who in order] == [1, 1, 1]
    assert {value for name, value in by_name.items() if "change" in name} == {0}


def test_the_compiled_loops_are_the_network(found: tuple[Tracker, list[int]]) -> None:
    """Each pixel goes to the most likely object of the network that was trained, in torch's arithmetic."""
    tracker, _ = found
    pictures = game(50, seed=3)[0][:, 1]
    background = tracker.background.numpy()
    picture, place, inputs = kernels.moving_pixels(pictures, background, 10**6)
    hidden = torch.relu(torch.from_numpy(inputs) @ tracker.hidden + tracker.hidden_bias)
    chosen = (hidden @ tracker.out + tracker.out_bias).argmax(1).numpy()
    mass = np.abs(pictures.astype(np.float64) - background)[picture, *place.astype(int).T] / 64
    expected = np.zeros((50, 3, 3))
    for column, weight in enumerate((1, place[:, 0], place[:, 1])):
        np.add.at(expected[..., column], (picture, chosen), mass * weight)
    expected[..., 1:] /= np.maximum(expected[..., :1], 1e-9)
    np.testing.assert_allclose(tracker.find(pictures), expected, atol=1e-3)


def test_size_is_the_mean_squared_distance_from_the_centre() -> None:
    """Two pictures of one object: 2 x 2 pixels, each half a row and half a column from the centre, so 0.5; and two
    single pixels 10 rows apart, each 5 rows from the centre, so 25; on average (0.5 x 4 + 25 x 2) / 6.
    With two objects that share each pixel the size is the same, and the entropy is log 2."""
    pictures = np.stack([scene((5, 5, BALL, 200)), scene((5, 5, (1, 1), 200), (15, 5, (1, 1), 200))])
    moving = fit.Moving.of(pictures, scene())
    assert (moving.pictures, len(moving.picture)) == (2, 6)
    one, two = (Tracker((1, SIDE, SIDE), objects).weights for objects in (1, 2))
    assert float(fit.size(moving, one)) == pytest.approx(52 / 6, rel=1e-3)
    assert float(fit.size(moving, two)) == pytest.approx(52 / 6, rel=1e-3)
    assert float(fit.size(moving, two, openness=10)) == pytest.approx(52 / 6 - 10 * np.log(2), rel=1e-3)


@pytest.mark.parametrize("threads", [1, 2])
def test_one_seed_gives_the_same_bits(threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fit, "STEPS", 50)
    set_threads(threads)
    pictures = torch.from_numpy(game(300)[0])
    one, same, other = (Tracker((2, SIDE, SIDE), 2) for _ in range(3))
    for tracker, seed in ((one, 5), (same, 5), (other, 6)):
        tracker.learn(pictures, seed)
    assert all(torch.equal(tensor, same.state_dict()[name]) for name, tensor in one.state_dict().items())
    assert not torch.equal(one.hidden, other.hidden)
    set_threads(1)


def test_says_how_far_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[tuple[str, int, int]] = []
    pulse, train = Pulse(), fit.train

    def watched(*args: Any, **named: Any) -> Any:
        seen.append((pulse.activity.name, pulse.done, pulse.activity.total))
        return train(*args, **named)

    monkeypatch.setattr(fit, "train", watched)
    monkeypatch.setattr(fit, "STEPS", 10)
    tracker = Tracker((2, SIDE, SIDE), 2)
    tracker.learn(torch.from_numpy(game(64)[0]), 0, pulse)
    assert seen == [*(("finding objects", done, 4) for done in range(4)), ("finding objects", 3, 4)]


@pytest.mark.parametrize("still", [True, False], ids=["nothing moves", "all moves"])
def test_pictures_without_objects_are_no_error(still: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fit, "STEPS", 10)
    noise = np.random.default_rng(0).integers(0, 255, (64, 2, SIDE, SIDE)).astype(np.uint8)
    pictures = np.tile(scene(), (64, 2, 1, 1)) if still else noise
    tracker = Tracker((2, SIDE, SIDE), 3)
    tracker.learn(torch.from_numpy(pictures), 0)
    assert np.isfinite(numbers := tracker.see(pictures)).all()
    if still:
        assert (numbers == 0).all()


def make_agent(found: tuple[Tracker, list[int]] | None = None, **cfg: Any) -> Agent:
    torch.manual_seed(0)
    settings = AgentConfig(track=3, hidden=[16, 16], **cfg)
    agent = Agent({"obs": PICTURES}, gym.spaces.Discrete(3), settings, 0.99)
    if found is not None and agent.tracker is not None:
        agent.tracker.load_state_dict(found[0].state_dict())
    return agent


def test_nothing_is_seen_before_it_has_learned() -> None:
    agent = make_agent()
    pictures = {"obs": torch.from_numpy(game(4)[0])}
    assert agent.tracker is not None
    assert (agent.tracked(pictures)["obs"] == 0).all()


def test_only_new_pictures_are_looked_at(found: tuple[Tracker, list[int]], monkeypatch: pytest.MonkeyPatch) -> None:
    """Three games of a stack of two. In the second step the first two have moved on by one picture, the third has begun
    again; the numbers are those of a tracker that looks at all of them."""
    tracker, plain = make_agent(found).tracker, make_agent(found).tracker
    assert tracker is not None
    assert plain is not None
    looked_at, find = [], tracker.find
    monkeypatch.setattr(tracker, "find", lambda pictures: looked_at.append(len(pictures)) or find(pictures))
    first, second = game(3, seed=4)[0], game(3, seed=5)[0]
    second[:2, 0] = first[:2, 1]
    for pictures in (first, second, first[:2]):
        np.testing.assert_array_equal(tracker.see(pictures), plain.see(pictures.copy()))
        plain._forget()
    assert looked_at == [6, 4, 4]  # the last ones are of another number of games
    pictures = second[:2].copy()
    tracker.see(pictures)
    pictures[:] = 0  # its owner writes over them
    np.testing.assert_array_equal(tracker.see(second[:2]), plain.see(second[:2]))
    other = make_agent(found)
    assert other.tracker is not None
    other.tracker.hidden.neg_()
    tracker.load_state_dict(other.tracker.state_dict())
    after = np.stack([second[:2, 1], first[:2, 0]], 1)
    np.testing.assert_array_equal(tracker.see(after), other.tracker.see(after))


def test_keeps_some_pictures_of_all_envs_until_it_has_learned(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tracker_module, "MOST_KEPT", 60)
    monkeypatch.setattr(fit, "STEPS", 1)
    tracker = Tracker((1, SIDE, SIDE), 1)
    for step in range(50):  # of 4 envs
        steps = np.full((4, 1, SIDE, SIDE), 4 * step, np.uint8) + np.arange(4, dtype=np.uint8)[:, None, None, None]
        assert (tracker.watch(steps) == 0).all()
        steps[:] = 255  # envs write over their pictures
        assert len(tracker._kept) <= 60
    kept = [int(stack[0, 0, 0]) for stack in tracker._kept]
    assert len(kept) > 20
    assert kept == sorted(set(kept))
    assert {number % 4 for number in kept} == {0, 1, 2, 3}
    assert min(kept) < 50
    assert max(kept) > 150
    # 200 pictures come; 60 fit, and each time they are full half of them go: early and late ones stay equally likely
    early, late = (sum(low <= number < low + 100 for number in kept) for low in (0, 100))
    assert late < 2 * early
    assert all(stack.base is None for stack in tracker._kept)  # nothing else stays in memory
    assert tracker.learn_kept(0)[0].shape == (len(kept), tracker.out_features)
    tracker.watch(np.zeros((2, 1, SIDE, SIDE), np.uint8))
    assert tracker._kept == []


def test_both_networks_agree(found: tuple[Tracker, list[int]]) -> None:
    agent = make_agent(found)
    dense, plain = choose_net(agent), TorchNet(agent)
    assert isinstance(dense, DenseNet)
    obs = {"obs": game(12, seed=9)[0]}
    starts = np.zeros(12, np.bool_)
    np.testing.assert_array_equal(
        dense.act(obs, {}, starts, None, torch.Generator().manual_seed(1)).action,
        plain.act(obs, {}, starts, None, torch.Generator().manual_seed(1)).action,
    )
    torch.testing.assert_close(dense.values(obs, {}, starts)[VALUE], plain.values(obs, {}, starts)[VALUE])
    # as rollouts keep pictures: channels last
    kept = torch.from_numpy(np.ascontiguousarray(obs["obs"].transpose(0, 2, 3, 1))).permute(0, 3, 1, 2)
    batch = as_batch(kept, action=torch.zeros(12, dtype=torch.int64))
    torch.testing.assert_close(dense.score(dense.prepare(batch)).logp, plain.score(plain.prepare(batch)).logp)


def test_a_saved_agent_sees_the_same(found: tuple[Tracker, list[int]]) -> None:
    agent, other = make_agent(found), make_agent()
    other.load_state_dict(agent.state_dict())
    pictures = {"obs": torch.from_numpy(game(4)[0])}
    assert torch.equal(agent.tracked(pictures)["obs"], other.tracked(pictures)["obs"])
    assert agent.tracked(pictures)["obs"].abs().sum() > 0


def test_another_agent_takes_all_of_a_tracker_or_nothing(found: tuple[Tracker, list[int]]) -> None:
    """One for four objects would have a background, but no network; one of another game would have its background."""
    tensors = make_agent(found).state_dict()
    same, another_game = make_agent(), make_agent()
    settings = AgentConfig(track=4, hidden=[16, 16])
    more = Agent({"obs": PICTURES}, gym.spaces.Discrete(3), settings, 0.99)
    init_agent_from(same, tensors)
    init_agent_from(another_game, tensors, same_env=False)
    init_agent_from(more, tensors)
    learned = [bool(agent.tracker.has_learned) for agent in (same, another_game, more) if agent.tracker is not None]
    assert learned == [True, False, False]


def test_wishes_that_do_not_fit_are_refused_in_one_line() -> None:
    with pytest.raises(UserError, match=r"agent\.track: 3 objects are found in grey pictures .* Set agent\.track=null"):
        Agent({"obs": gym.spaces.Box(-1, 1, (4,))}, gym.spaces.Discrete(2), AgentConfig(track=3), 0.99)
    with pytest.raises(UserError, match=r"agent\.encoder=nature_cnn reads pictures, not the objects in them"):
        load("ALE/Pong-v5:zoo", ["agent.track=3", "agent.hidden=[64]"])
    with pytest.raises(UserError, match=r"nothing is made of the objects that agent\.track finds"):
        load("ALE/Asterix-v5", ["agent.track=3", "agent.encoder=mlp"])
    with pytest.raises(UserError, match=r"env\.kwargs\.observation.*takes red, green and blue for three of them"):
        load("ALE/Pong-v5", ["env.kwargs.observation=rgb"])
    with pytest.raises(UserError, match=r"env\.kwargs\.show_action.*needs names for the marks"):
        load("ALE/Pong-v5", ["env.kwargs.actions=null"])
    with pytest.raises(UserError, match=r"train\.central\.mode.*async cannot train with agent\.track"):
        load("ALE/Pong-v5", ["train.layout=central", "train.central.mode=async"])
    with pytest.raises(UserError, match=r"agent\.track.*must be at least 1"):
        load("ALE/Pong-v5", ["agent.track=0"])
