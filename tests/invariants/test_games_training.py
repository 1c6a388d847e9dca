"""Games that run in processes of their own, through the whole loop: a resumed run is the run that was not stopped."""

from __future__ import annotations

import pytest
import torch

from gymnast.config import load
from gymnast.training.build import build
from gymnast.training.loop import train
from gymnast.training.state import TrainState, restore, save_state

SMALL = [
    *("env.n_envs=2", "algo.n_steps=16", "algo.batch_size=16", "algo.n_epochs=1", "algo.learning_rate=0.00025"),
    *(
        "algo.clip_range=0.1",
        "eval.every=0",
        "stop.episodes=2",
        "stop.max_episodes=2",
        "env.max_episode_steps=90",
    ),  # episodes that end on the way
]


def trained(target: str, steps: int, half: TrainState | None = None) -> TrainState:
    run = build(load(target, [*SMALL, f"train.total_timesteps={steps}"]).config, None)
    if half is not None:
        tensors, state = save_state(half)
        assert restore(run, {name: tensor.clone().contiguous() for name, tensor in tensors.items()}, state) == []
    train(run, observer=lambda row: None)
    return run


@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    "target,package",
    [
        ("Retro/Airstriker-Genesis", "stable_retro"),
        pytest.param("VizdoomDeathmatch-v1:bots", "vizdoom", marks=pytest.mark.slow),  # half a minute
    ],
)
def test_a_game_resumes_exactly(target: str, package: str) -> None:
    """128 steps at once are 64 steps, a checkpoint, and 64 more; constant schedules, because the budgets differ."""
    pytest.importorskip(package)
    whole = trained(target, 128)
    assert (whole.env.engine, whole.env.exact_resume) == ("process", True)
    half = trained(target, 64)
    rest = trained(target, 128, half)
    for (name, one), other in zip(whole.agent.state_dict().items(), rest.agent.state_dict().values(), strict=True):
        torch.testing.assert_close(other, one, rtol=0, atol=0, msg=name)
    assert any(
        not torch.equal(one, other)
        for one, other in zip(*(run.agent.state_dict().values() for run in (whole, half)), strict=True)
    )
    for run in (whole, half, rest):
        run.close()
