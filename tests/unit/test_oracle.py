"""The exact oracle: against MDPs solved by hand, against the real envs played, and against an agent's own episodes."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from gymnasium import spaces
from numpy.typing import NDArray

from gymnast.config import EnvConfig, load
from gymnast.core.errors import UserError
from gymnast.envs.make import make_env, make_vec
from gymnast.envs.tabular.oracle import Table, find_table, table_of
from gymnast.judge.evaluate import evaluate
from gymnast.judge.evidence import NOTHING_SEEN
from gymnast.judge.exact import exact_score, policy_of
from gymnast.judge.verdict import Allowance
from gymnast.training.build import build
from gymnast.training.loop import train
from gymnast.training.state import TrainState

CORRIDOR, FORK = "Corridor-v0", "Fork-v0"


class FromTable(gym.Env[Any, Any]):
    """Any MDP that is a table."""

    def __init__(self, table: dict[int, dict[int, list[tuple[float, int, float, bool]]]], start: list[float]) -> None:
        self.P, self.initial_state_distrib = table, np.array(start)
        self.observation_space, self.action_space = spaces.Discrete(len(table)), spaces.Discrete(len(table[0]))
        self.state = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[int, dict[str, Any]]:
        super().reset(seed=seed)
        self.state = int(self.np_random.choice(len(self.P), p=self.initial_state_distrib))
        return self.state, {"action_mask": self.mask()}

    def step(self, action: int) -> tuple[int, float, bool, bool, dict[str, Any]]:
        outcomes = self.P[self.state][action]
        chosen = int(self.np_random.choice(len(outcomes), p=[outcome[0] for outcome in outcomes]))
        _, self.state, reward, ends = outcomes[chosen]
        return self.state, reward, ends, False, {"action_mask": self.mask()}

    def mask(self) -> Any:
        return np.array([True, self.state != 1])  # state 1 does not allow action 1


# Three fields in a row. Action 1 goes right for -1, and the third one's end pays 10. Action 0 stays, for -0.5.
ROW = {
    0: {0: [(1.0, 0, -0.5, False)], 1: [(1.0, 1, -1.0, False)]},
    1: {0: [(1.0, 1, -0.5, False)], 1: [(1.0, 2, -1.0, False)]},
    2: {0: [(1.0, 2, -0.5, False)], 1: [(1.0, 2, 10.0, True)]},
}
# Action 0 pays 1 and ends. Action 1 pays 4 and ends, or nothing and goes on, half and half.
GAMBLE = {0: {0: [(1.0, 0, 1.0, True)], 1: [(0.5, 0, 4.0, True), (0.5, 0, 0.0, False)]}}


@pytest.fixture(autouse=True)
def _registered() -> Iterator[None]:
    gym.register(CORRIDOR, entry_point=lambda: FromTable(ROW, [1.0, 0.0, 0.0]))
    gym.register(FORK, entry_point=lambda: FromTable(GAMBLE, [1.0]))
    yield
    del gym.registry[CORRIDOR], gym.registry[FORK]


def read(env_id: str, **settings: Any) -> Table:
    table = find_table(EnvConfig(id=env_id, **settings))
    assert table is not None
    return table


def best_actions(table: Table) -> list[NDArray[np.int64]]:
    """What the best policy does in each state, by how many steps are left; it does nothing with none."""
    value, actions = np.zeros(len(table.start)), [np.zeros(0, np.int64)]
    for _ in range(table.horizon):
        of_actions = table.action_values(value)
        value = of_actions.max(axis=1)
        actions.append(of_actions.argmax(axis=1))
    return actions


@pytest.mark.parametrize(("steps", "best"), [(1, -0.5), (2, -1.0), (3, 8.0), (50, 8.0)])
def test_corridor_on_paper(steps: int, best: float) -> None:
    """With fewer than 3 steps the end is out of reach: stay, for -0.5 each. With 3 or more: -1 - 1 + 10 = 8."""
    assert read(CORRIDOR, max_episode_steps=steps).best_value == best


def test_the_best_policy_depends_on_the_time_left() -> None:
    actions = best_actions(read(CORRIDOR, max_episode_steps=10))
    assert actions[3].tolist() == [1, 1, 1]
    assert actions[2].tolist() == [0, 1, 1]  # from the first field it is too late
    assert actions[1].tolist() == [0, 0, 1]
    assert actions[10].tolist() == [1, 1, 1]


def test_gamble_on_paper() -> None:
    """One step: 1/2 x 4 = 2. Two: 2 + 1/2 x 2 = 3. Three: 2 + 1/2 x 3 = 3.5. To the limit 4."""
    for steps, best in ((1, 2.0), (2, 3.0), (3, 3.5), (500, 4.0)):
        assert read(FORK, max_episode_steps=steps).best_value == pytest.approx(best, abs=1e-12)


def test_value_of_a_random_policy_on_paper() -> None:
    """One action or the other, half and half: g = (1 + 2) / 2 = 1.5 now, and 1/2 x 1/2 = 1/4 to go on.

    Two steps: 1.5 + 1.5 / 4 = 1.875.
    """
    assert read(FORK, max_episode_steps=2).value_of(np.array([[0.5, 0.5]])) == 1.875


def test_masks_take_actions_away_from_the_best_policy_too() -> None:
    """Field 1 does not allow to go right: the end is out of reach, and staying for 10 steps costs 10 x 0.5."""
    masked = read(CORRIDOR, max_episode_steps=10, action_masks=True)
    assert masked.best_value == -5.0
    assert masked.mask is not None
    assert masked.mask.tolist() == [[True, True], [True, False], [True, True]]


@pytest.mark.parametrize(
    ("env_id", "limit", "best"),
    [
        ("FrozenLake-v1", None, 0.7442),
        ("FrozenLake8x8-v1", None, 0.9132),
        ("Taxi-v4", None, 7.93),
        ("CliffWalking-v1", 200, -13.0),
        ("gymnast/Bandit-v0", None, 1.5),
        ("gymnast/BernoulliBandit-v0", None, 0.9),
    ],
)
def test_known_optima(env_id: str, limit: int | None, best: float) -> None:
    assert read(env_id, max_episode_steps=limit).optimum.value == best


def test_kwargs_limits_and_wrappers_change_the_optimum() -> None:
    assert read("FrozenLake-v1", kwargs={"is_slippery": False}).optimum.value == 1.0
    # The goal is 6 moves away: not within 5.
    assert read("FrozenLake-v1", kwargs={"is_slippery": False}, max_episode_steps=5).optimum.value == 0.0
    eight = {"map_name": "8x8"}
    assert read("FrozenLake-v1", kwargs=eight, max_episode_steps=200).optimum.value == 0.9132
    assert read("gymnast/Bandit-v0", kwargs={"means": [0.5, 2.0], "horizon": 3}).optimum.value == 6.0
    # Cut after 5 steps the walk costs 5, not 13.
    short = [{"time_limit": {"steps": 5}}]
    assert read("CliffWalking-v1", max_episode_steps=200, wrappers=short).optimum.value == -5.0
    # Without its 9 of 13 moves to the right nobody arrives: 200 steps of -1. Up, down and left are 0, 2 and 3.
    no_right = [{"action_remap": {"actions": [3, 2, 0]}}, {"action_remap": {"actions": [2, 1]}}]
    left = read("CliffWalking-v1", max_episode_steps=200, wrappers=no_right)
    assert left.reward.shape == (48, 2)
    assert left.optimum.value == -200.0
    assert left.following[36, :, 0].tolist() == [24, 36]  # up one row of 12; down against the border


def test_forbidden_actions_are_not_the_best_policys() -> None:
    """The way along the cliff goes up, right and down. Without up, only the start's border is left: 200 steps of -1."""
    for forbid, best in (([["left"]], -13.0), ([["UP"]], -200.0)):
        table = read("CliffWalking-v1", max_episode_steps=200, forbid=forbid)
        assert table.reward.shape == (48, 3)
        assert table.optimum.value == best
    assert table.following[36, 1, 0] == 36  # right, down and left: down against the border
    # staying is all that is left, and the masks allow it
    both = read(CORRIDOR, max_episode_steps=10, action_masks=True, forbid=[["action 1"]])
    assert both.mask is not None
    assert both.mask.tolist() == [[True]] * 3
    assert both.best_value == -5.0


@pytest.mark.parametrize(
    "config",
    [
        {"id": "CartPole-v1"},
        {"id": "CliffWalking-v1"},  # no time limit
        {"id": "Taxi-v4", "kwargs": {"fickle_passenger": True}},  # a change of mind that the table does not know
        {"id": "FrozenLake-v1", "kwargs": {"map_name": None}},  # another map in every env
        {"id": "FrozenLake-v1", "wrappers": [{"sticky_actions": {"p": 0.25}}]},
        {"id": "FrozenLake-v1", "wrappers": [{"frame_stack": {"n": 2}}]},
    ],
    ids=str,
)
def test_no_table_no_claim(config: dict[str, Any]) -> None:
    assert find_table(EnvConfig(**config)) is None


def test_an_env_whose_spaces_are_too_large_for_a_table_is_not_made() -> None:
    lake = EnvConfig(id="FrozenLake-v1")
    vec = make_vec(lake, 1, "eval")
    found = table_of(lake, vec)
    vec.close()
    assert found is not None
    assert found.optimum.value == 0.7442
    nowhere = EnvConfig(id="nowhere/Env-v0")  # making it would raise
    few, picture, torque = spaces.Discrete(2), spaces.Box(0, 255, (8, 8)), spaces.Box(-1, 1, (2,))
    for obs_space, action_space in [({"obs": picture}, few), ({"obs": few}, torque), ({"a": few, "b": few}, few)]:
        assert table_of(nowhere, SimpleNamespace(obs_space=obs_space, action_space=action_space)) is None
    with pytest.raises(UserError, match="there is no env"):
        table_of(nowhere, SimpleNamespace(obs_space={"obs": few}, action_space=few))


def test_training_only_noise_is_not_part_of_the_task() -> None:
    noisy = [{"action_noise": {"p": 0.5, "training_only": True}}]
    assert read("FrozenLake-v1", wrappers=noisy).optimum.value == 0.7442


@pytest.mark.parametrize(
    ("env_id", "settings", "episodes"),
    [
        ("FrozenLake-v1", {}, 2000),
        ("FrozenLake-v1", {"kwargs": {"success_rate": 0.6}, "max_episode_steps": 12}, 2000),
        ("Taxi-v4", {"kwargs": {"is_rainy": True}}, 500),
        ("CliffWalking-v1", {"max_episode_steps": 200}, 1),
    ],
)
def test_the_best_policy_earns_its_value_in_the_real_env(env_id: str, settings: dict[str, Any], episodes: int) -> None:
    """The mean of the returns lies within 4 standard errors of the optimum."""
    cfg = EnvConfig(id=env_id, **settings)
    table, env = read(env_id, **settings), make_env(cfg)
    best = best_actions(table)
    returns = []
    for episode in range(episodes):
        state, _ = env.reset(seed=episode)
        total, left, over = 0.0, table.horizon, False
        while not over:
            state, reward, terminated, truncated, _ = env.step(int(best[left][state]))
            total, left, over = total + float(reward), left - 1, terminated or truncated
        assert left >= 0
        returns.append(total)
    env.close()
    error = float(np.std(returns)) / np.sqrt(episodes)
    assert np.mean(returns) == pytest.approx(table.best_value, abs=4 * error + 1e-9)


@pytest.fixture
def session() -> Iterator[TrainState]:
    """A table as an agent: the action that is best with 20 steps to go is 7 times as likely as each other one."""
    settings = ["train.total_timesteps=2048", "env.n_envs=2", "algo.batch_size=64", "agent.hidden=[]"]
    built = build(load("FrozenLake-v1", settings).config, None)
    assert built.judge.table is not None
    with torch.no_grad():
        built.agent.actor_out.weight.zero_()
        for state, action in enumerate(best_actions(built.judge.table)[20]):
            built.agent.actor_out.weight[action, state] = np.log(7.0)
    yield built
    built.close()


@pytest.mark.parametrize("deterministic", [True, False])
def test_an_agents_exact_value_is_what_its_episodes_come_to(session: TrainState, deterministic: bool) -> None:
    assert session.judge.table is not None
    exact = exact_score(session.net, session.judge.table, deterministic)
    env = make_vec(session.config.env, 32, "eval")
    scores = evaluate(session.net, env, 3000, seed=1, deterministic=deterministic)
    env.close()
    error = scores.std / np.sqrt(scores.episodes)
    assert 0.0 < exact.value < exact.optimum  # or the two could not be distinguished
    assert scores.mean == pytest.approx(exact.value, abs=4 * error)
    assert exact.regret == exact.optimum - exact.value


@pytest.mark.parametrize("deterministic", [True, False])
@pytest.mark.parametrize(
    ("env_id", "setting"),
    [("FrozenLake-v1", "env.forbid=[[up]]"), ("Taxi-v4", "env.action_masks=true"), ("Taxi-v4", "env.forbid=[[west]]")],
)
def test_the_exact_value_of_a_masked_agent(env_id: str, setting: str, deterministic: bool) -> None:
    """Of one with strong wishes, many of them forbidden."""
    goals = ["stop.threshold=-1000", "stop.target=null"]  # the preset's are above what is left of the optimum
    settings = [setting, *goals, "train.total_timesteps=2048", "env.n_envs=2", "algo.batch_size=64", "agent.hidden=[]"]
    session = build(load(env_id, settings).config, None)
    with torch.no_grad():
        session.agent.actor_out.weight.normal_(0.0, 1.5, generator=torch.Generator().manual_seed(1))
    assert session.judge.table is not None
    exact = exact_score(session.net, session.judge.table, deterministic)
    env = make_vec(session.config.env, 32, "eval")
    scores = evaluate(session.net, env, 400, seed=1, deterministic=deterministic)
    env.close()
    session.close()
    assert scores.mean == pytest.approx(exact.value, abs=4 * scores.std / 20 + 1e-6)
    assert exact.value < exact.optimum


def test_luck_solves_nothing_where_the_value_is_known(session: TrainState) -> None:
    """The exact value decides, whatever the episodes of the score come to; they are played all the same."""
    assert session.judge.table is not None
    value = exact_score(session.net, session.judge.table).value
    for goal, shown in ((value - 1e-9, ("solved",)), (value + 1e-9, ())):
        verdict = session.judge.court.judge(Allowance(1, {"solved": goal}), NOTHING_SEEN)
        assert verdict.shown == shown
        assert verdict.test is None
        assert verdict.evaluation.episodes == session.config.stop.episodes
        assert verdict.score == value


def test_a_run_stops_when_the_exact_value_says_so() -> None:
    """The cliff's shortest way, -13, is either walked or not: the row that ends the run has just that."""
    resolved = load("CliffWalking-v1:ppo", ["train.seed=3", "train.total_timesteps=150000"])
    session = build(resolved.config, resolved.threshold)
    rows: list[dict[str, float]] = []
    result = train(session, observer=rows.append)
    session.close()
    scores = [row["eval/exact_value"] for row in rows if "eval/exact_value" in row]
    assert result.solved == (scores[-1] == -13.0)
    assert all(score < -13.0 for score in scores[:-1])
    assert rows[-1]["eval/best_mean_reward"] == max(scores)


def test_policies_are_probabilities(session: TrainState) -> None:
    assert session.judge.table is not None
    greedy, sampled = (policy_of(session.net, session.judge.table, deterministic) for deterministic in (True, False))
    best = best_actions(session.judge.table)[20]
    assert greedy.tolist() == np.eye(4)[best].tolist()
    # 7 : 1 : 1 : 1 adds up to 10.
    assert sampled == pytest.approx(0.1 + 0.6 * np.eye(4)[best], abs=1e-6)


def test_one_hot_observations_are_those_the_agent_is_given() -> None:
    table = read("FrozenLake-v1", wrappers=["one_hot"])
    assert table.obs["obs"].tolist() == np.eye(16).tolist()


def test_the_presets_own_threshold_is_refused_where_it_cannot_be_reached() -> None:
    """The goal is 14 moves away: never within 5. The threshold is the env's, so no rule of the config sees it."""
    resolved = load("FrozenLake8x8-v1", ["env.max_episode_steps=5", "stop.threshold=null"])
    with pytest.raises(UserError, match=r"stop.threshold: 0.85 is above the best possible mean return 0 of FrozenLake"):
        build(resolved.config, resolved.threshold)
