"""The Python API: what it means, what it keeps, what it refuses."""

from __future__ import annotations

import inspect
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import stable_baselines3 as sb3
import torch

import gymnast
from gymnast import A2C, PPO, REINFORCE, evaluate_policy, make_vec_env
from gymnast.api.arguments import in_python
from gymnast.api.settings import keyword_places
from gymnast.core.errors import UserError
from gymnast.core.schedule import Schedule
from gymnast.verbs.train import start
from tests.envs_for_tests import ACTIONS, OBSERVATIONS, Counting, Masked, Spaces, full_id

SHARED = Counting()
SMALL = {"n_steps": 32, "batch_size": 32, "n_epochs": 2, "hidden": [16]}


def small_ppo(env: Any = "CartPole-v1", **keywords: Any) -> PPO:
    return PPO(env, **{**SMALL, "n_envs": 1, **keywords})


def weights(model: Any) -> list[np.ndarray[Any, Any]]:
    return [tensor.numpy().copy() for tensor in model.policy.state_dict().values()]


def same(one: Any, other: Any) -> bool:
    return all(np.array_equal(a, b) for a, b in zip(weights(one), weights(other), strict=True))


def test_importing_the_package_imports_nothing_heavy() -> None:
    code = (
        "import sys, gymnast; gymnast.__version__\n"
        "print([name for name in sys.modules if name in "
        "('torch', 'numpy', 'gymnasium', 'pydantic', 'rich', 'click', 'ruamel')])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
    assert {"A2C", "PPO", "REINFORCE", "VecEnv", "evaluate_policy", "load", "make_vec_env"} == set(gymnast.__all__)
    assert set(gymnast.__all__) <= set(dir(gymnast))
    with pytest.raises(AttributeError, match="has no attribute 'ppo'"):
        _ = gymnast.ppo


@pytest.mark.parametrize(
    ("name", "instead"),
    [
        ("DQN", "no off-policy algorithms. PPO, A2C and REINFORCE train on the same envs"),
        ("SAC", "no off-policy algorithms"),
        ("MaskablePPO", r"set=\{'env.action_masks': True\}"),
        ("RecurrentPPO", "memory='lstm'"),
        ("VecNormalize", "normalize_obs=True"),
        ("EvalCallback", "from stable_baselines3.common.callbacks"),
    ],
)
def test_names_of_other_libraries_are_answered_with_what_is_here(name: str, instead: str) -> None:
    with pytest.raises(ImportError, match=f"gymnast has no {name}.*{instead}"):
        exec(f"from gymnast import {name}")


def test_what_is_advised_instead_of_other_libraries_classes_works() -> None:
    assert small_ppo(lambda: Masked(), set={"env.action_masks": True}).config.env.action_masks
    assert small_ppo(memory="lstm").agent.has_memory


@pytest.mark.parametrize(("ours", "theirs"), [(PPO, sb3.PPO), (A2C, sb3.A2C)])
def test_defaults_are_those_of_stable_baselines3(ours: Any, theirs: Any) -> None:
    model = ours("CartPole-v1")
    places = keyword_places(ours.algo)
    checked = 0
    for name, parameter in inspect.signature(theirs).parameters.items():
        if name not in places or name in ("seed", "device"):
            continue
        section, _, key = places[name].partition(".")
        mine = getattr(getattr(model.config, section), key)
        mine = mine.value(0.0) if isinstance(mine, Schedule) else mine
        mine = {"batch": True, "off": False}.get(mine, mine) if name == "normalize_advantage" else mine
        mine = -1 if mine is None and name == "sde_sample_freq" else mine  # both mean a whole rollout
        assert mine == parameter.default, name
        checked += 1
    assert checked >= 8  # learning_rate, n_steps, gamma, gae_lambda, ent_coef, vf_coef, max_grad_norm, ...
    assert model.n_envs == 1
    assert (model.config.agent.hidden, model.config.agent.activation) == ([64, 64], "tanh")
    assert model.config.agent.rescale_actions is False


@pytest.mark.parametrize("freq, lasts", [(-1, None), (4, 4)])
def test_gsde_by_stable_baselines3s_keywords(freq: int, lasts: int | None) -> None:
    options = {"use_sde": True, "sde_sample_freq": freq, "policy_kwargs": {"log_std_init": -2.0}}
    model = PPO("Pendulum-v1", n_steps=32, batch_size=32, **options)
    agent = model.config.agent
    assert (agent.std, agent.sde_sample_freq, agent.log_std_init) == ("sde", lasts, -2.0)
    assert tuple(model.policy.head.log_std.shape) == tuple(
        sb3.PPO("MlpPolicy", "Pendulum-v1", **options).policy.log_std.shape
    )
    model.learn(64)
    action, _ = model.predict(np.zeros(3, np.float32), deterministic=False)
    assert model.action_space.contains(action)


class Pictures(gym.Env[Any, Any]):
    """Noise to look at, and a point for the second of two actions."""

    action_space = gym.spaces.Discrete(2)

    def __init__(self, size: int = 36) -> None:
        self.observation_space = gym.spaces.Box(0, 255, (size, size, 1), np.uint8)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        return self.look(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        return self.look(), float(action), bool(self.np_random.random() < 0.2), False, {}

    def look(self) -> Any:
        return self.np_random.integers(0, 256, self.observation_space.shape, np.uint8)


def test_cnn_policy_is_stable_baselines3s_network_and_trains(tmp_path: Path) -> None:
    model = PPO("CnnPolicy", Pictures(), n_steps=32, batch_size=16, n_epochs=2, seed=1)
    theirs = sb3.PPO("CnnPolicy", Pictures(), n_steps=32, batch_size=16)
    sizes = [sorted(one.numel() for one in each.policy.parameters()) for each in (model, theirs)]
    assert sizes[0] == sizes[1]
    before = weights(model)
    model.learn(64)
    assert all(not np.array_equal(old, new) for old, new in zip(before, weights(model), strict=True))
    model.save(tmp_path / "model")
    picture = Pictures().reset(seed=3)[0]
    assert PPO.load(tmp_path / "model").predict(picture, deterministic=True) == model.predict(
        picture, deterministic=True
    )
    wider = PPO("CnnPolicy", Pictures(), n_steps=32, batch_size=16, policy_kwargs={"net_arch": [8]})
    assert wider.config.agent.hidden == [8]  # keywords overrule what the policy's name says
    with pytest.raises(UserError, match="pictures of at least 36 x 36 pixels"):
        PPO("CnnPolicy", Pictures(size=35))


def test_actor_and_critic_may_have_other_sizes() -> None:
    options: dict[str, Any] = {"n_steps": 32, "batch_size": 16, "n_epochs": 1, "seed": 0}
    model = PPO("CartPole-v1", policy_kwargs={"net_arch": {"pi": [8], "vf": [16, 4]}}, **options).learn(32)
    shapes = {name: tuple(p.shape) for name, p in model.policy.named_parameters() if "out.weight" in name}
    assert shapes == {"actor_out.weight": (2, 8), "critic_out.weight": (1, 4)}
    same = PPO("CartPole-v1", policy_kwargs={"net_arch": {"pi": [8], "vf": [8]}}, **options)
    assert (same.config.agent.hidden, same.config.agent.critic_hidden) == ([8], None)


def test_optimizers_by_their_classes() -> None:
    kwargs = {"optimizer_class": torch.optim.AdamW, "optimizer_kwargs": {"eps": 1e-6}}
    algo = PPO("CartPole-v1", policy_kwargs=kwargs).config.algo
    assert (algo.optimizer, algo.weight_decay, algo.optimizer_eps) == ("adamw", 0.01, 1e-6)
    kwargs = {"optimizer_kwargs": {"weight_decay": 0.0}, "optimizer_class": torch.optim.AdamW}
    assert PPO("CartPole-v1", policy_kwargs=kwargs).config.algo.weight_decay == 0.0  # whatever the order
    assert A2C("CartPole-v1", policy_kwargs={"optimizer_class": torch.optim.Adam}).config.algo.optimizer == "adam"
    algo = A2C(
        "CartPole-v1", policy_kwargs={"optimizer_class": torch.optim.AdamW, "optimizer_kwargs": None}
    ).config.algo
    assert (algo.optimizer, algo.optimizer_numbers) == ("adamw", {"eps": 1e-5, "weight_decay": 0.01})
    with pytest.raises(UserError, match=r"Use torch.optim's Adam or AdamW, or RMSprop with A2C"):
        A2C("CartPole-v1", policy_kwargs={"optimizer_class": torch.optim.SGD})


def test_an_action_is_an_array_and_finds_its_entry_in_a_table() -> None:
    env = gym.make("FrozenLake-v1")  # its transitions are a dict of actions
    action, _ = small_ppo(env).predict(env.reset(seed=0)[0])
    assert isinstance(action, np.ndarray)
    assert (action.shape, action.dtype) == ((), np.int64)
    assert {0: "left", 1: "down", 2: "right", 3: "up"}[action] == ["left", "down", "right", "up"][action]
    env.step(action)
    torque, _ = small_ppo("Pendulum-v1").predict(np.zeros(3, np.float32))
    assert torque.shape == (1,)


@pytest.mark.parametrize(
    ("keywords", "said"),
    [
        ({"batch_size": 100}, r"Use batch_size=128 \(or 64, 256\)\.$"),
        ({"policy_kwargs": {"net_arch": 64}}, r"'net_arch': 64\}\): must be a list, one number a layer: \[64\]"),
        ({"gamma": 2.0}, "gamma = 2.0"),
    ],
)
def test_wrong_arguments_are_value_errors_that_name_keywords(keywords: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said) as caught:
        PPO("CartPole-v1", **keywords)
    assert "--set" not in str(caught.value)


def test_unknown_ids_are_what_gymnasium_raises_for_them() -> None:
    with pytest.raises(gym.error.DeprecatedEnv, match=r"no env 'Taxi-v3'. Registered: .*Taxi-v4"):
        make_vec_env("Taxi-v3")
    with pytest.raises(gym.error.UnregisteredEnv, match="no env 'Nowhere-v0'"):
        PPO("Nowhere-v0")


def test_errors_in_python_name_other_settings_by_set() -> None:
    said = (
        "leave it out, --set 'env.wrappers=[{scale: {by: 2}}]', or change it; `gymnast x --set a.b=1`. Use --set a.b=2."
    )
    assert in_python(said) == (
        "leave it out, set={'env.wrappers': [{scale: {by: 2}}]}, or change it; `gymnast x --set a.b=1`. "
        "Use set={'a.b': 2}."
    )


def test_an_observation_that_is_not_a_number_is_refused() -> None:
    with pytest.raises(ValueError, match=r"NaN in 'obs', first at row 0, \[2\]"):
        small_ppo().predict(np.array([0, 0, np.nan, 0], np.float32))


def test_a_device_that_is_not_here_becomes_the_cpu(tmp_path: Path) -> None:
    if torch.cuda.is_available():
        pytest.skip("this machine has one")
    with pytest.warns(UserWarning, match="device='cuda:0' is not available on this machine: the CPU is used"):
        model = small_ppo(device="cuda:0", seed=5)
    assert (model.device.type, model.seed) == ("cpu", 5)
    model.save(tmp_path / "model")
    with pytest.warns(UserWarning, match="device='cuda' is not available"):
        assert PPO.load(tmp_path / "model", device=torch.device("cuda")).device.type == "cpu"


def test_a_preset_is_a_start_that_keywords_change() -> None:
    model = PPO("CartPole-v1:ppo", gamma=0.5, set={"env.max_episode_steps": 50}, seed=7)
    assert (model.n_envs, model.config.algo.n_steps, model.config.algo.gamma) == (32, 64, 0.5)
    assert (model.config.env.max_episode_steps, model.config.train.seed) == (50, 7)
    assert (model.config.eval_every, model.config.stop.on_solved) == (0, False)


@pytest.mark.parametrize("observation", OBSERVATIONS)
def test_every_observation_space(observation: str, tmp_path: Path) -> None:
    env = Spaces(observation)
    model = small_ppo(env).learn(64)
    vec_env = model.get_env()
    shown = vec_env.reset()
    batched, _ = model.predict(shown, deterministic=True)
    # one raw observation of the env is predicted like the same one in a batch
    env.reset(seed=1)
    single = env.observation_space.sample()
    action, _ = model.predict(single, deterministic=True)
    assert env.action_space.contains(action)
    assert batched.shape == (1,)
    obs, *_ = vec_env.step(batched)
    assert np.shape(model.predict(obs)[0]) == (1,)
    model.save(tmp_path / "model")
    alone = PPO.load(tmp_path / "model")  # no env: the file knows the spaces
    assert alone.observation_space == env.observation_space
    assert [alone.predict(single)[0] for _ in range(20)] == [model.predict(single)[0] for _ in range(20)]


@pytest.mark.parametrize("algo", [PPO, A2C, REINFORCE])
@pytest.mark.parametrize("action", ACTIONS)
def test_every_action_space(algo: Any, action: str) -> None:
    space = ACTIONS[action]
    size = {"batch_size": 32} if algo is PPO else {}
    model = algo(lambda: Spaces("Box", action), n_envs=2, n_steps=32, **size).learn(128)
    env = Spaces("Box", action)
    obs, _ = env.reset(seed=0)
    for _ in range(8):
        taken, _ = model.predict(obs)
        assert space.contains(taken), taken
        assert np.asarray(taken).dtype == space.dtype
        obs, *_ = env.step(taken)
    many, _ = model.predict(np.zeros((5, 3)))
    assert many.shape == (5, *(space.shape or ()))
    vec_env = model.get_env()
    vec_env.step(model.predict(vec_env.reset())[0])  # the env itself checks what reaches it


@pytest.mark.parametrize("squash", [False, True])
def test_continuous_actions_stay_in_bounds(squash: bool) -> None:
    model = small_ppo("Pendulum-v1", log_std_init=3.0, squash=squash)
    actions, _ = model.predict(np.zeros((500, 3), np.float32))
    assert np.abs(actions).max() <= 2.0
    assert np.abs(actions).max() > 1.9  # a spread of e**3 fills them


def test_a_loaded_model_acts_and_learns_on_like_the_saved_one(tmp_path: Path) -> None:
    keywords: dict[str, Any] = {"normalize_obs": True, "normalize_reward": True, "learning_rate": 1e-2}
    model = small_ppo(n_envs=2, seed=3, **keywords).learn(256)
    model.predict(np.zeros(4))  # the random numbers of predict are saved as well
    model.save(tmp_path / "model.safetensors")
    loaded = gymnast.load(tmp_path / "model.safetensors")
    assert isinstance(loaded, PPO)
    assert loaded.num_timesteps == 256
    observations = np.random.default_rng(0).normal(size=(100, 4))
    for deterministic in (True, False):
        mine, _ = model.predict(observations, deterministic=deterministic)
        theirs, _ = loaded.predict(observations, deterministic=deterministic)
        assert np.array_equal(mine, theirs)
    assert loaded._session is None  # no env was made for that
    for each in (model, loaded):
        each.learn(256, reset_num_timesteps=False)
    assert model.num_timesteps == loaded.num_timesteps == 512
    assert same(model, loaded)


@pytest.mark.parametrize("algo", [PPO, A2C, REINFORCE])
def test_two_halves_are_the_whole(algo: Any) -> None:
    def make() -> Any:
        size = {"batch_size": 64} if algo is PPO else {}
        return algo("CartPole-v1", n_envs=2, n_steps=64, hidden=[16], normalize_obs=True, **size)

    whole = make().learn(2048)
    halves = make().learn(1024).learn(1024, reset_num_timesteps=False)
    assert same(whole, halves)
    assert whole.num_timesteps == halves.num_timesteps == 2048
    again = make().learn(1024).learn(1024)
    assert again.num_timesteps == 1024  # counters start again, and so do the episodes
    assert not same(whole, again)


def test_stepping_the_envs_by_hand_does_not_confuse_learning() -> None:
    model = small_ppo(lambda: Counting(length=40)).learn(32)
    vec_env = model.get_env()
    vec_env.reset()
    for _ in range(5):
        vec_env.step([0])
    rows: list[dict[str, float]] = []
    model.learn(64, callback=rows.append, reset_num_timesteps=False)
    # 40 steps fit once into the 64 that follow a fresh start; going on at step 5 or 32 would end earlier or twice
    assert rows[-1]["time/episodes"] == 1
    assert rows[-1]["rollout/ep_len_mean"] == 40


def test_reinforce_forgets_the_episodes_that_were_cut_off() -> None:
    model = REINFORCE(lambda: Counting(length=40), n_steps=32).learn(32)
    model.get_env().reset()
    rows: list[dict[str, float]] = []
    model.learn(64, callback=rows.append, log_interval=1, reset_num_timesteps=False)
    # 32 steps wait for their episode's end, then 40 have ended and 24 wait; none is joined to the 32 before
    assert [row["train/pending_steps"] for row in rows] == [32, 24]


def test_the_callback_only_looks() -> None:
    seen: list[dict[str, float]] = []

    def vandal(row: dict[str, float]) -> None:
        seen.append(dict(row))
        row.clear()
        row["time/total_timesteps"] = -1.0

    watched = small_ppo().learn(256, callback=vandal, log_interval=2)
    plain = small_ppo().learn(256)
    assert same(watched, plain)
    assert [row["time/total_timesteps"] for row in seen] == [64, 128, 192, 256]
    assert watched.metrics["train/loss"] == seen[-1]["train/loss"]


def test_ctrl_c_ends_learning_and_leaves_a_usable_model() -> None:
    def interrupt(row: dict[str, float]) -> None:
        os.kill(os.getpid(), signal.SIGINT)

    model = small_ppo().learn(100_000, callback=interrupt, log_interval=1)
    assert model.result is not None
    assert model.result.stop_reason == "interrupted"
    assert model.num_timesteps == 32
    model.learn(32, reset_num_timesteps=False)
    assert model.num_timesteps == 64


def test_a_plain_learn_evaluates_nothing_and_set_asks_for_it() -> None:
    model = small_ppo().learn(320)
    assert model.result is not None
    assert model.result.verdict is None
    assert not [name for name in model.metrics if name.startswith(("eval/", "verdict/"))]
    asked = {"eval.every": 64, "eval.episodes": 2, "stop.threshold": 5.0, "stop.episodes": 2}
    judged = small_ppo(set=asked).learn(320)
    assert judged.result is not None
    assert judged.result.stop_reason == "solved"  # every CartPole episode lasts more than 5 steps
    assert judged.num_timesteps == 64


def test_less_than_a_rollout_is_one_rollout() -> None:
    assert small_ppo().learn(1).num_timesteps == 32


def test_runs_dir_keeps_the_run_and_load_finds_it(tmp_path: Path) -> None:
    model = small_ppo(lambda: Counting(), runs_dir=tmp_path).learn(64)
    assert model.run is not None
    assert model.run.read().status == "finished"
    assert model.run.metrics_path.read_text().count("\n") == 2
    loaded = gymnast.load("@last", runs_dir=tmp_path)
    assert same(model, loaded)
    model.learn(64, reset_num_timesteps=False)
    assert model.run.read().parent is not None
    assert model.run.metrics_path.read_text().count("\n") == 4  # its history came along


def test_evaluate_policy_counts_raw_rewards_by_quota() -> None:
    class Halved(gym.RewardWrapper[Any, Any]):
        def reward(self, reward: Any) -> float:
            return float(reward) / 2

    # Counting: rewards 1..5 add up to 15 in every episode, halved by a wrapper of the user's own env
    model = small_ppo(lambda: Counting(), set={"env.reward.scale": 0.1})
    assert evaluate_policy(model, lambda: Counting()) == (15.0, 0.0)
    assert evaluate_policy(model, Halved(Counting()), n_eval_episodes=3, warn=False) == (7.5, 0.0)
    assert evaluate_policy(model, make_vec_env(Counting, n_envs=3), 4) == (15.0, 0.0)
    returns, lengths = evaluate_policy(model, model.get_env(), 4, return_episode_rewards=True)
    assert (returns, lengths) == ([15.0] * 4, [5] * 4)


def test_make_vec_env_seeds_wraps_and_truncates() -> None:
    def first(seed: int) -> Any:
        return make_vec_env("CartPole-v1", n_envs=2, seed=seed).reset()

    assert np.array_equal(first(1), first(1))
    assert not np.array_equal(first(1), first(2))
    env = make_vec_env("CartPole-v1", 1, wrapper_class=gym.wrappers.TimeLimit, wrapper_kwargs={"max_episode_steps": 3})
    env.reset()
    infos = [env.step([step % 2])[3][0] for step in range(3)]
    assert infos[:2] == [{}, {}]
    assert infos[2]["TimeLimit.truncated"] is True
    assert infos[2]["episode"] == {"r": 3.0, "l": 3}
    env.seed(5)
    one = env.reset()
    env.seed(5)
    assert np.array_equal(one, env.reset())


def test_masks_are_obeyed() -> None:
    model = small_ppo(full_id("Masked-v0"), set={"env.action_masks": True}).learn(64)
    vec_env = model.get_env()
    obs = vec_env.reset()
    for _ in range(12):
        allowed = vec_env.action_masks
        action, _ = model.predict(obs, action_masks=allowed)
        assert allowed[0, action[0]]
        obs, *_ = vec_env.step(action)  # the env, too, refuses a masked action


@pytest.mark.parametrize(
    ("masks", "message"),
    [
        (np.ones(5, bool), r"has shape \(5,\), and this agent takes 4 entries for each of 1 observations"),
        (np.zeros(4, bool), r"observation 0 allows nothing in component 0"),
    ],
)
def test_masks_that_do_not_fit_are_refused(masks: Any, message: str) -> None:
    model = small_ppo(full_id("Masked-v0"), set={"env.action_masks": True})
    with pytest.raises(UserError, match=rf"predict\(action_masks=...\): {message}"):
        model.predict(np.zeros(1, np.float32), action_masks=masks)


def test_no_score_without_the_masks_of_training() -> None:
    model = small_ppo(full_id("Masked-v0"), set={"env.action_masks": True})
    for masked in (model.get_env(), full_id("Masked-v0"), Masked()):
        evaluate_policy(model, masked, 4, deterministic=False)  # the env refuses a masked action
    with pytest.raises(UserError, match=r"trained with action masks, and these envs of .* give none"):
        evaluate_policy(model, make_vec_env(full_id("Masked-v0"), 2), 4)


def test_forbidden_buttons_are_not_pressed(tmp_path: Path) -> None:
    """The env raises at left and right together, and at fire where it is masked; also after saving and loading."""
    rules = {"env.action_masks": True, "env.forbid": [["left", "right"]]}
    small_ppo(full_id("Pad-v0"), set=rules).learn(64).save(tmp_path / "model")
    model = PPO.load(tmp_path / "model", env=full_id("Pad-v0"))
    vec_env = model.get_env()
    assert vec_env.action_space == gym.spaces.MultiDiscrete([3, 2])
    obs = vec_env.reset()
    for _ in range(30):
        action, _ = model.predict(obs, action_masks=vec_env.action_masks)
        obs, *_ = vec_env.step(action)


def test_set_env_goes_on_with_the_same_agent(tmp_path: Path) -> None:
    model = small_ppo(Counting()).learn(32)
    before = weights(model)
    model.set_env(make_vec_env(Counting, n_envs=2, env_kwargs={"length": 3}))
    assert all(np.array_equal(a, b) for a, b in zip(before, weights(model), strict=True))
    model.learn(128, reset_num_timesteps=False)
    assert (model.n_envs, model.num_timesteps) == (2, 160)
    assert model.metrics["rollout/ep_len_mean"] < 5
    with pytest.raises(UserError, match="does not fit this model"):
        model.set_env("Acrobot-v1")
    model.save(tmp_path / "model")
    alone = PPO.load(tmp_path / "model")
    with pytest.raises(UserError, match=r"trained on an object, Counting.*env=\.\.\."):
        alone.learn(32)
    alone.set_env(lambda: Counting())
    assert alone.learn(64, reset_num_timesteps=False).num_timesteps == 224


def test_set_env_judges_on_episodes_of_their_own() -> None:
    """Evaluations and verdicts go on counting, so none is played on another one's seeds; a best score does not."""
    asked = {"eval.every": 32, "eval.episodes": 2, "stop.episodes": 2}
    model = small_ppo("CartPole-v1", set=asked).learn(64)
    record = model.session.judge.record
    assert (record.evaluations, record.verdicts) == (2, 1)  # at 32 and 64 steps, and at the end
    model.set_env("CartPole-v1")
    assert model.session.judge.record.best_score is None
    model.learn(32, reset_num_timesteps=False)
    record = model.session.judge.record
    assert (record.evaluations, record.verdicts) == (3, 2)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: PPO("CartPol-v1"), "there is no env 'CartPol-v1'.*CartPole-v1"),
        (lambda: PPO("MlpPolicy"), "PPO needs an env"),
        (lambda: PPO("CnnPolicy", "CartPole-v1"), "nature_cnn reads pictures"),
        (lambda: PPO("MlpPolice", "CartPole-v1"), "unknown policy 'MlpPolice'. Did you mean 'MlpPolicy'"),
        (lambda: PPO(42), "42 is not an env"),
        (
            lambda: PPO(gym.make_vec("CartPole-v1")),
            "CartPoleVectorEnv is a vector env of Gymnasium, which is not supported",
        ),
        (lambda: PPO(lambda: 3), "the factory returned int"),
        (lambda: PPO(lambda: SHARED, n_envs=2), "returned the same env twice"),
        (lambda: PPO(Counting(), n_envs=2), "an env object is only one: pass a function"),
        (lambda: PPO(Counting(), set={"eval.every": 100}), "evaluation while training needs envs of its own"),
        (lambda: PPO("CartPole-v1", lerning_rate=1), "has no keyword 'lerning_rate'. Did you mean 'learning_rate'"),
        (lambda: A2C("CartPole-v1", batch_size=64), "A2C has no keyword 'batch_size'. It belongs to PPO"),
        (lambda: PPO("CartPole-v1", batch_size=60), "algo.batch_size: 60 does not divide.*1 x 2048 = 2048"),
        (lambda: PPO("CartPole-v1", gamma=2), "algo.gamma = 2: must be at most 1"),
        (lambda: PPO("CartPole-v1", learning_rate=lambda: 1.0), "function of the share of the run that is left"),
        (lambda: PPO("CartPole-v1", tensorboard_log="logs", runs_dir="runs"), "leave tensorboard_log or runs_dir out"),
        (
            lambda: PPO("CartPole-v1", set={"log.sinks": ["wandb"]}).learn(64),
            "wandb needs a run's folder. Pass runs_dir=",
        ),
        (lambda: PPO("CartPole-v1", use_sde=True), "agent.std: sde is for continuous actions"),
        (lambda: PPO("Pendulum-v1", sde_sample_freq=4), "only the noise of agent.std=sde lasts"),
        (lambda: PPO("CartPole-v1", policy_kwargs={"net_arch": {"pi": [8], "qf": [9]}}), "layers for pi and vf"),
        (lambda: PPO("CartPole-v1", policy_kwargs={"net_archs": [8]}), "Did you mean 'net_arch'"),
        (lambda: PPO("CartPole-v1", policy_kwargs={"activation_fn": torch.nn.Softplus}), "must be one of tanh"),
        (lambda: PPO("CartPole-v1", set={"train.total_timesteps": 9}), "learn.total_timesteps. says how long"),
        (lambda: PPO("CartPole-v1", set={"stop.treshold": 9}), "Did you mean 'stop.threshold'"),
        (lambda: PPO("CartPole-v1:a2c"), "is a preset for A2C. Use A2C"),
        (lambda: PPO("CartPole-v1").learn(-5), "total_timesteps: must be a whole number of at least 1"),
        (lambda: PPO("CartPole-v1").learn(64, callback=sb3.common.callbacks.CheckpointCallback), "neither a function"),
        (lambda: PPO("CartPole-v1").learn(64, callback=lambda a, b, c: True), "neither a function of one row"),
        (lambda: PPO("CartPole-v1").learn(64, None, None, True), "tb_log_name=True.: must be a name"),
        (
            lambda: PPO("CartPole-v1").collect_rollouts,
            "PPO has no 'collect_rollouts'.*callbacks and rollout_buffer show it",
        ),
        (lambda: setattr(PPO("CartPole-v1"), "gamma", 0.9), r"PPO.load.path, gamma=...."),
        (lambda: setattr(PPO("CartPole-v1"), "policy", torch.nn.Linear(1, 1)), "a model keeps its agent"),
        (lambda: PPO("CartPole-v1").policy.optimizer, r"model.get_parameters.."),
        (lambda: PPO("CartPole-v1").policy.mlp_extractor, "Its parts are actor_body"),
        (lambda: PPO(sb3.common.policies.ActorCriticPolicy), "PPO needs an env"),
        (
            lambda: PPO(type("Mine", (sb3.common.policies.ActorCriticPolicy,), {}), "CartPole-v1"),
            "your own policy class is not",
        ),
        (
            lambda: PPO("CartPole-v1", policy_kwargs={"features_extractor_class": torch.nn.Linear}),
            "your own encoder",
        ),
        (lambda: make_vec_env("CartPole-v1", vec_env_kwargs={"a": 1}), "are for a vec_env_cls"),
        (
            lambda: make_vec_env("CartPole-v1", 8, engine="cartpole").get_attr("gravity"),
            "keeps no env objects.*engine='sync'",
        ),
        (lambda: make_vec_env("CartPole-v1").set_options({}), "VecEnv has no 'set_options'"),
        (lambda: evaluate_policy(sb3.PPO("MlpPolicy", "CartPole-v1"), "CartPole-v1"), "PPO is not a model of Gymnast"),
        (lambda: PPO("CartPole-v1").predict((np.zeros(4), {})), "takes the observation alone"),
        (lambda: PPO("CartPole-v1").predict(np.zeros(3)), "shape"),
        (lambda: evaluate_policy(PPO("CartPole-v1"), "Acrobot-v1"), "Acrobot-v1 does not fit this model"),
        (lambda: make_vec_env("CartPole-v1", n_envs=0), "n_envs = 0: must be at least 1"),
        (lambda: PPO.load("nowhere"), "there is no file nowhere.zip"),
    ],
)
def test_mistakes_are_answered_in_a_line(make: Any, message: str) -> None:
    with pytest.raises(UserError, match=message) as caught:
        make()
    assert len(str(caught.value).splitlines()) == 1


def test_loading_with_the_wrong_class(tmp_path: Path) -> None:
    A2C("CartPole-v1").save(tmp_path / "model")
    with pytest.raises(UserError, match=r"was trained by A2C. Load it with A2C.load"):
        PPO.load(tmp_path / "model")


def test_a_run_with_several_tasks_is_loaded_task_by_task(tmp_path: Path) -> None:
    sets = ["env.n_envs=4", "algo.n_steps=16", "algo.batch_size=32", "eval.every=0", "stop.on_solved=false"]
    run = start("CartPole-v1:and-acrobot", sets, tmp_path, 0, 64, None, quiet=True).run
    with pytest.raises(ValueError, match=r"has several tasks: load one of them by task='cartpole' or task='acrobot'"):
        gymnast.load(run, runs_dir=tmp_path)
    with pytest.raises(ValueError, match=r"task='acrobat'\): unknown. Did you mean 'acrobot'"):
        gymnast.load(run, runs_dir=tmp_path, task="acrobat")
    for task, env_id, actions in (("cartpole", "CartPole-v1", 2), ("acrobot", "Acrobot-v1", 3)):
        model = gymnast.load(run, runs_dir=tmp_path, task=task)
        assert isinstance(model, PPO)
        assert (model.task, model.action_space.n, model.num_timesteps) == (task, actions, 64)
        env = gym.make(env_id)
        observation, _ = env.reset(seed=1)
        action, _ = model.predict(observation, deterministic=True)
        env.step(action)
        # alone or in a batch, an observation gets the same action; what only another task can do is never done
        batch = np.stack([observation, env.reset(seed=2)[0]])
        assert model.predict(batch, deterministic=True)[0][0] == action
        assert set(model.predict(np.repeat(batch, 200, 0))[0].tolist()) == set(range(actions))
        only = np.eye(actions, dtype=bool)[[0, actions - 1]]
        assert model.predict(batch, action_masks=only)[0].tolist() == [0, actions - 1]
        # as `gymnast eval --task` scores it
        returns, lengths = evaluate_policy(model, env_id, 4, return_episode_rewards=True)
        assert len(returns) == len(lengths) == 4
        seen: list[dict[str, Any]] = []
        evaluate_policy(model, gym.make(env_id), 1, callback=lambda known, _, into=seen: into.append(known))
        assert seen[0]["observations"].shape == (1, *observation.shape)
        with pytest.raises(UserError, match=f"one task, {task}, of a run with several.*gymnast resume"):
            model.learn(64)
    with pytest.raises(UserError, match="Acrobot-v1 does not fit this model"):
        evaluate_policy(gymnast.load(run, runs_dir=tmp_path, task="cartpole"), "Acrobot-v1")
