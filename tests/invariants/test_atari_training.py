"""Atari from pixels through the whole loop: a few hundred steps of Pong."""

from __future__ import annotations

import csv
import io

import pytest
import torch

from gymnast.agent.tracker import fit
from gymnast.config import load
from gymnast.core import devices
from gymnast.training.build import build
from gymnast.training.loop import train
from gymnast.training.state import TrainState, last_steps, restore, save_state

pytest.importorskip("ale_py")

SMALL = ["env.n_envs=4", "algo.n_steps=32", "algo.batch_size=64", "algo.n_epochs=1", "eval.every=0", "train.threads=2"]


def session(steps: int, *overrides: str) -> TrainState:
    resolved = load("ALE/Pong-v5:zoo", [*SMALL, f"train.total_timesteps={steps}", *overrides])
    return build(resolved.config, None)


def trained(run: TrainState) -> tuple[TrainState, list[dict[str, float]]]:
    rows: list[dict[str, float]] = []
    train(run, observer=rows.append)
    run.close()
    return run, rows


SMALL_PICTURES = ("env.kwargs.screen_size=42", "env.kwargs.crop_rows=[34, 194]", "agent.encoder=small_cnn")


PICTURES = {
    "plain": (),
    "small": (*SMALL_PICTURES, "agent.normalize_pictures=true"),
    "tracked": (*SMALL_PICTURES[:2], "agent.encoder=mlp", "agent.track=3", "agent.hidden=[16]"),
}


@pytest.mark.parametrize("pictures", PICTURES.values(), ids=PICTURES)
def test_pong_learns_from_bytes_and_resumes_exactly(pictures: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    """256 steps at once are 128 steps, a checkpoint, and 128 more; constant schedules, because the budgets differ. A
    tracker finds its objects at the end of the first half."""
    monkeypatch.setattr(fit, "STARTS", 2)
    monkeypatch.setattr(fit, "STEPS", 30)
    constant = ("algo.learning_rate=0.00025", "algo.clip_range=0.1", *pictures)
    whole, rows = trained(session(256, *constant))
    assert whole.env.engine == "ale"
    tracked = whole.agent.tracker is not None
    assert whole.rollout.obs["obs"].dtype == (torch.float32 if tracked else torch.uint8)
    row = rows[-1]
    assert row["train/ratio_first"] == pytest.approx(1.0, abs=1e-5)
    assert row["train/grad_norm"] > 0
    assert row["train/approx_kl"] >= 0
    assert 0 < row["rollout/obs_std"] < (10 if tracked else 255)
    assert abs(row["rollout/reward_mean"]) <= 1

    half, _ = trained(session(128, *constant))
    assert (half.net.save_state() == {}) is tracked  # what saw nothing has no moments
    assert half.learner.optimizer_resets == tracked
    (table,) = [list(row) for row in csv.DictReader(io.StringIO(last_steps(whole)))][:1]
    assert ("object 2 row" in table) is tracked
    tensors, state = save_state(half)
    tensors = {name: tensor.clone().contiguous() for name, tensor in tensors.items()}
    rest = session(256, *constant)
    assert restore(rest, tensors, state) == []
    rest, _ = trained(rest)
    for (name, one), other in zip(whole.agent.state_dict().items(), rest.agent.state_dict().values(), strict=True):
        torch.testing.assert_close(other, one, rtol=0, atol=0, msg=name)


def test_threads_follow_the_network() -> None:
    session(128, "train.threads=3").close()
    assert (torch.get_num_threads(), devices.parts_of_a_batch()) == (1, 3)
    resolved = load("CartPole-v1", ["train.total_timesteps=10000"])
    build(resolved.config, None).close()
    assert (torch.get_num_threads(), devices.parts_of_a_batch()) == (1, 1)
