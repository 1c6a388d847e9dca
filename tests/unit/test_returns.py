"""Returns and advantages: on paper, and against stable-baselines3's buffer."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from stable_baselines3.common.buffers import RolloutBuffer

from gymnast.rl.returns import discounted_returns, gae


def column(*values: float) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.float32).reshape(-1, 1)


def flags(*values: int) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.bool).reshape(-1, 1)


def test_gae_on_paper() -> None:
    # gamma 0.5, lambda 0.5, so the carry is 0.25. Three steps, no end, value after the last row 8.
    # delta = r + 0.5 v' - v:  d2 = 3 + 4 - 6 = 1, d1 = 2 + 3 - 4 = 1, d0 = 1 + 2 - 2 = 1
    # A2 = 1, A1 = 1 + 0.25 * 1 = 1.25, A0 = 1 + 0.25 * 1.25 = 1.3125
    advantage, returns = gae(
        column(1, 2, 3), column(2, 4, 6), torch.tensor([8.0]), column(0, 0, 0), flags(0, 0, 0), flags(0, 0, 0), 0.5, 0.5
    )
    assert advantage.flatten().tolist() == [1.3125, 1.25, 1.0]
    assert returns.flatten().tolist() == [3.3125, 5.25, 7.0]


def test_termination_bootstraps_nothing_and_cuts_the_carry() -> None:
    # The second step ends its episode: d1 = 2 + 0 - 4 = -2 and nothing of step 2 flows back.
    advantage, _ = gae(
        column(1, 2, 3), column(2, 4, 6), torch.tensor([8.0]), column(0, 9, 0), flags(0, 1, 0), flags(0, 0, 0), 0.5, 0.5
    )
    # A2 = 1, A1 = -2, A0 = 1 + 0.25 * -2 = 0.5
    assert advantage.flatten().tolist() == [0.5, -2.0, 1.0]


def test_truncation_bootstraps_the_final_observation_not_the_next_row() -> None:
    # The second step was cut by a time limit where the final observation is worth 10: d1 = 2 + 5 - 4 = 3.
    advantage, _ = gae(
        column(1, 2, 3),
        column(2, 4, 6),
        torch.tensor([8.0]),
        column(0, 10, 0),
        flags(0, 0, 0),
        flags(0, 1, 0),
        0.5,
        0.5,
    )
    # A2 = 1, A1 = 3, A0 = 1 + 0.25 * 3 = 1.75
    assert advantage.flatten().tolist() == [1.75, 3.0, 1.0]


def test_a_reward_in_the_second_episode_changes_no_advantage_in_the_first() -> None:
    reward, value = torch.zeros(6, 1), torch.randn(6, 1)
    ends = flags(0, 0, 1, 0, 0, 0)
    for terminated, truncated in ((ends, flags(*[0] * 6)), (flags(*[0] * 6), ends)):
        arguments = (value, torch.zeros(1), torch.ones(6, 1), terminated, truncated, 0.99, 0.95)
        before, _ = gae(reward, *arguments)
        changed = reward.clone()
        changed[4] = 1000.0
        after, _ = gae(changed, *arguments)
        assert torch.equal(before[:3], after[:3])
        assert not torch.equal(before[3:], after[3:])


@pytest.mark.parametrize("seed", range(5))
def test_gae_equals_stable_baselines3(seed: int) -> None:
    """SB3 folds the value of a cut episode's last observation into the reward; the numbers must come out the same."""
    rng = np.random.default_rng(seed)
    steps, envs, gamma, lam = 40, 6, 0.97, 0.9
    reward, value = rng.normal(size=(steps, envs)), rng.normal(size=(steps, envs))
    final_value, last_value = rng.normal(size=(steps, envs)), rng.normal(size=envs)
    terminated = rng.random((steps, envs)) < 0.1
    truncated = (rng.random((steps, envs)) < 0.1) & ~terminated
    ended = terminated | truncated

    import gymnasium as gym

    buffer = RolloutBuffer(
        steps, gym.spaces.Box(-1, 1, (1,)), gym.spaces.Discrete(2), gamma=gamma, gae_lambda=lam, n_envs=envs
    )
    starts = np.vstack([np.ones(envs), ended[:-1]])
    for t in range(steps):
        buffer.add(
            np.zeros((envs, 1)),
            np.zeros(envs),
            reward[t] + gamma * final_value[t] * truncated[t],
            starts[t],
            torch.tensor(value[t]),
            torch.zeros(envs),
        )
    buffer.compute_returns_and_advantage(torch.tensor(last_value), ended[-1])

    def tensor(array: np.ndarray) -> torch.Tensor:
        return torch.tensor(array, dtype=torch.bool if array.dtype == bool else torch.float32)

    advantage, returns = gae(
        *map(tensor, (reward, value, last_value, final_value, terminated, truncated)), gamma=gamma, lam=lam
    )
    np.testing.assert_allclose(advantage, buffer.advantages, atol=1e-5)
    np.testing.assert_allclose(returns, buffer.returns, atol=1e-5)


def test_discounted_returns_on_paper() -> None:
    # Two episodes, gamma 0.5: 1 + 0.5 (2 + 0.5 * 4) = 3, 2 + 2 = 4, 4; then 8 + 0.5 * 16 = 16, 16.
    returns = discounted_returns(torch.tensor([1.0, 2.0, 4.0, 8.0, 16.0]), torch.tensor([0, 0, 1, 0, 1]).bool(), 0.5)
    assert returns.tolist() == [3.0, 4.0, 4.0, 16.0, 16.0]
