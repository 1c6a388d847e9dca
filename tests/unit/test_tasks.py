"""Several tasks in one run: the envs as one vector, the agent's own and shared layers, and the learner."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch

from gymnast.agent.agent import Agent
from gymnast.agent.batch import OBS, Batch
from gymnast.agent.nets import TorchNet, choose_net
from gymnast.config import AgentConfig, ConfigError, RunConfig, load, validate
from gymnast.config.schema import shares_of
from gymnast.core.errors import UserError
from gymnast.core.seeds import derive_seed
from gymnast.core.tasks import TASK, relative
from gymnast.envs.make import make_vec
from gymnast.envs.tasks import (
    join_spaces,
    joint_action_space,
    joint_obs_space,
    make_training_tasks,
    own_actions,
    task_spaces,
)
from gymnast.judge.tasks import task_thresholds
from gymnast.metrics.meter import Meter
from gymnast.rl.learner import normalized
from gymnast.runs.saved_agent import build_agent
from gymnast.training.build import build
from tests.envs_for_tests import full_id
from tests.unit.test_metrics import Episode

GRAVITIES = [{"name": "low", "env": {"kwargs": {"gravity": -6}}}, {"name": "high", "env": {"kwargs": {"gravity": -11}}}]
TWO_GAMES = [{"name": "cartpole"}, {"name": "acrobot", "env": {"id": "Acrobot-v1"}}]


def config_of(tasks: list[dict[str, Any]], env_id: str = "CartPole-v1", n_envs: int = 6, **sections: Any) -> RunConfig:
    data: dict[str, Any] = {
        "env": {"id": env_id, "n_envs": n_envs, "engine": "sync"},
        "algo": {"n_steps": 8, "batch_size": 24},
        "tasks": [{**task, "env": {**task.get("env", {}), "engine": "sync"}} for task in tasks],
    }
    return validate(data | sections)


# Config


@pytest.mark.parametrize(
    ("n_envs", "weights", "shares"),
    [
        (6, (1, 1), [3, 3]),
        (64, (1, 1, 1), [22, 21, 21]),  # 21.33 each: the one that is left goes to the first
        (8, (3, 1), [6, 2]),
        (10, (0.3, 0.7), [3, 7]),
        (10, (1, 2, 4), [1, 3, 6]),  # 1.43, 2.86, 5.71: the two that are left go to 0.86 and 0.71
        (3, (1, 9), [0, 3]),
    ],
)
def test_envs_are_shared_out_by_weight(n_envs: int, weights: tuple[float, ...], shares: list[int]) -> None:
    assert shares_of(n_envs, weights) == shares
    assert sum(shares) == n_envs


def test_all_that_is_wrong_with_tasks_is_said_at_once() -> None:
    with pytest.raises(ConfigError) as error:
        config_of(
            [{"name": "a"}, {"name": "a", "weight": 50}, {"name": "b", "env": {"wrappers": ["nonsense"]}}],
            stop={"threshold": 3, "target": 5, "watch": "train"},
            eval={"env": {"kwargs": {}}},
        )
    lines = error.value.problems
    for part in (
        "two tasks are called 'a'",
        "env.n_envs: 6 leave none for the task 'a' by its weight. Use at least 35",
        "stop.threshold: each task has a threshold of its own",
        "stop.target: each task has a threshold of its own",
        "stop.watch: a verdict on several tasks",
        "eval.env: tasks are scored in their own envs",
        "tasks[2].env.wrappers",
    ):
        assert any(part in line for line in lines), (part, lines)
    assert 0 not in shares_of(35, (1, 50, 1))  # 0.67, 33.65, 0.67: both that are left go to the small ones
    assert 0 in shares_of(34, (1, 50, 1))


@pytest.mark.parametrize(
    ("task", "line"),
    [
        ({"name": "a b"}, "tasks[0].name"),
        ({"name": "a", "weight": 0}, "tasks[0].weight = 0: must be more than 0."),
        ({"name": "a", "weigth": 1}, "tasks[0].weigth = 1: unknown key. Did you mean 'tasks[0].weight'?"),
        ({"name": "a", "env": {"kwarg": {}}}, "Did you mean"),
    ],
)
def test_a_mistake_in_a_task_names_its_key(task: dict[str, Any], line: str) -> None:
    with pytest.raises(ConfigError) as error:
        validate({"env": {"id": "CartPole-v1"}, "tasks": [task]})
    assert line in str(error.value)


def test_another_id_leaves_behind_what_is_meant_for_the_first_env() -> None:
    config = config_of(
        TWO_GAMES,
        env={
            "id": "CartPole-v1",
            "n_envs": 4,
            "max_episode_steps": 50,
            "wrappers": ["flatten"],
            "shaping": {"centring": 1},
        },
        algo={"n_steps": 8, "batch_size": 8},
    )
    first, second = config.task_envs
    assert (first.max_episode_steps, len(first.wrappers), first.shaping) == (50, 1, {"centring": 1})
    assert (second.id, second.max_episode_steps, second.wrappers, second.shaping) == ("Acrobot-v1", None, [], {})
    assert [env.n_envs for env in config.task_envs] == [2, 2]


@pytest.mark.parametrize(
    ("engine", "expected"), [("sync", "sync"), ("process", "process"), ("cartpole", "auto"), ("auto", "auto")]
)
def test_an_engine_that_steps_every_env_reaches_every_id(engine: str, expected: str) -> None:
    config = load("CartPole-v1:and-acrobot", [f"env.engine={engine}"]).config
    assert [env.engine for env in config.task_envs] == [engine, expected]
    assert load("CartPole-v1", [f"env.engine={engine}", "eval.env.id=Acrobot-v1"]).config.eval_env.engine == expected
    own = load("CartPole-v1", [f"env.engine={engine}", "eval.env={id: Acrobot-v1, engine: envpool}"]).config
    assert own.eval_env.engine == "envpool"


def test_thresholds_are_the_tasks_own_or_those_of_their_envs() -> None:
    tasks = [*TWO_GAMES, {"name": "short", "threshold": 30}]
    assert task_thresholds(config_of(tasks)) == {"cartpole": 475, "acrobot": -100, "short": 30}
    with pytest.raises(UserError, match=r"tasks\[0\].threshold: 501 is above the best possible mean return 500"):
        task_thresholds(config_of([{"name": "a", "threshold": 501}]))
    with pytest.raises(UserError, match=r"tasks\[0\].threshold: no threshold is known for"):
        task_thresholds(config_of([{"name": "a"}], full_id("Counting-v0")))


# Envs


@pytest.mark.parametrize(("tasks", "env_id"), [(GRAVITIES, "LunarLander-v3"), (TWO_GAMES, "CartPole-v1")])
def test_the_joint_vector_is_its_parts_row_by_row(tasks: list[dict[str, Any]], env_id: str) -> None:
    config = config_of([tasks[0] | {"weight": 2}, tasks[1]], env_id)
    joint = make_training_tasks(config)
    parts = [make_vec(cfg, cfg.n_envs, "train") for cfg in config.task_envs]
    assert [part.n_envs for part in parts] == [4, 2]
    rng = np.random.default_rng(0)
    ended = 0
    try:
        ours = joint.reset(7)
        theirs = [parts[0].reset(7), parts[1].reset(derive_seed(7, "task", 1))]
        for _ in range(250):
            assert ours.obs[TASK].tolist() == [0, 0, 0, 0, 1, 1]
            for number, (part, rows) in enumerate(zip(theirs, (slice(0, 4), slice(4, 6)), strict=True)):
                leaf = "obs" if joint.tasks.alike else f"{joint.tasks.names[number]}/obs"
                assert np.array_equal(ours.obs[leaf][rows], part.obs["obs"])
                if not joint.tasks.alike:  # nothing of the other task
                    assert not ours.obs[f"{joint.tasks.names[1 - number]}/obs"][rows].any()
                for name in ("reward", "terminated", "truncated"):
                    assert np.array_equal(getattr(ours, name)[rows], getattr(part, name))
                done = part.terminated | part.truncated
                assert np.array_equal(ours.final_obs[leaf][rows][done], part.final_obs["obs"][done])
                mine = [e for e in ours.episodes if e.task == joint.tasks.names[number]]
                assert [(e.env - rows.start, e.raw_return, e.seed) for e in mine] == [
                    (e.env, e.raw_return, e.seed) for e in part.episodes
                ]
                ended += len(mine)
            actions = np.array([rng.integers(space.n) for space in joint.tasks.actions for _ in range(4)])[:6]
            actions[4:] = rng.integers(joint.tasks.actions[1].n, size=2)  # type: ignore[attr-defined]
            ours, theirs = joint.step(actions), [parts[0].step(actions[:4]), parts[1].step(actions[4:])]
        assert ended >= 4
    finally:
        joint.close()
        for part in parts:
            part.close()


def test_spaces_found_without_engines_are_those_of_the_engines() -> None:
    for tasks, env_id in ((GRAVITIES, "LunarLander-v3"), (TWO_GAMES, "CartPole-v1")):
        own = [task | {"env": task.get("env", {})} for task in tasks]
        data = config_of(tasks, env_id).model_dump(mode="json")
        config = validate(data | {"env": data["env"] | {"engine": "auto"}, "tasks": own})
        env = make_training_tasks(config)  # the native engines, where there are any
        env.close()
        found = task_spaces(config)
        assert found == env.tasks
        assert found.alike == (tasks is GRAVITIES)


def test_different_kinds_of_actions_are_refused_in_one_line() -> None:
    tasks = [{"name": "cartpole"}, {"name": "pendulum", "env": {"id": "Pendulum-v1"}, "threshold": -200}]
    with pytest.raises(UserError) as error:
        make_training_tasks(config_of(tasks))
    assert "cartpole Discrete, pendulum Box; tasks with different spaces need all Discrete or all Box" in str(
        error.value
    )
    assert "\n" not in str(error.value)


def test_box_actions_are_scaled_to_the_bounds_of_their_task() -> None:
    tasks = [
        {"name": "pendulum", "threshold": -200},  # -2..2
        {"name": "car", "env": {"id": "MountainCarContinuous-v0"}},  # -1..1
    ]
    env = make_training_tasks(config_of(tasks, "Pendulum-v1", n_envs=2, algo={"n_steps": 8, "batch_size": 8}))
    try:
        actions = np.array([[0.5], [0.5]], np.float32)
        assert own_actions(env.tasks, 0, actions[:1]).tolist() == [[1.0]]
        assert own_actions(env.tasks, 1, actions[1:]).tolist() == [[0.5]]
        assert own_actions(env.tasks, 0, np.array([[-7.0]], np.float32)).tolist() == [[-2.0]]
    finally:
        env.close()


# Agent


def two_games(**settings: Any) -> tuple[Agent, dict[str, torch.Tensor]]:
    """An agent for CartPole and Acrobot, and observations of six envs in three rows each."""
    config = config_of(TWO_GAMES, agent={"hidden": [16, 16]} | settings)
    env = make_training_tasks(config)
    agent = build_agent(config, env)
    obs = {key: torch.from_numpy(rows.copy()) for key, rows in env.reset(3).obs.items()}
    env.close()
    return agent, obs


def test_actions_that_a_task_does_not_have_are_never_taken() -> None:
    agent, obs = two_games()
    with torch.no_grad():
        agent.actor_out.bias.fill_(0.0)
        agent.actor_out.bias[2] = 50.0  # CartPole's third action, which it does not have
    sample = torch.Generator().manual_seed(0)
    seen = torch.cat([agent.act(obs, sample=sample).action for _ in range(2000)]).view(-1, 6)
    assert set(seen[:, :3].unique().tolist()) == {0, 1}
    assert set(seen[:, 3:].unique().tolist()) == {0, 1, 2}
    assert agent.act(obs).action[:3].max() < 2
    columns = {OBS + key: rows for key, rows in obs.items()} | {"action": torch.full((6,), 1)}
    thought = agent.describe(Batch(columns))
    assert thought["probability"][:3, 2].tolist() == [0.0, 0.0, 0.0]
    entropy = agent.evaluate(Batch(columns)).entropy
    assert entropy[:3].max() <= np.log(2) + 1e-6  # of two choices, not of three


def test_samples_of_a_task_leave_the_other_tasks_layers_alone() -> None:
    agent, obs = two_games(normalize_obs=True)
    mine = obs[TASK] == 0
    columns = {OBS + key: rows[mine] for key, rows in obs.items()} | {"action": torch.zeros(3, dtype=torch.int64)}
    out = agent.evaluate(Batch(columns))
    (out.logp.sum() + out.entropy.sum() + out.values["value"].sum()).backward()
    gradients = {name: p.grad for name, p in agent.named_parameters()}
    for name, grad in gradients.items():
        if ".encoders.1." in name:
            assert grad is None, name
        elif ".encoders.0." in name or ".trunk." in name:
            assert grad is not None, name
            assert grad.abs().sum() > 0, name
    last, value = gradients["actor_out.weight"], gradients["critic_out.weight"]
    assert last is not None
    assert value is not None
    assert last[:2].abs().sum() > 0
    assert not last[2:].any()
    assert value[0].abs().sum() > 0
    assert not value[1].any()


def test_statistics_of_observations_are_of_the_tasks_own_rows() -> None:
    agent, obs = two_games(normalize_obs=True)
    assert agent.normalizer is not None
    agent.normalizer.update(obs)
    for key, moments in agent.normalizer._leaves():
        own = obs[key][obs[TASK] == agent.normalizer.owners[key]].double()
        assert moments.count == 3
        torch.testing.assert_close(moments.mean, own.mean(0))


def test_a_row_is_read_as_it_is_alone() -> None:
    """Which rows are next to it makes no difference."""
    agent, obs = two_games()
    every = agent.values(obs)["value"]
    for row in range(6):
        alone = agent.values({key: leaf[row : row + 1] for key, leaf in obs.items()})["value"]
        torch.testing.assert_close(alone, every[row : row + 1])
    order = torch.tensor([4, 0, 5, 2, 1, 3])  # as a batch comes
    torch.testing.assert_close(agent.values({key: leaf[order] for key, leaf in obs.items()})["value"], every[order])


def test_padded_numbers_count_neither_in_probabilities_nor_in_the_entropy() -> None:
    small, large = gym.spaces.Box(-2, 2, (1,)), gym.spaces.Box(-1, 1, (3,))
    leaf = gym.spaces.Box(-1, 1, (2,))
    tasks = join_spaces(["small", "large"], [({"obs": leaf}, small), ({"obs": leaf}, large)])
    spaces = joint_obs_space(tasks), joint_action_space(tasks)
    for squash in (False, True):
        torch.manual_seed(0)
        agent = Agent(*spaces, AgentConfig(hidden=[8, 8], squash=squash), 0.99, reward_scales=(1.0, 1.0), tasks=tasks)
        obs = {"small/obs": torch.randn(2, 2), "large/obs": torch.randn(2, 2), TASK: torch.tensor([0, 1])}
        acted = agent.act(obs, sample=torch.Generator().manual_seed(1))
        assert acted.action[0, 1:].tolist() == [0.0, 0.0]
        assert (acted.action[1] != 0).all()
        columns = {OBS + key: rows for key, rows in obs.items()}
        out = agent.evaluate(Batch(columns | {"action": acted.action}))
        torch.testing.assert_close(out.logp.detach(), acted.logp)
        if not squash:  # one number of a standard Gaussian, and three of them
            each = 0.5 + 0.5 * np.log(2 * np.pi)
            torch.testing.assert_close(out.entropy.detach(), torch.tensor([each, 3 * each], dtype=torch.float32))
        (out.logp[0] + out.entropy[0]).backward()
        assert agent.head.log_std.grad is not None
        assert agent.head.log_std.grad[0, 0] != 0
        assert not agent.head.log_std.grad[0, 1:].any()
        assert not agent.head.log_std.grad[1].any()


def test_the_compiled_network_does_not_take_several_tasks() -> None:
    agent, _ = two_games()
    assert isinstance(choose_net(agent), TorchNet)


def test_one_hidden_layer_is_too_few_to_share() -> None:
    with pytest.raises(UserError, match=r"agent.hidden: .* leaves nothing to share"):
        two_games(hidden=[16])


# Learner


def test_every_task_has_its_own_scale_of_rewards_and_of_advantages() -> None:
    tasks = [TWO_GAMES[0] | {"reward_scale": 0.5}, TWO_GAMES[1] | {"reward_scale": 100.0}]
    config = config_of(tasks, agent={"hidden": [8, 8], "normalize_reward": True, "clip_reward": 1e9})
    state = build(config, 0.0)
    try:
        learner, rollout = state.learner, state.rollout
        state.collector.fill(rollout, lambda phase: None)
        raw = rollout["reward"].clone()
        assert raw[:, :3].eq(1).all()
        assert raw[:, 3:].eq(-1).all()
        learner.learner_reward(rollout)
        scales = [one.moments.scale for one in state.agent.reward_normalizers or ()]
        assert len(scales) == 2
        assert scales[0] > 10 * scales[1]
        torch.testing.assert_close(rollout["reward"][:, :3], raw[:, :3] * 0.5 * scales[0])
        torch.testing.assert_close(rollout["reward"][:, 3:], raw[:, 3:] * 100.0 * scales[1])
        # values are shown in each env's own reward
        value = torch.tensor([1.0, 1.0])
        shown = state.agent.to_env(value, torch.tensor([0, 1]))
        torch.testing.assert_close(shown, torch.stack([1 / (0.5 * scales[0]), 1 / (100.0 * scales[1])]))

        task = torch.tensor([0, 1, 0, 1, 0, 1])
        advantage = torch.tensor([1.0, 1000.0, 2.0, 3000.0, 4.0, 8000.0])
        batch = Batch({OBS + TASK: task, "action": task})
        scaled = learner.normalized(advantage, batch)
        for number in (0, 1):
            own = task == number
            torch.testing.assert_close(scaled[own], normalized(advantage[own]))
            torch.testing.assert_close(scaled[own].std(), torch.tensor(1.0))
        one_alone = learner.normalized(advantage[:2], Batch({OBS + TASK: task[:2], "action": task[:2]}))
        assert one_alone.tolist() == [0.0, 0.0]
        equal = learner.normalized(torch.tensor([0.1, 7.0, 0.1, 8.0, 0.1, 9.0]), batch)
        assert equal[task == 0].tolist() == [0.0, 0.0, 0.0]  # not 1 or -1 by rounding
        torch.testing.assert_close(equal[task == 1], torch.tensor([-1.0, 0.0, 1.0]))
    finally:
        state.close()


def test_batches_hold_as_much_of_a_task_as_it_weighs() -> None:
    config = config_of([TWO_GAMES[0] | {"weight": 2}, TWO_GAMES[1]], agent={"hidden": [8, 8]})
    state = build(config, 0.0)
    try:
        state.collector.fill(state.rollout, lambda phase: None)
        task = state.learner.batch(state.rollout)[OBS + TASK]
        assert torch.bincount(task).tolist() == [32, 16]  # of 6 envs x 8 steps
    finally:
        state.close()


# Metrics


def test_a_meter_shows_each_task_and_the_worst_one() -> None:
    meter = Meter(window=2, thresholds={"a": 100.0, "b": -50.0})
    meter.episodes([Episode(80.0, 10, task="a"), Episode(90.0, 20, task="a"), Episode(-60.0, 7, task="b")])
    row = meter.row()
    assert row["rollout/ep_rew_mean/a"] == 85.0
    assert row["rollout/ep_rew_mean/b"] == -60.0
    assert row["rollout/ep_len_mean/a"] == 15.0
    assert row["rollout/ep_rew_mean"] == pytest.approx(-0.2)  # b: (-60 + 50) / 50; a: (85 - 100) / 100 = -0.15
    assert row["rollout/ep_len_mean"] == 7.0
    assert meter.train_score() is None  # b has one episode of two
    assert meter.train_score(least=1) == pytest.approx(-0.2)
    meter.episodes([Episode(-40.0, 9, task="b")])
    assert meter.train_score() == pytest.approx(-0.15)
    loaded = Meter(window=2, thresholds={"a": 100.0, "b": -50.0})
    loaded.load(meter.state())
    assert loaded.row() == meter.row()


def test_relative_scores_are_zero_at_the_threshold() -> None:
    assert [relative(x, 475.0) for x in (475.0, 0.0)] == [0.0, -1.0]
    assert [relative(x, -100.0) for x in (-100.0, -50.0, -200.0)] == [0.0, 0.5, -1.0]
    assert relative(3.0, 0.0) == 3.0
