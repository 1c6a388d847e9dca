"""What must hold in any run, whatever it learns."""

from __future__ import annotations

import gc
import resource
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from gymnast.envs.types import StepBatch
from gymnast.metrics.catalogue import catalogue
from gymnast.rl.rollout import Rollout
from gymnast.training.build import build
from gymnast.training.loop import Result, train
from gymnast.training.state import TrainState
from tests.envs_for_tests import full_id
from tests.invariants.conftest import collect, small_config

Rows = list[dict[str, float]]


def run(session: TrainState) -> tuple[Result, Rows]:
    rows: Rows = []
    return train(session, observer=rows.append), rows


@pytest.mark.parametrize("env", ["CartPole-v1", "Pendulum-v1", "FrozenLake-v1"])
@pytest.mark.parametrize("agent", [{}, {"normalize_obs": True, "normalize_reward": True}])
def test_the_ratio_is_one_on_the_first_minibatch_of_every_update(env: str, agent: Any, make_session: Any) -> None:
    _, rows = run(make_session(small_config("ppo", env, agent=agent)))
    assert len(rows) > 10
    for row in rows:
        assert row["train/ratio_first"] == pytest.approx(1.0, abs=1e-5)


def test_same_seed_same_bits_and_another_seed_others(make_session: Any) -> None:
    runs = [run(make_session(small_config(train={"seed": seed, "total_timesteps": 2048})))[1] for seed in (3, 3, 4)]
    losses = [[row["train/loss"] for row in rows] for rows in runs]
    assert losses[0] == losses[1]
    assert losses[0] != losses[2]


def test_any_number_of_threads_learns_the_same_bits(make_session: Any) -> None:
    """From initial weights that are the same: a wide layer's orthogonal matrix depends on how its sums are divided."""
    learned = []
    for threads in (2, 1):
        train = {"threads": threads, "total_timesteps": 512}
        session = make_session(small_config(env_id="Pendulum-v1", agent={"hidden": [256, 256]}, train=train))
        begun = [leaf.clone() for leaf in session.agent.state_dict().values()]
        run(session)
        learned.append((begun, list(session.agent.state_dict().values())))
    for one, other in zip(*learned, strict=True):
        assert all(torch.equal(a, b) for a, b in zip(one, other, strict=True))


@pytest.mark.parametrize("algo", ["ppo", "a2c", "reinforce"])
def test_every_row_is_catalogued_and_in_order(algo: str, make_session: Any) -> None:
    _, rows = run(make_session(small_config(algo)))
    for row in rows:
        assert [name for name, value in row.items() if catalogue().get(name).out_of_bounds(value)] == []
        assert list(row) == list(catalogue().sort(row))


def test_rollouts_lose_no_step_and_repeat_none(make_session: Any) -> None:
    """The counting env's observation is the index of the step, so every row can be told."""
    session = make_session(small_config("ppo", full_id("Counting-v0"), env={"n_envs": 2}))
    previous: list[float] | None = None
    for _ in range(6):
        collect(session)
        rollout = session.rollout
        steps = rollout.obs["obs"].reshape(rollout.n_steps, 2, -1)[..., 0].tolist()
        for t, now in enumerate(steps):
            for env in range(2):
                if bool(rollout["starts"][t, env]):
                    assert now[env] == 0
                else:
                    before = steps[t - 1] if t else previous
                    assert before is not None
                    assert now[env] == before[env] + 1
        previous = steps[-1]
        ended = rollout.ended[:-1]
        assert torch.equal(rollout["starts"][1:], ended)


def test_rollout_keeps_copies_not_the_engines_buffers(make_session: Any) -> None:
    session = make_session(small_config("ppo"))
    collect(session)
    kept = {name: session.rollout[name].clone() for name in ("reward", "terminated", "action")}
    obs = session.rollout.obs["obs"].clone()
    for _ in range(5):
        session.env.step(np.zeros(4, np.int64))
    assert torch.equal(obs, session.rollout.obs["obs"])
    for name, tensor in kept.items():
        assert torch.equal(tensor, session.rollout[name])


def test_fresh_rollouts_are_poisoned_and_collected_ones_are_not(make_session: Any) -> None:
    session = make_session(small_config("ppo"))
    fresh = Rollout(4, 2, session.agent)
    assert torch.isnan(fresh["logp"]).all()
    assert torch.isnan(fresh.obs["obs"]).all()
    assert (fresh["action"] == -1).all()
    collect(session)
    session.learner.targets(session.rollout)
    for name in ("logp", "value", "reward", "final_value", "advantage", "returns"):
        assert torch.isfinite(session.rollout[name]).all(), name
    assert torch.isfinite(session.rollout.last_values["value"]).all()


def test_truncated_steps_bootstrap_from_the_final_observation(make_session: Any) -> None:
    session = make_session(small_config("ppo", full_id("Endless-v0"), algo={"n_steps": 128, "batch_size": 512}))
    torch.nn.init.constant_(session.agent.critic_out.bias, 3.0)  # the env shows only zeros, so its value is the bias
    collect(session)
    rollout = session.rollout
    assert rollout["truncated"].any()
    assert not rollout["terminated"].any()
    assert (rollout["final_value"][~rollout["truncated"]] == 0).all()
    assert (rollout["final_value"][rollout["truncated"]] == 3.0).all()


def test_an_infinite_horizon_is_worth_one_over_one_minus_gamma(make_session: Any) -> None:
    """Reward 1 forever, cut every 100 steps: with the cut as truncation the value is 1 / (1 - 0.99) = 100."""
    gamma = 0.99
    config = small_config(
        "ppo",
        full_id("Endless-v0"),
        agent={"hidden": []},
        algo={"n_steps": 128, "batch_size": 512, "n_epochs": 20, "learning_rate": 0.3, "gamma": gamma, "vf_coef": 1.0},
        train={"total_timesteps": 200_000},
        eval={"every": 0},
    )
    session = make_session(config)
    run(session)
    value = float(session.rollout["value"].mean())
    assert value == pytest.approx(1 / (1 - gamma), rel=0.02)


def test_no_update_after_the_stop(make_session: Any) -> None:
    session = make_session(small_config(stop={"on_solved": True}), threshold=1.0)
    result, rows = run(session)
    assert result.stop_reason == "solved"
    assert result.solved
    assert session.counters.env_steps == 1024  # the first evaluation; any policy scores over 1
    assert session.counters.updates == 1024 // 128
    assert rows[-1]["solved"] == 1.0
    assert [row["solved"] for row in rows[:-1]] == [0.0] * (len(rows) - 1)
    assert rows[-1]["verdict/episodes"] == 4


def test_a_threshold_out_of_reach_is_never_solved(make_session: Any) -> None:
    result, rows = run(make_session(small_config(stop={"on_solved": True}), threshold=501.0))
    assert result.stop_reason == "steps"
    assert not result.solved
    assert result.verdict is not None  # judged all the same, on the best agent
    assert rows[-1]["solved"] == 0.0
    assert result.env_steps == 4096


def test_watching_the_training_score_waits_for_a_full_window(make_session: Any) -> None:
    session = make_session(small_config(stop={"on_solved": True, "watch": "train"}, eval={"every": 0}), threshold=15.0)
    result, _ = run(session)
    assert result.stop_reason == "solved"
    assert session.meter.episode_count >= 100


def test_seconds_and_plateau_stop_too(make_session: Any) -> None:
    long = {"total_timesteps": 10**9}
    result, _ = run(make_session(small_config(train=long, stop={"seconds": 0.5})))
    assert result.stop_reason == "seconds"
    plateau = {"plateau": {"evals": 2, "min_delta": 1000.0}}
    session = make_session(small_config(train=long, stop=plateau))
    result, _ = run(session)
    assert result.stop_reason == "plateau"
    assert session.judge.record.evaluations == 3  # the first is the best; two more are no better by 1000


def test_evaluation_waits_for_warmup_and_level(make_session: Any) -> None:
    _, rows = run(make_session(small_config(eval={"warmup": 3000})))
    evaluated = [row["time/total_timesteps"] for row in rows if "eval/mean_reward" in row]
    assert evaluated[0] >= 3000
    session = make_session(small_config(eval={"start_level": 1e9}))
    _, rows = run(session)
    assert [row["time/total_timesteps"] for row in rows if "eval/mean_reward" in row] == [4096]  # the end, always


def test_both_policies_are_scored(make_session: Any) -> None:
    _, rows = run(make_session(small_config(eval={"policy": "both"})))
    assert {"eval/mean_reward", "eval/stochastic_mean_reward"} <= rows[-1].keys()


def test_evaluation_changes_nothing_in_training(make_session: Any) -> None:
    agent = {"normalize_obs": True, "hidden": [16]}
    often, never = (run(make_session(small_config(agent=agent, eval={"every": every})))[1] for every in (256, 0))
    by_step = {row["time/total_timesteps"]: row for row in often}
    for row in never:
        assert row["train/loss"] == by_step[row["time/total_timesteps"]]["train/loss"]


def test_scores_are_raw_whatever_the_learner_sees(make_session: Any) -> None:
    env = {"reward": {"scale": 0.01, "clip": 0.005}}
    _, rows = run(make_session(small_config(env=env, agent={"normalize_reward": False})))
    for row in rows:
        assert row["rollout/reward_mean"] == pytest.approx(0.005)  # 1 scaled to 0.01, clipped to 0.005
        assert row["rollout/ep_rew_mean"] == pytest.approx(row["rollout/ep_len_mean"])  # CartPole pays 1 a step


OBSERVATIONS = ("Box", "Image", "Discrete", "MultiDiscrete", "MultiBinary", "Dict", "Tuple")
ACTIONS = ("Discrete", "ShiftedDiscrete", "MultiDiscrete", "MultiBinary", "Box")


@pytest.mark.parametrize(
    "name", [*(f"{kind}Observation-v0" for kind in OBSERVATIONS), *(f"{kind}Action-v0" for kind in ACTIONS)]
)
def test_one_env_of_each_space_trains(name: str, make_session: Any) -> None:
    session = make_session(small_config("ppo", full_id(name), train={"total_timesteps": 512}, eval={"every": 256}))
    before = {key: tensor.clone() for key, tensor in session.agent.state_dict().items()}
    _, rows = run(session)
    assert all(np.isfinite(row["train/loss"]) for row in rows)
    assert any(not torch.equal(tensor, before[key]) for key, tensor in session.agent.state_dict().items())


@pytest.mark.parametrize(
    "agent",
    [
        {"squash": True},
        {"std": "state_dependent"},
        {"squash": True, "shared": True},
        {"std": "sde", "sde_sample_freq": 4},
        {"std": "sde", "squash": True, "hidden": []},
    ],
)
def test_continuous_variants_train(agent: Any, make_session: Any) -> None:
    _, rows = run(make_session(small_config("ppo", "Pendulum-v1", agent=agent, train={"total_timesteps": 1024})))
    assert all(np.isfinite(row["train/loss"]) for row in rows)
    assert all(row["train/ratio_first"] == pytest.approx(1.0, abs=1e-5) for row in rows)


def test_lasting_noise_is_one_linear_function_of_the_features_at_a_time(make_session: Any) -> None:
    """Without hidden layers the features are the observation: noise over 8 steps is then explained by 3 numbers."""
    agent = {"std": "sde", "sde_sample_freq": 8, "hidden": []}
    session = make_session(small_config("ppo", "Pendulum-v1", env={"n_envs": 2}, agent=agent, algo={"n_steps": 32}))

    def unexplained(obs: torch.Tensor, noise: torch.Tensor) -> float:
        matrix = torch.linalg.lstsq(obs, noise).solution
        return float((obs @ matrix - noise).abs().max())

    last = None
    for _ in range(2):
        collect(session)
        for env in range(2):
            obs = session.rollout.obs["obs"][:, env].clone()
            with torch.no_grad():
                noise = session.rollout["action"][:, env] - session.agent.actor_out(obs)
            for begin in range(0, 32, 8):
                assert unexplained(obs[begin : begin + 8], noise[begin : begin + 8]) < 1e-4
            assert unexplained(obs[:16], noise[:16]) > 1e-2
            if env == 1 and last is not None:  # nothing is carried over to the next rollout
                assert unexplained(torch.cat([last[0], obs[:8]]), torch.cat([last[1], noise[:8]])) > 1e-2
        last = obs[-8:], noise[-8:]


def test_masks_reach_rollout_and_evaluation(make_session: Any) -> None:
    config = small_config("ppo", "Taxi-v4", env={"action_masks": True}, train={"total_timesteps": 1024})
    session = make_session(config)
    _, rows = run(session)
    rollout = session.rollout
    chosen = rollout["mask"].gather(2, rollout["action"][..., None])
    assert chosen.all()
    assert not rollout["mask"].all()
    assert np.isfinite(rows[-1]["train/loss"])


def resident_bytes() -> int:
    """What this process holds now, which its peak would not say; 0 on a system that cannot tell."""
    statm = Path("/proc/self/statm")
    return int(statm.read_text().split()[1]) * resource.getpagesize() if statm.exists() else 0


def test_memory_does_not_grow(make_session: Any) -> None:
    config = small_config("a2c", train={"total_timesteps": 60_000}, eval={"every": 0}, log={"every": 640})
    session = make_session(config)
    objects: list[int] = []
    resident: list[int] = []

    def watch(row: dict[str, float]) -> None:
        if row["time/updates"] % 100 == 0:
            gc.collect()
            objects.append(len(gc.get_objects()))
            resident.append(resident_bytes())

    train(session, observer=watch)
    middle = len(objects) // 2  # what is imported late has been imported by then
    assert objects[-1] <= objects[middle] + 100  # over 400 updates: fewer than one object in four
    assert resident[-1] <= resident[middle] + 2**20  # one rollout kept of every update would be 30,000 x 44 bytes


def test_initialising_takes_what_fits_and_says_what(make_session: Any) -> None:
    from gymnast.runs.saved_agent import init_agent_from

    donor = make_session(small_config("ppo"))
    bigger = make_session(small_config("ppo", "Acrobot-v1"))  # 6 observations and 3 actions instead of 4 and 2
    taken, left = init_agent_from(bigger.agent, donor.agent.state_dict())
    assert set(left) == {
        "actor_body.layers.0.weight",
        "critic_body.layers.0.weight",
        "actor_out.weight",
        "actor_out.bias",
    }
    assert torch.equal(bigger.agent.state_dict()["critic_out.weight"], donor.agent.state_dict()["critic_out.weight"])
    assert set(taken) | set(left) == set(bigger.agent.state_dict())


def test_a_factory_works_in_place_of_an_id() -> None:
    import gymnasium as gym

    session = build(small_config("ppo", "custom"), None, factory=lambda: gym.make("CartPole-v1"))
    try:
        _, rows = run(session)
        assert isinstance(session.collector.now, StepBatch)
        assert rows[-1]["rollout/ep_rew_mean"] > 5
    finally:
        session.close()
