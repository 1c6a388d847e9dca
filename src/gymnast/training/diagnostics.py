"""What goes on inside: layers, gradients, actions, observations and histograms, from the rollout that is there.

Made every `log.diagnostics` env steps and at the end, with the reference network on a sample; nothing here touches what
training uses, not even its random numbers. NumPy does the arithmetic: on arrays this small it costs a third of Torch's.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import gymnasium as gym
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from gymnast.agent.agent import Agent
from gymnast.agent.batch import Batch
from gymnast.agent.heads import BernoulliHead, CategoricalHead
from gymnast.agent.nets.torch_net import take
from gymnast.core.statistics import widened
from gymnast.play.step_table import Labels
from gymnast.rl.rollout import Rollout

if TYPE_CHECKING:
    from gymnast.rl.learner import Learner
    from gymnast.training.state import TrainState

SAMPLE = 256  # evenly spaced steps; more cost more than they tell
BINS = 20
SATURATED = 0.97
Numbers = NDArray[Any]
# When a unit counts as dead, by its outputs [samples, units]: it says the same whatever it sees.
DEAD: dict[type[nn.Module], Callable[[Numbers], Numbers]] = {
    nn.ReLU: lambda out: out.max(0) <= 0,
    nn.Tanh: lambda out: np.abs(out).min(0) > 0.99,
    nn.ELU: lambda out: out.max(0) < -0.99,
    nn.GELU: lambda out: np.abs(out).max(0) < 1e-3,
    nn.SiLU: lambda out: np.abs(out).max(0) < 1e-3,
    nn.LeakyReLU: lambda out: np.zeros(out.shape[1], dtype=bool),
}


def diagnose(state: TrainState) -> dict[str, Any]:
    """Puts scalars into the next row; returns all that is no scalar, for diagnostics.jsonl."""
    state.diagnoses.done(state.counters.env_steps)
    agent, rollout, labels = state.agent, state.rollout, state.labels
    layers, gradients = look_inside(state.learner, rollout, state.progress)
    row = {f"net/grad_norm/{name}": norm for name, norm in gradients.items()}
    units = dead = 0.0
    for name, layer in layers.items():
        row |= {f"net/{key}/{name}": value for key, value in layer.items() if key != "units"}
        units += layer["units"]
        dead += layer["units"] * layer["dead_units"]
    if units:
        row["net/dead_units"] = dead / units
    actions = describe_actions(agent, rollout["action"], labels)
    if "frequency" in actions and len(agent.head.shape) == 0:
        row["rollout/top_action_fraction"] = max(actions["frequency"])
    state.meter.put(row)
    streams = {"value": "value", "return": "returns", "advantage": "advantage", "reward": "reward"}
    return {
        "histograms": {name: histogram(rollout[stream]) for name, stream in streams.items()},
        "actions": actions,
        "observations": describe_observations(agent, rollout, labels),
        "layers": layers,
        "gradients": gradients,
    }


def look_inside(
    learner: Learner, rollout: Rollout, progress: float
) -> tuple[dict[str, dict[str, float]], dict[str, float]]:
    """Activations by layer and gradients by parameter, of the loss that every algorithm starts from."""
    agent, outputs = learner.agent, {}

    def keep(name: str, module: nn.Module, inputs: Any, out: Tensor) -> None:
        outputs[name] = out.detach()

    modules = {name: module for name, module in agent.named_modules() if type(module) in DEAD}
    hooks = [module.register_forward_hook(partial(keep, name)) for name, module in modules.items()]
    batch = sample(rollout).map(lambda column: column.to(agent.device))
    names, parameters = zip(*((n, p) for n, p in agent.named_parameters() if p.requires_grad), strict=True)
    try:
        with torch.enable_grad():
            loss = learner.plain_loss(agent.evaluate(batch), batch, progress)
            # Not backward(): the parameters' .grad belong to the learner.
            found = torch.autograd.grad(loss, parameters, allow_unused=True)
    finally:
        for handle in hooks:
            handle.remove()
    layers = {name: describe_layer(modules[name], out) for name, out in outputs.items()}
    norms = {
        name: float(np.linalg.norm(grad.cpu().numpy().ravel()))
        for name, grad in zip(names, found, strict=True)
        if grad is not None
    }
    return layers, norms


def describe_layer(module: nn.Module, out: Tensor) -> dict[str, float]:
    units: Numbers = out.cpu().numpy()
    if units.ndim > 2:  # of a convolution: a channel, wherever it looks
        units = np.moveaxis(units, 1, -1).reshape(-1, units.shape[1])
    layer = {
        "units": float(units.shape[1]),
        "activation_mean": float(units.mean()),
        "activation_std": float(units.std()),
        "dead_units": float(DEAD[type(module)](units).mean()),
    }
    if isinstance(module, nn.Tanh):
        layer["saturation"] = float((np.abs(units) > SATURATED).mean())
    return layer


def sample(rollout: Rollout) -> Batch:
    """Evenly spaced samples of all envs and times, or sequences where the agent has a memory."""
    batch = rollout.batch(["action", "advantage", "returns"])
    count = min(batch.units, max(1, SAMPLE * batch.units // len(batch)))
    return take(batch, torch.linspace(0, batch.units - 1, count).round().long())


def histogram(numbers: Tensor) -> dict[str, list[float]]:
    """Bins of one width from the lowest to the highest value. NumPy's own takes four times as long."""
    values = numbers.numpy().ravel().astype(np.float64)
    values = values[np.isfinite(values)]
    low, high = (float(values.min()), float(values.max())) if len(values) else (0.0, 1.0)
    low, high = widened(low, high)
    bins = ((values - low) * (BINS / (high - low))).astype(np.int64)
    counts = np.bincount(np.minimum(bins, BINS - 1), minlength=BINS)
    return {"counts": counts.tolist(), "edges": np.linspace(low, high, BINS + 1).tolist()}


def describe_actions(agent: Agent, action: Tensor, labels: Labels) -> dict[str, Any]:
    """How often each choice was taken; mean and standard deviation where actions are numbers."""
    rows: Numbers = action.flatten(0, 1).reshape(action.shape[0] * action.shape[1], -1).numpy()
    head = agent.head
    if isinstance(head, CategoricalHead):
        counts = [np.bincount(rows[:, i], minlength=size) / len(rows) for i, size in enumerate(head.sizes)]
        return {"labels": labels.actions, "frequency": np.concatenate(counts).tolist()}
    if isinstance(head, BernoulliHead):
        return {"labels": labels.actions, "frequency": rows.mean(0).tolist()}
    rows = head.to_env(rows).reshape(len(rows), -1)
    return {"labels": labels.actions, "mean": rows.mean(0).tolist(), "std": rows.std(0).tolist()}


def describe_observations(agent: Agent, rollout: Rollout, labels: Labels) -> dict[str, Any]:
    """By component where they have names; how often each was seen where they are categories."""
    found: dict[str, Any] = {}
    for key, tensor in rollout.obs.items():
        names = labels.observations[key]
        space = agent.seen_space[key]
        if isinstance(space, gym.spaces.Discrete):
            seen = np.bincount(tensor.numpy().ravel(), minlength=int(space.n)) / tensor.numel()
            found[names[0]] = {"frequency": seen.tolist()}
            continue
        numbers = tensor.flatten(0, 1)
        if not names:  # a picture: a sample of whole ones is plenty
            numbers = numbers[:: max(1, len(numbers) // 64)]
            columns, names = numbers.reshape(-1, 1).numpy().astype(np.float64), [key]
        else:
            columns = numbers.reshape(len(numbers), -1).numpy().astype(np.float64)
        parts = {"mean": columns.mean(0), "std": columns.std(0), "min": columns.min(0), "max": columns.max(0)}
        found |= {name: {part: float(values[i]) for part, values in parts.items()} for i, name in enumerate(names)}
    return found
