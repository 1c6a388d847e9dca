"""Deathmatches in Doom: against bots, and two players in one game, in real processes."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

from gymnast import config as configs
from gymnast.config import EnvConfig, RunConfig
from gymnast.core.errors import EnvFailure, UserError
from gymnast.envs.make import make_env
from gymnast.envs.recorder import recorder_of
from gymnast.envs.suites.vizdoom import match as rules
from gymnast.envs.suites.vizdoom.measures import READ, Measures
from gymnast.play.game import Game
from gymnast.play.opponent import Opponent
from gymnast.play.session import PlaySession
from gymnast.runs.saved_agent import SavedAgent
from tests.contract.test_doom import doom_of
from tests.processes import is_alive, wait_for

pytest.importorskip("vizdoom")

BOTS = 4
ACTIONS = ["NOOP", "ATTACK", "MOVE_FORWARD", "TURN_LEFT"]
ATTACK, TURN_LEFT = 1, 3  # of these
WEIGHT = -0.5


@pytest.fixture(autouse=True)
def cheats(monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands by which a test puts a player somewhere."""
    monkeypatch.setattr(rules, "RULES", f"{rules.RULES} +sv_cheats 1")


def make_match(role: Any = "eval", limit: int = 1000, **kwargs: Any) -> gym.Env[Any, Any]:
    task = {"bots": BOTS, "actions": ACTIONS, "variables": ["PLAYER_COUNT"], **kwargs}
    shaping = {"deaths": WEIGHT} if role == "train" else {}
    return make_env(EnvConfig(id="VizdoomDeathmatch-v1", kwargs=task, max_episode_steps=limit, shaping=shaping), role)


@pytest.fixture
def match() -> Iterator[gym.Env[Any, Any]]:
    env = make_match("train")
    yield env
    env.close()


def players(env: Any) -> list[Any]:
    """The bodies of all players that are in the game."""
    return [one for one in env.unwrapped.game.get_state().objects if one.name == "DoomPlayer"]


def other_player(env: Any) -> Any:
    """One that stands somewhere else."""
    own = env.unwrapped.variables
    here = own["POSITION_X"], own["POSITION_Y"]
    return max(players(env), key=lambda one: np.hypot(one.position_x - here[0], one.position_y - here[1]))


def hunt(env: Any, step: Callable[[int], Any]) -> None:
    """Appears in front of another player and fires a rocket, until one is dead.

    There may be a wall between them, so that the next try comes from another side.
    """
    doom = env.unwrapped
    doom.game.send_game_command("god")  # else the rocket would hurt whoever fires it
    for _ in range(30):
        other, look = other_player(env), np.radians(doom.variables["ANGLE"])
        place = other.position_x - 64 * np.cos(look), other.position_y - 64 * np.sin(look)
        doom.game.send_game_command(f"warp {place[0]:.0f} {place[1]:.0f}")
        for _ in range(6):
            step(ATTACK)
        if doom.variables["FRAGCOUNT"] > 0:
            break
        for _ in range(3):
            step(TURN_LEFT)
    doom.game.send_game_command("god")
    assert doom.variables["FRAGCOUNT"] > 0


def test_every_match_has_its_bots_and_counts_frags(match: gym.Env[Any, Any]) -> None:
    game = match.unwrapped.game  # type: ignore[attr-defined]
    game.set_objects_info_enabled(True)
    for seed in (1, 2):
        match.reset(seed=seed)
        for _ in range(10):
            obs, *_ = match.step(0)
        assert obs["variables"].tolist() == [1 + BOTS]
        state = game.get_server_state()
        assert len({name for name, there in zip(state.players_names, state.players_in_game, strict=True) if there}) == (
            1 + BOTS
        )
        # a frag pays 1, and dying by one's own hand takes 1 and is not the end
        hunt(match, match.step)
        assert recorder_of(match).raw_return == recorder_of(match).components["frags"] >= 1
        match.step(0)
        game.send_game_command("kill")
        before = recorder_of(match).raw_return
        _, reward, terminated, truncated, info = match.step(0)
        assert not terminated
        assert not truncated
        assert recorder_of(match).raw_return == before - 1 == info["reward_components"]["frags"] + before
        assert info["shaping"]["deaths"] == 1
        assert reward == -1 + WEIGHT
        while not truncated:
            *_, truncated, info = match.step(0)
            assert not terminated
        sums = recorder_of(match).components
        assert sums["frags"] == recorder_of(match).raw_return
        assert set(sums) == {"frags", "deaths"}
        assert recorder_of(match).shaped_return == pytest.approx(sum(sums.values()))
        state = game.get_server_state()
        assert info["is_success"] == (state.players_frags[0] > max(state.players_frags[1:]))


def test_the_same_seed_is_the_same_match_with_several_envs_at_once() -> None:
    """Bots included. Nothing listens on a port, so that no number of envs can collide."""
    envs = [make_match(), make_match()]
    try:
        seen = []
        for env, seed in ((envs[0], 5), (envs[1], 5), (envs[0], 6), (envs[1], 5)):
            first, _ = env.reset(seed=seed)
            env.action_space.seed(0)
            steps = [env.step(env.action_space.sample())[0]["screen"] for _ in range(60)]
            seen.append(np.array([first["screen"], *steps]))
        np.testing.assert_array_equal(seen[0], seen[1])
        np.testing.assert_array_equal(seen[0], seen[3])  # in the second match of a process's env too
        assert (seen[0] != seen[2]).any()
        dooms = doom_of(os.getpid())
        assert len(dooms) == 2
        assert not any(udp_sockets(doom) for doom in dooms)
    finally:
        for env in envs:
            env.close()


def udp_sockets(pid: int) -> set[str]:
    with open("/proc/net/udp") as table:
        known = {line.split()[9] for line in table.readlines()[1:]}
    links = (os.readlink(f"/proc/{pid}/fd/{fd}") for fd in os.listdir(f"/proc/{pid}/fd"))
    return known & {link[8:-1] for link in links if link.startswith("socket:[")}


def test_only_deathmatch_has_a_map_for_bots() -> None:
    with pytest.raises(UserError, match=r"only VizdoomDeathmatch-v1 has a map for bots"):
        make_env(EnvConfig(id="VizdoomBasic-v1", kwargs={"bots": 2}))


def test_what_a_player_starts_with_again_is_not_gained() -> None:
    measures = Measures(READ, ["ATTACK"], ["NOOP", "ATTACK"])

    def numbers(**given: float) -> list[float]:
        return [given.get(name, 0.0) for name in READ]

    measures.start(numbers(HEALTH=100, AMMO5=10))
    parts = measures.step(numbers(HEALTH=-20, AMMO5=8, DEATHCOUNT=1))
    assert (parts["health"], parts["ammo"], parts["shots"], parts["deaths"]) == (-120, -2, 2, 1)
    parts = measures.step(numbers(HEALTH=100, AMMO5=10, DEATHCOUNT=1, POSITION_X=900))
    assert (parts["health"], parts["ammo"], parts["progress"], parts["deaths"]) == (0, 0, 0, 0)
    assert measures.step(numbers(HEALTH=100, AMMO5=10, DEATHCOUNT=1, POSITION_X=930))["progress"] == 30


def duel_config(actions: list[str] = ACTIONS) -> RunConfig:
    settings = [f"env.kwargs.actions=[{', '.join(actions)}]", "env.max_episode_steps=1000"]
    return configs.load("VizdoomDeathmatch-v1", settings).config


@pytest.fixture
def duel() -> Iterator[Game]:
    """A game against an untrained network that cannot fire: its own rockets would kill it."""
    theirs = duel_config([name for name in ACTIONS if name != "ATTACK"])
    game, own = Game(duel_config(), pictures=False), Game(theirs, pictures=False)
    game.opponent = Opponent(game, own, SavedAgent.build(theirs, own.vec).net)
    yield game
    game.close()


def test_two_players_see_each_other_and_the_score_counts(duel: Game) -> None:
    opponent = duel.opponent
    assert opponent is not None
    host, guest = (one.env.unwrapped for one in (duel, opponent.game))
    host.game.set_objects_info_enabled(True)
    guest.game.set_objects_info_enabled(True)
    places = []
    for seed in (3, 4):
        duel.reset(seed)
        for _ in range(15):
            duel.step(2)  # forwards
            mine, theirs = host.variables, guest.variables
            places.append((theirs["POSITION_X"], theirs["POSITION_Y"]))
            # each game has the other's body where the other's own game has it, which is a tic ahead with its own player
            for env, numbers in ((host, theirs), (guest, mine)):
                body = other_player(env)
                away = body.position_x - numbers["POSITION_X"], body.position_y - numbers["POSITION_Y"]
                assert np.hypot(*away) < 20
        assert host.game.get_episode_time() == guest.game.get_episode_time()
    assert len(set(places)) > 10  # they move
    hunt(host, duel.step)
    assert duel.total == 1
    assert guest.variables["DEATHCOUNT"] == 1
    scored = opponent.game.total
    guest.game.send_game_command("kill")
    for _ in range(15):  # it may have to live again first
        duel.step(0)
    assert opponent.game.total == guest.variables["FRAGCOUNT"] <= scored
    while not duel.over:  # the time limit ends it for both
        duel.step(0)
    assert not opponent.game.over


@pytest.mark.parametrize("victim", ["host", "guest"])
def test_if_one_is_killed_the_other_ends_with_one_line(duel: Game, victim: str) -> None:
    opponent = duel.opponent
    assert opponent is not None
    duel.reset(1)
    duel.step(0)
    dooms = doom_of(os.getpid())
    assert len(dooms) == 2
    env: Any = (duel if victim == "host" else opponent.game).env.unwrapped
    pid = int(env._process.pid_file.read_text())
    os.kill(pid, signal.SIGKILL)
    with pytest.raises(EnvFailure) as found:
        duel.step(0)
    assert len(str(found.value).splitlines()) == 1
    assert str(found.value).startswith("the opponent: ") == (victim == "guest")
    assert "the Doom process ended in the middle of a game" in str(found.value)
    wait_for(lambda: not any(map(is_alive, dooms)), "end of both")
    assert doom_of(os.getpid()) == []  # no zombies
    duel.reset(2)  # and the next match can begin
    duel.step(2)
    assert len(doom_of(os.getpid())) == 2


def test_a_match_is_played_but_not_repeated(duel: Game) -> None:
    session = PlaySession(duel, lambda name: None, SavedAgent.build(duel_config(), duel.vec).net)
    trace = session.begin(7, "random")
    for _ in range(3):
        session.advance("random")
    assert trace.steps[0].variables["HEALTH"] == 100
    with pytest.raises(UserError, match="a second player moved"):
        session.branch(trace, 1, None, "random")


def test_other_games_have_one_player() -> None:
    config = configs.load("CartPole-v1").config
    game, own = Game(config, pictures=False), Game(config, pictures=False)
    with pytest.raises(UserError, match="CartPole-v1: two players cannot play it against each other"):
        Opponent(game, own, None)
    game.close()
    own.close()
