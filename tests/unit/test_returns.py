"""Returns and advantages: on paper, and against stable-baselines3's buffer."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from stable_baselines3.common.buffers import RolloutBuffer

from gymnast.rl.returns import centred, discounted_returns, gae


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


def test_vtrace_on_paper() -> None:
    # gamma 0.5, lambda 0.5, deltas 1, 1, 1 as above; the learner is half as likely to take the second step.
    # A = rho (delta + 0.25 next A):  A2 = 1, A1 = 0.5 (1 + 0.25) = 0.625, A0 = 1 + 0.25 * 0.625 = 1.15625
    rows = column(1, 2, 3), column(2, 4, 6), torch.tensor([8.0]), column(0, 0, 0), flags(0, 0, 0), flags(0, 0, 0)
    advantage, returns = gae(*rows, 0.5, 0.5, column(1.0, 0.5, 1.0))
    assert advantage.flatten().tolist() == [1.15625, 0.625, 1.0]
    assert returns.flatten().tolist() == [3.15625, 4.625, 7.0]


@pytest.mark.parametrize("lam", [1.0, 0.9])
def test_vtrace_is_the_sum_of_the_paper(lam: float) -> None:
    """v_s = V(x_s) + sum over t of gamma^(t-s) (prod from s to t-1 of c_i) rho_t delta_t, with rho = min(1, ratio) and
    c = lam min(1, ratio), written as that sum, for each episode by itself. At ratio 1 it is GAE, bit for bit."""
    generator = torch.Generator().manual_seed(3)
    steps, gamma = 12, 0.97
    reward, value, final = (torch.randn(steps, 1, generator=generator) for _ in range(3))
    last, ratio = torch.randn(1, generator=generator), torch.rand(steps, 1, generator=generator) * 2
    terminated, truncated = flags(*[t == 3 for t in range(steps)]), flags(*[t == 8 for t in range(steps)])
    rho = ratio.clamp(max=1.0)
    advantage, returns = gae(reward, value, last, final, terminated, truncated, gamma, lam, rho)
    ended = (terminated | truncated).flatten().tolist()
    for s in range(steps):
        target, weight = float(value[s]), 1.0
        for t in range(s, steps):
            after = 0.0 if terminated[t] else final[t] if truncated[t] else last if t == steps - 1 else value[t + 1]
            target += weight * float(rho[t] * (reward[t] + gamma * after - value[t]))
            weight *= gamma * lam * float(rho[t])
            if ended[t]:
                break
        assert float(returns[s]) == pytest.approx(target, abs=1e-5)
        assert float(advantage[s]) == pytest.approx(target - float(value[s]), abs=1e-5)
    plain = gae(reward, value, last, final, terminated, truncated, gamma, lam)
    ones = gae(reward, value, last, final, terminated, truncated, gamma, lam, torch.ones_like(rho))
    assert all(torch.equal(a, b) for a, b in zip(plain, ones, strict=True))


def test_the_baseline_of_weighed_advantages_on_paper() -> None:
    # b = (2 + 1 + 1) / (1 + 0.5 + 0.5) = 2, and rho * b = 2, 1, 1 is subtracted
    found = centred(column(2, 1, 1), column(1.0, 0.5, 0.5))
    assert found.flatten().tolist() == [0.0, 0.0, 0.0]
    found = centred(column(3, 1, 2), column(1.0, 0.5, 1.0))  # b = 6 / 2.5 = 2.4
    np.testing.assert_allclose(found.flatten(), [0.6, -0.2, -0.4], atol=1e-6)
    found = centred(column(3, 1, 2), column(1.0, 1.0, 1.0))
    assert found.flatten().tolist() == [1.0, -1.0, 0.0]


def test_a_baseline_that_is_weighed_does_not_move_the_policy() -> None:
    """Of two actions the actor takes 0.8 and 0.2, the learner 0.5 and 0.5, and both pay 3: the advantages are rho * 3.
    Nothing is better than anything else, and with the weighed baseline the gradient is 0. With their mean subtracted,
    the action that the actor takes more often would be pushed down."""
    actor, learner = torch.tensor([0.8, 0.2]), torch.tensor([0.5, 0.5])
    rho = (learner / actor).clamp(max=1.0)
    samples = torch.tensor([0] * 8 + [1] * 2)  # as often as the actor takes them
    weights, score = rho[samples, None], torch.tensor([1.0, -1.0])[samples, None]  # d log pi / d logit, by 0.5
    advantage = 3.0 * weights
    assert float((centred(advantage, weights) * score).sum().abs()) < 1e-5
    assert float(((advantage - advantage.mean()) * score).sum()) < -1.0
