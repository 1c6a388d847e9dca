"""An agent whose weights are not finite decides nothing: it is not judged, not kept, and not taken from a file."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
import torch

from gymnast.core.errors import UserError
from gymnast.runs import checkpoint
from gymnast.runs.saved_agent import init_agent_from, load_agent
from gymnast.sinks import SinkGroup
from gymnast.training.loop import train
from gymnast.training.state import TrainState, restore, save_state
from tests.invariants.conftest import collect, small_config

WEIGHT = "actor_out.weight"


def ruin(session: TrainState, value: float = math.nan) -> None:
    with torch.no_grad():
        dict(session.agent.named_parameters())[WEIGHT][0] = value


def updated(make_session: Any, name: str = "ppo", **sections: dict[str, Any]) -> TrainState:
    """After one update."""
    session: TrainState = make_session(small_config(name, **sections))
    collect(session)
    session.learner.targets(session.rollout)
    session.learner.update(session.rollout, 0.0)
    return session


def test_a_learning_rate_without_limit_leaves_no_checkpoint_and_no_verdict(tmp_path: Path, make_session: Any) -> None:
    """The first step of Adam moves every weight by 1e38, and the next outputs are infinite."""
    warnings: list[str] = []
    session = make_session(small_config(algo={"learning_rate": 1e38}))
    result = train(session, SinkGroup([], warnings.append), tmp_path)
    assert (result.stop_reason, result.verdict, session.judge.record.evaluations) == ("steps", None, 0)
    assert [line for line in warnings if "diverged" in line] == warnings
    assert len(warnings) == 1
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_what_was_kept_before_stays(value: float, tmp_path: Path, make_session: Any) -> None:
    """Evaluated at 1,024 and 2,048 steps; the weights are lost in the row after that. The end judges the best agent."""
    session = make_session(small_config(train={"checkpoint_every": 512}))

    def look(row: dict[str, float]) -> None:
        if row["time/total_timesteps"] >= 2048:
            ruin(session, value)

    result = train(session, SinkGroup([], lambda text: None), tmp_path, look)
    assert result.env_steps == 4096
    assert result.verdict is not None
    names = {path.stem for path in tmp_path.glob("*.safetensors")}
    assert names == {"best", "last", "step_512", "step_1024", "step_1536"}
    for name in names:
        saved = checkpoint.load(tmp_path / f"{name}.safetensors")
        assert all(tensor.isfinite().all() for tensor in saved.tensors.values() if tensor.is_floating_point())


def test_a_file_with_such_weights_is_refused(make_session: Any) -> None:
    session = updated(make_session)
    tensors, values = save_state(session)
    agent = {name: tensor.clone() for name, tensor in session.agent.state_dict().items()}
    agent[WEIGHT][0, 0] = -math.inf
    for take in (load_agent, init_agent_from):
        with pytest.raises(UserError, match=f"weights that are not finite: {WEIGHT}\\. Its training diverged"):
            take(session.agent, agent)
    for name in (WEIGHT, f"judge/best/{WEIGHT}"):
        best = {f"judge/best/{key}": tensor for key, tensor in session.agent.state_dict().items()}
        broken = {key: torch.as_tensor(tensor).clone() for key, tensor in (tensors | best).items()}
        broken[name if name in broken else f"agent/{name}"][0] = math.nan
        with pytest.raises(UserError, match="not finite"):
            restore(make_session(session.config), broken, values)


@pytest.mark.parametrize("name", ["ppo", "a2c"])  # the compiled network, and torch's
@pytest.mark.parametrize("encoder", [{}, {"activation": "gelu"}], ids=str)
def test_moments_that_are_missing_are_named(name: str, encoder: dict[str, Any], make_session: Any) -> None:
    session = updated(make_session, name, agent=encoder)
    tensors, values = save_state(session)
    tensors = {key: torch.as_tensor(tensor).clone() for key, tensor in tensors.items()}
    assert not any("moments" in note for note in restore(make_session(session.config), tensors, values))

    moments = [key for key in tensors if key.startswith("learner/optimizer/")]
    layers = {key.removeprefix("learner/optimizer/").rpartition("/")[0].rpartition(".")[0] for key in moments}
    without = {key: tensor for key, tensor in tensors.items() if key not in moments}
    notes = restore(make_session(session.config), without, values)
    assert f"the optimizer's moments of {len(layers)} layers are missing: they start again" in notes
    assert not any(
        "moments" in note for note in restore(make_session(session.config), without, values, optimizer=False)
    )

    shaped = {
        key: tensor[:1] if key in moments and WEIGHT in key and tensor.ndim else tensor
        for key, tensor in tensors.items()
    }
    notes = restore(make_session(session.config), shaped, values)
    assert "the optimizer's moments of 1 layer are missing: they start again" in notes


@pytest.mark.parametrize(("value", "moment"), [(-1.0, 1), (math.nan, 0), (math.inf, 1)])
@pytest.mark.parametrize("name", ["ppo", "a2c"])
def test_moments_that_no_optimizer_has_are_refused(name: str, value: float, moment: int, make_session: Any) -> None:
    session = updated(make_session, name)
    tensors, values = save_state(session)
    tensors = {key: torch.as_tensor(tensor).clone() for key, tensor in tensors.items()}
    keys = [key for key in tensors if key.startswith(f"learner/optimizer/{WEIGHT}/") and not key.endswith("/step")]
    tensors[keys[min(moment, len(keys) - 1)]][0] = value
    with pytest.raises(UserError, match=r"not finite or below 0: .*--reset-optimizer"):
        restore(make_session(session.config), tensors, values)
    restore(make_session(session.config), tensors, values, optimizer=False)
