"""Diagnostics are taken from a real rollout and disturb nothing; step tables say what the rollout says."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
import torch

from gymnast import config as configs
from gymnast.play.episode import rollout_steps
from gymnast.play.step_table import labels_of, step_table, to_csv
from gymnast.training.build import build
from gymnast.training.diagnostics import DEAD, SAMPLE, describe_layer, diagnose, histogram, sample
from gymnast.training.loop import train
from gymnast.training.state import TrainState
from tests.invariants.conftest import collect

SHORT = ["env.n_envs=4", "algo.n_steps=32", "algo.batch_size=64", "train.total_timesteps=1024", "eval.episodes=2"]
SHORT += ["stop.on_solved=false", "stop.episodes=2"]


def after_one_update(env_id: str, *settings: str) -> TrainState:
    config = configs.load(env_id, ["eval.every=0", "stop.on_solved=false", *settings]).config
    session = build(config, None)
    collect(session)
    session.learner.targets(session.rollout)
    session.learner.update(session.rollout, 0.0)
    return session


@pytest.fixture(scope="module")
def cartpole() -> Any:
    session = after_one_update("CartPole-v1")
    yield session
    session.close()


def test_layers_and_gradients_by_name(cartpole: TrainState) -> None:
    record = diagnose(cartpole)
    row = cartpole.meter.row()
    parameters = dict(cartpole.agent.named_parameters())
    assert record["gradients"].keys() == parameters.keys()
    assert all(row[f"net/grad_norm/{name}"] > 0 for name in parameters)
    # two hidden layers each for actor and critic
    assert list(record["layers"]) == [
        "actor_body.layers.1", "actor_body.layers.3", "critic_body.layers.1", "critic_body.layers.3"
    ]  # fmt: skip
    assert row["net/dead_units"] == 0
    assert 0 < row["net/activation_std/actor_body.layers.1"] < 1
    assert 0 <= row["net/saturation/actor_body.layers.1"] <= 1


def test_gradients_are_those_of_torch(cartpole: TrainState) -> None:
    """The rollout has 2048 samples, of which 256 evenly spaced ones are looked at; their loss, by hand."""
    batch = sample(cartpole.rollout)
    assert len(batch) == SAMPLE
    now = cartpole.agent.evaluate(batch)
    advantage = (batch["advantage"] - batch["advantage"].mean()) / (batch["advantage"].std() + 1e-8)
    loss = -(advantage * now.logp).mean() + 0.5 * (now.values["value"] - batch["returns"]).square().mean()
    parameters = list(cartpole.agent.parameters())
    expected = torch.autograd.grad(loss, parameters)
    found = list(diagnose(cartpole)["gradients"].values())
    assert found == pytest.approx([float(grad.norm()) for grad in expected], rel=1e-4)


def test_nothing_that_trains_is_touched(cartpole: TrainState) -> None:
    def moving() -> list[torch.Tensor]:
        parameters = list(cartpole.agent.parameters())
        gradients = [p.grad.clone() for p in parameters if p.grad is not None]
        return (
            [p.detach().clone() for p in parameters]
            + gradients
            + [cartpole.collector.generator.get_state(), cartpole.learner.generator.get_state(), torch.get_rng_state()]
        )

    before = moving()
    diagnose(cartpole)
    assert all(torch.equal(a, b) for a, b in zip(before, moving(), strict=True))
    assert all(not module._forward_hooks for module in cartpole.agent.modules())


def test_actions_observations_and_histograms(cartpole: TrainState) -> None:
    record, rollout = diagnose(cartpole), cartpole.rollout
    right = float(rollout["action"].float().mean())  # of 0 and 1
    assert record["actions"]["labels"] == ["push left", "push right"]
    assert record["actions"]["frequency"] == pytest.approx([1 - right, right])
    angle = record["observations"]["pole angle"]
    column = rollout.obs["obs"][..., 2].numpy()
    assert angle["max"] == column.max()
    assert angle["mean"] == pytest.approx(column.mean(dtype=np.float64))
    for name, stream in {"value": "value", "return": "returns", "advantage": "advantage"}.items():
        values = rollout[stream]
        histogram = record["histograms"][name]
        assert sum(histogram["counts"]) == rollout.size
        assert histogram["edges"][0] == pytest.approx(float(values.min()))
        assert histogram["edges"][-1] == pytest.approx(float(values.max()))
    json.dumps(record)


@pytest.mark.parametrize("env_id", ["FrozenLake-v1", "Pendulum-v1", "Blackjack-v1"])
def test_other_spaces(env_id: str) -> None:
    session = after_one_update(env_id, "env.n_envs=4", "algo.n_steps=64", "algo.batch_size=64")
    try:
        record = diagnose(session)
        table = step_table(rollout_steps(session.agent, session.rollout), session.labels)
    finally:
        session.close()
    json.dumps(record)
    assert len(table) == 64
    if env_id == "FrozenLake-v1":
        assert sum(record["observations"]["field"]["frequency"]) == pytest.approx(1)
        assert "p left" in table[0]
    if env_id == "Pendulum-v1":
        assert len(record["actions"]["mean"]) == 1
        assert {"mean torque", "std torque"} <= table[0].keys()


def test_dead_units_by_hand() -> None:
    """Three units over two samples: one never above 0, one sometimes, one always."""
    relu = torch.nn.ReLU()
    out = relu(torch.tensor([[-1.0, -1.0, 2.0], [-3.0, 1.0, 2.0]]))
    assert describe_layer(relu, out)["dead_units"] == pytest.approx(1 / 3)
    tanh = torch.nn.Tanh()
    # the third jumps between its limits: it has no gradient either
    out = tanh(torch.tensor([[9.0, 0.0, 9.0], [9.0, 9.0, -9.0]]))
    layer = describe_layer(tanh, out)
    assert layer["saturation"] == pytest.approx(5 / 6)
    assert layer["dead_units"] == pytest.approx(2 / 3)
    assert set(DEAD) >= {torch.nn.ReLU, torch.nn.Tanh}


def test_a_table_says_what_the_rollout_says(cartpole: TrainState) -> None:
    rollout = cartpole.rollout
    rows = step_table(rollout_steps(cartpole.agent, rollout, env=3, limit=5), cartpole.labels)
    assert list(rows[0]) == [
        "env", "t", "cart position", "cart velocity", "pole angle", "pole angular velocity", "action", "probability",
        "p push left", "p push right", "value", "reward", "return", "advantage", "terminated", "truncated",
    ]  # fmt: skip
    assert [row["t"] for row in rows] == [0, 1, 2, 3, 4]
    for t, row in enumerate(rows):
        assert row["env"] == 3
        assert row["pole angle"] == float(rollout.obs["obs"][t, 3, 2])
        assert row["action"] == ["push left", "push right"][int(rollout["action"][t, 3])]
        assert row["probability"] == pytest.approx(float(rollout["logp"][t, 3].exp()))
        assert row["p push left"] + row["p push right"] == pytest.approx(1)
        assert row["advantage"] == float(rollout["advantage"][t, 3])
        assert row["terminated"] == bool(rollout["terminated"][t, 3])
    read = list(csv.DictReader(io.StringIO(to_csv(rows))))
    assert [float(row["return"]) for row in read] == [row["return"] for row in rows]


def test_a_histogram_of_one_huge_value() -> None:
    found = histogram(torch.full((4,), -1e18))
    assert (sum(found["counts"]), len(found["edges"])) == (4, 21)
    assert found["edges"][0] < -1e18 < found["edges"][-1]


def test_what_only_looks_at_training_cannot_end_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Diagnostics and alerts that fail are dropped with one warning each; rows go on."""
    from gymnast.sinks import SinkGroup

    def fails(*args: Any) -> Any:
        raise ZeroDivisionError("float division by zero")

    monkeypatch.setattr("gymnast.training.rows.diagnose", fails)
    session = build(configs.load("CartPole-v1", [*SHORT, "log.diagnostics=128", "log.every=128"]).config, None)
    monkeypatch.setattr(session.alerts, "check", fails)
    warnings: list[str] = []
    rows: list[dict[str, float]] = []
    train(session, SinkGroup([], warnings.append), observer=lambda row: rows.append(row))
    session.close()
    assert [row["time/total_timesteps"] for row in rows] == [128 * (i + 1) for i in range(8)]
    why = "ZeroDivisionError: float division by zero"
    assert warnings == [f"{what} failed and are made no more: {why}" for what in ("diagnostics", "alerts")]


def test_labels_fall_back_to_numbers(cartpole: TrainState) -> None:
    labels = labels_of(cartpole.agent, cartpole.config.env.model_copy(update={"id": "Unknown-v0"}))
    assert labels.actions == ["action 0", "action 1"]
    assert labels.observations == {"obs": ["obs 0", "obs 1", "obs 2", "obs 3"]}


def test_lines_come_at_the_end_and_as_often_as_asked() -> None:
    """A rollout has 4 x 32 = 128 steps; a line comes after the first one that reaches the next multiple."""

    from gymnast.sinks import SinkGroup
    from gymnast.sinks.base import Sink

    class Keeper(Sink):
        def __init__(self) -> None:
            self.steps: list[int] = []

        def diagnostics(self, step: int, record: Mapping[str, Any]) -> None:
            self.steps.append(step)

    base = [*SHORT, "log.every=1024"]
    expected = {
        "eval.every=512": [1024],
        "log.diagnostics=256": [256, 512, 768, 1024],
        "log.diagnostics=700": [768, 1024],  # and the end
        "log.diagnostics=0": [],
    }
    for setting, steps in expected.items():
        keeper = Keeper()
        session = build(configs.load("CartPole-v1", [*base, setting]).config, None)
        train(session, SinkGroup([keeper], warn=print))
        session.close()
        assert keeper.steps == steps, setting
    lengths = {1_000_000: 50_000, 100_000: 20_000}  # a 20th, and what a short run has at least between two
    for total, every in lengths.items():
        config = configs.load("CartPole-v1", [f"train.total_timesteps={total}"]).config
        assert config.diagnostics_every == every
