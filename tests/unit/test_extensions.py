"""An extension is called at its four points, its second value is estimated and trained, and it is saved by name."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from gymnast.agent.batch import Batch, Outputs
from gymnast.agent.nets.torch_net import TorchNet
from gymnast.config import RunConfig, validate
from gymnast.config.fields import Section
from gymnast.core.errors import UserError
from gymnast.core.registry import EXTENSIONS
from gymnast.rl.extensions import Extension
from gymnast.rl.learner import Metrics
from gymnast.rl.rollout import Rollout, Stream
from gymnast.training.build import build
from gymnast.training.loop import train
from gymnast.training.state import TrainState, restore, save_state

ALGOS: dict[str, dict[str, Any]] = {
    "ppo": {"name": "ppo", "n_steps": 16, "batch_size": 32, "n_epochs": 2, "learning_rate": 1e-2},
    "a2c": {"name": "a2c", "n_steps": 16, "learning_rate": 1e-2},
    "reinforce": {"name": "reinforce", "n_steps": 16, "learning_rate": 1e-2},
}
ENVS, STEPS = 4, 16


class NoveltySettings(Section):
    level: float = 2.0
    bonus: float = 0.25


class Novelty(Extension):
    """Pays a bonus for every step, keeps how much in a stream, and teaches a second value that all is worth `level`."""

    name = "novelty"
    Settings = NoveltySettings
    streams: ClassVar[dict[str, Stream]] = {"bonus": Stream(torch.float32)}
    values = ("intrinsic",)
    adds_loss = True

    def __init__(self, settings: Any, config: RunConfig) -> None:
        super().__init__(settings, config)
        self.calls: list[str] = []
        self.paid = torch.zeros(config.env.n_envs)
        self.steps = 0

    def reward(self, rollout: Rollout) -> Metrics:
        self.calls.append("reward")
        self.before = rollout["reward"].clone()
        rollout["bonus"].fill_(self.settings.bonus)
        rollout["reward"].add_(rollout["bonus"])
        rollout["intrinsic_returns"].fill_(self.settings.level)
        self.paid += rollout["bonus"].sum(0)
        return {"rollout/reward_cut_fraction": 0.5}

    def loss(self, out: Outputs, batch: Batch) -> Tensor:
        self.calls.append("loss")
        assert bool((batch["bonus"] == self.settings.bonus).all())
        return F.mse_loss(out.values["intrinsic"], batch["intrinsic_returns"])

    def step(self, rollout: Rollout) -> Metrics:
        self.calls.append("step")
        self.steps += rollout.size
        return {"train/baseline": 7.0}

    def save_state(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        return {"paid": self.paid}, {"steps": self.steps}

    def load_state(self, tensors: dict[str, Tensor], values: dict[str, Any]) -> None:
        self.paid, self.steps = tensors["paid"].clone(), values["steps"]


@pytest.fixture(autouse=True)
def _registered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(EXTENSIONS._entries, "novelty", Novelty)


def config_with(algo: str, extensions: list[Any], steps: int = 640) -> RunConfig:
    return validate(
        {
            "env": {"id": "CartPole-v1", "n_envs": ENVS, "engine": "sync"},
            "agent": {"hidden": [16]},
            "algo": ALGOS[algo] | {"extensions": extensions},
            "train": {"total_timesteps": steps, "seed": 1},
            "eval": {"every": 0},
            "stop": {"on_solved": False},
        }
    )


@pytest.fixture
def states() -> Iterator[list[TrainState]]:
    made: list[TrainState] = []
    yield made
    for state in made:
        state.close()


def built(states: list[TrainState], algo: str, extensions: list[Any], steps: int = 640) -> tuple[TrainState, Any]:
    states.append(build(config_with(algo, extensions, steps), None))
    return states[-1], next(iter(states[-1].learner.extensions), None)


def intrinsic(state: TrainState) -> Tensor:
    obs = {key: torch.from_numpy(rows) for key, rows in state.collector.now.obs.items()}
    return state.agent.values(obs)["intrinsic"]


@pytest.mark.parametrize("algo", ALGOS)
def test_it_is_called_at_its_points_in_order(algo: str, states: list[TrainState]) -> None:
    state, novelty = built(states, algo, [{"novelty": {"bonus": 0.5}}])
    assert isinstance(state.net, TorchNet)
    assert novelty.settings.bonus == 0.5
    rows: list[dict[str, float]] = []
    train(state, observer=rows.append)
    updates = 640 // (ENVS * STEPS)
    gradient_steps = {"ppo": 2 * 64 // 32, "a2c": 1}
    for calls in " ".join(novelty.calls).split("reward")[1:]:
        words = calls.split()
        assert words[-1] == "step"
        assert set(words[:-1]) <= {"loss"}
        if algo in gradient_steps:  # reinforce learns where an episode has ended
            assert len(words) == gradient_steps[algo] + 1
    assert novelty.calls.count("reward") == novelty.calls.count("step") == updates
    assert "loss" in novelty.calls
    assert novelty.steps == 640
    # CartPole pays 1 a step; the learner's reward has the bonus, the score has not.
    assert torch.equal(novelty.before, torch.ones(STEPS, ENVS))
    assert torch.equal(state.rollout["reward"], torch.full((STEPS, ENVS), 1.5))
    assert rows[-1]["rollout/ep_rew_mean"] == rows[-1]["rollout/ep_len_mean"]
    assert rows[-1]["rollout/reward_cut_fraction"] == 0.5
    if algo != "reinforce":  # it has a baseline of its own
        assert rows[-1]["train/baseline"] == 7.0


@pytest.mark.parametrize("algo", ALGOS)
def test_its_second_value_has_streams_and_is_trained(algo: str, states: list[TrainState]) -> None:
    state, novelty = built(states, algo, ["novelty"], steps=ENVS * STEPS * 100)
    assert {"bonus", "intrinsic", "final_intrinsic", "intrinsic_returns"} <= set(state.rollout.streams)
    assert state.agent.value_names == ("value", "intrinsic")
    before = float((intrinsic(state) - novelty.settings.level).abs().mean())
    train(state)
    after = float((intrinsic(state) - novelty.settings.level).abs().mean())
    assert after < 0.2 * before
    # What was stored while acting is what the agent thought then, of every row and of the observation after the last.
    assert torch.isfinite(state.rollout["intrinsic"]).all()
    assert state.rollout["intrinsic"].mean() == pytest.approx(novelty.settings.level, abs=0.5)
    assert torch.isfinite(state.rollout.last_values["intrinsic"]).all()
    assert torch.isfinite(state.rollout["final_intrinsic"]).all()


def test_without_its_loss_the_second_value_stays_where_it_is(
    states: list[TrainState], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Novelty, "adds_loss", False)
    state, novelty = built(states, "ppo", ["novelty"])
    before = state.agent.critic_outs["intrinsic"].weight.detach().clone()
    train(state)
    assert torch.equal(state.agent.critic_outs["intrinsic"].weight, before)
    assert "loss" not in novelty.calls


def test_it_is_saved_and_loaded_by_its_name(states: list[TrainState]) -> None:
    state, novelty = built(states, "ppo", ["novelty"])
    train(state)
    tensors, values = save_state(state)
    tensors = {name: tensor.clone() for name, tensor in tensors.items()}
    assert tensors["learner/novelty/paid"].tolist() == [0.25 * 640 / ENVS] * ENVS
    assert values["learner"]["novelty"] == {"steps": 640}
    assert "agent/critic_outs.intrinsic.weight" in tensors
    assert "learner/optimizer/critic_outs.intrinsic.weight/exp_avg" in tensors
    other, again = built(states, "ppo", ["novelty"])
    assert restore(other, tensors, values) == []
    assert torch.equal(again.paid, novelty.paid)
    assert again.steps == 640
    assert torch.equal(intrinsic(other), intrinsic(state))


class Bonus(Novelty):
    """Without a value and a loss of its own: the agent is the same with it and without."""

    name = "bonus"
    values = ()
    adds_loss = False

    def reward(self, rollout: Rollout) -> Metrics:
        rollout["reward"].add_(self.settings.bonus)
        return {}


def test_a_run_goes_on_with_an_extension_that_its_checkpoint_does_not_have(
    states: list[TrainState], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It begins where it begins; nothing else is touched. The kernel still writes the slopes of the loss."""
    monkeypatch.setitem(EXTENSIONS._entries, "bonus", Bonus)
    state, _ = built(states, "ppo", [])
    train(state)
    other, bonus = built(states, "ppo", ["bonus"])
    assert other.learner.uses_kernels
    restore(other, *save_state(state))
    assert bonus.steps == 0
    assert other.counters.env_steps == 640


@pytest.mark.parametrize(
    "extensions,expected",
    [
        (["noveltea"], r"algo.extensions: unknown extension 'noveltea'. Did you mean 'novelty'\?"),
        ([{"novelty": {"level": "high"}}], r"algo.extensions: novelty: level: "),
        ([{"novelty": {"heat": 1}}], r"algo.extensions: novelty: heat: "),
    ],
)
def test_mistakes_name_the_extension_and_the_key(extensions: list[Any], expected: str) -> None:
    with pytest.raises(UserError, match=expected):
        config_with("ppo", extensions)
