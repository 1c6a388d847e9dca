"""stable-baselines3's own examples (README, quickstart, custom env), word for word but for the import and budgets."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces

from gymnast import A2C, PPO, evaluate_policy, make_vec_env


def test_readme_example() -> None:
    env = gym.make("CartPole-v1", render_mode="rgb_array")

    model = PPO("MlpPolicy", env, verbose=0)
    model.learn(total_timesteps=10_000)

    vec_env = model.get_env()
    obs = vec_env.reset()
    for _ in range(50):
        action, _states = model.predict(obs, deterministic=True)
        obs, reward, done, info = vec_env.step(action)
        picture = vec_env.render("human")

    assert (obs.shape, reward.shape, done.shape, len(info)) == ((1, 4), (1,), (1,), 1)
    assert picture.shape == (400, 600, 3)  # the env was made with render_mode="rgb_array"
    assert model.num_timesteps == 10_240  # 5 rollouts of 2048 are the first to reach 10,000
    env.close()


def test_readme_one_liner() -> None:
    model = PPO("MlpPolicy", "CartPole-v1").learn(2_048)
    assert isinstance(model, PPO)


def test_vectorized_envs_save_delete_load(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    # Parallel environments
    vec_env = make_vec_env("CartPole-v1", n_envs=4)

    model = PPO("MlpPolicy", vec_env, n_steps=256, verbose=0)
    model.learn(total_timesteps=2_500)
    model.save("ppo_cartpole")

    del model  # remove to demonstrate saving and loading

    model = PPO.load("ppo_cartpole")

    obs = vec_env.reset()
    ended = []
    for _ in range(200):
        action, _states = model.predict(obs)
        obs, rewards, dones, info = vec_env.step(action)
        vec_env.render("human")
        ended += [entry for entry in info if entry]
    assert rewards.shape == dones.shape == (4,)
    # 4 x 200 steps of a policy that is far from perfect: some episodes have ended, each with its length as return
    assert all(entry["episode"]["r"] == entry["episode"]["l"] for entry in ended)
    assert all(entry["terminal_observation"].shape == (4,) for entry in ended)
    assert ended
    assert sorted(path.name for path in tmp_path.iterdir()) == ["ppo_cartpole.zip"]


def test_train_save_load_evaluate(tmp_path: Path) -> None:
    # Create environment
    env = gym.make("CartPole-v1", render_mode="rgb_array")

    # Instantiate the agent
    model = A2C("MlpPolicy", env, verbose=0)
    # Train the agent and display a progress bar
    model.learn(total_timesteps=int(2e3))
    # Save the agent
    model.save(tmp_path / "a2c")
    del model  # delete trained model to demonstrate loading

    # Load the trained agent
    model = A2C.load(tmp_path / "a2c", env=env)

    # Evaluate the agent
    mean_reward, std_reward = evaluate_policy(model, model.get_env(), n_eval_episodes=10)
    assert mean_reward >= 8  # no CartPole episode is shorter
    assert std_reward >= 0

    # Enjoy trained agent
    vec_env = model.get_env()
    obs = vec_env.reset()
    for _ in range(20):
        action, _states = model.predict(obs, deterministic=True)
        obs, _rewards, _dones, _info = vec_env.step(action)
        vec_env.render("human")


class GoLeftEnv(gym.Env[Any, Any]):
    """The custom env of stable-baselines3's tutorial: a corridor, the way is to the left."""

    metadata = {"render_modes": ["console"]}  # noqa: RUF012
    LEFT = 0
    RIGHT = 1

    def __init__(self, grid_size: int = 10, render_mode: str = "console") -> None:
        super().__init__()
        self.render_mode = render_mode
        self.grid_size = grid_size
        self.agent_pos = grid_size - 1
        self.action_space = spaces.Discrete(2)
        self.observation_space = spaces.Box(low=0, high=self.grid_size, shape=(1,), dtype=np.float32)

    def reset(self, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:  # type: ignore[override]
        super().reset(seed=seed, options=options)
        self.agent_pos = self.grid_size - 1
        return np.array([self.agent_pos]).astype(np.float32), {}

    def step(self, action: Any) -> Any:
        if action == self.LEFT:
            self.agent_pos -= 1
        elif action == self.RIGHT:
            self.agent_pos += 1
        else:
            raise ValueError(f"Received invalid action={action} which is not part of the action space")
        self.agent_pos = int(np.clip(self.agent_pos, 0, self.grid_size))
        terminated = bool(self.agent_pos == 0)
        reward = 1 if self.agent_pos == 0 else 0
        return np.array([self.agent_pos]).astype(np.float32), reward, terminated, False, {}

    def render(self) -> None:
        pass

    def close(self) -> None:
        pass


def test_custom_env_tutorial() -> None:
    # Instantiate the env
    vec_env = make_vec_env(GoLeftEnv, n_envs=1, env_kwargs={"grid_size": 10})

    # Train the agent
    model = A2C("MlpPolicy", vec_env, verbose=0).learn(5000)

    # Test the trained agent
    obs = vec_env.reset()
    n_steps = 20
    for step in range(n_steps):  # noqa: B007
        action, _ = model.predict(obs, deterministic=True)
        obs, reward, done, info = vec_env.step(action)
        vec_env.render()
        if done:
            # Note that the VecEnv resets automatically when a done signal is encountered
            break
    assert done
    assert step == 8  # from 9 to 0 in nine steps to the left, the shortest way
    assert reward[0] == 1.0
    assert info[0]["terminal_observation"] == [0.0]


def test_continuous_actions_and_gymnasium_loop() -> None:
    env = gym.make("Pendulum-v1")
    model = PPO("MlpPolicy", env, n_steps=256, gamma=0.9, learning_rate=1e-3).learn(total_timesteps=512)

    obs, _ = env.reset(seed=0)
    total = 0.0
    for _ in range(200):
        action, _states = model.predict(obs)
        assert env.action_space.contains(action)
        obs, reward, terminated, truncated, _ = env.step(action)
        total += float(reward)
    assert truncated
    assert not terminated
    assert -2500 < total < 0
    # the env was moved by hand; the next learn() begins new episodes and does not mind
    model.learn(256)


def test_policy_kwargs_example() -> None:
    import torch as th

    policy_kwargs = {"activation_fn": th.nn.ReLU, "net_arch": {"pi": [32, 32], "vf": [32, 32]}}
    model = PPO("MlpPolicy", "CartPole-v1", policy_kwargs=policy_kwargs, verbose=0)
    assert (model.config.agent.hidden, model.config.agent.activation) == ([32, 32], "relu")
