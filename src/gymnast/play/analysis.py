"""What an episode says when it is over: returns to go, advantages, where its rewards came from, what is remarkable."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch

from gymnast.config import load_facts
from gymnast.play.trace import CUT, Trace
from gymnast.rl.returns import discounted_returns, gae

if TYPE_CHECKING:
    from gymnast.config import RunConfig
    from gymnast.play.game import Game

UNKNOWN = 0.01  # weight of what came after a time limit, from which a return to go is not known well enough


def why_incomparable(trace: Trace, config: RunConfig, game: Game) -> str | None:
    """Why this episode's returns to go are not what the agent's value estimates; None: they are."""
    if trace.outcome is None:
        return "The episode is not over."
    if "untrained" in trace.who:
        return "An untrained network's value estimates nothing yet."
    if any(step.value is None for step in trace.steps):
        return "There is no agent, so there is no value."
    others = sorted(set(trace.who) - {"sampled"})
    if others:
        return f"The value is that of sampled actions; here {' and '.join(others)} actions were taken."
    if len(trace.networks) > 1:
        return "Two checkpoints acted in this episode."
    if reason := why_value_differs(config, game):
        return reason
    if trace.outcome != "terminated" and config.algo.gamma == 1.0:
        return "The episode was cut, and without discounting nothing is known about the rewards after that."
    return None


def why_value_differs(config: RunConfig, game: Game) -> str | None:
    """Why the agent's value is not an estimate of the rewards that are counted here, in any episode; None: it is."""
    reward = config.env.reward
    if config.env.shaping:
        return "The agent learned from a shaped reward (env.shaping), so its value is not the env's own return."
    if reward.clip is not None and not _within(config, reward.clip):
        return f"The agent learned from clipped rewards (env.reward.clip={reward.clip:g})."
    if config.algo.extensions:
        return "An extension added to the reward that the agent learned from."
    if config.eval_env != config.env:
        return "Scores are made in another env (eval.env) than the one the value was learned in."
    if game.learner_end:
        return f"In training {game.learner_end} ended the episode, so the value looks ahead to that only."
    return None


def _within(config: RunConfig, clip: float) -> bool:
    """Whether the env's rewards, scaled as the learner gets them, are never clipped."""
    facts, scale = load_facts(config.env.id), config.env.reward.scale
    bounds = (None, None) if facts is None else (facts.reward.low, facts.reward.high)
    return all(bound is not None and abs(bound) * scale <= clip for bound in bounds)


def returns_to_go(trace: Trace, gamma: float) -> list[float | None]:
    """Discounted sum of the rewards from each step on; None near a cut, where too much of it is not known."""
    length = trace.length
    rewards = torch.tensor([step.reward for step in trace.steps], dtype=torch.float64)
    ended = torch.zeros(length, dtype=torch.bool)
    if length:
        ended[-1] = True
    returns: list[float | None] = list(discounted_returns(rewards, ended, gamma).tolist())
    if trace.outcome == "terminated":
        return returns
    return [one if gamma ** (length - t) < UNKNOWN else None for t, one in enumerate(returns)]


def why_partly_known(trace: Trace, returns: list[float | None]) -> str | None:
    """Why some returns to go are missing; None: all of them are known."""
    known = [t for t, one in enumerate(returns) if one is not None]
    if len(known) == len(returns):
        return None
    cut = f"the episode was cut after {trace.length} steps, and the discounted rewards after that are not negligible"
    if not known:
        return f"The realised return is not drawn: {cut} at any step of it."
    return f"The realised return is drawn up to step {known[-1]}: {cut} from there on."


def value_error(trace: Trace, gamma: float) -> float | None:
    """Mean distance between the value and the return to go, over the steps where both are known."""
    pairs = zip(returns_to_go(trace, gamma), trace.steps, strict=True)
    errors = [abs(found - step.value) for found, step in pairs if found is not None and step.value is not None]
    return sum(errors) / len(errors) if errors else None


def advantages(trace: Trace, gamma: float, lam: float, final_value: float) -> dict[str, list[float]]:
    """As a learner computes them of the env's own reward. `final_value`: of what is seen last, where it was cut."""

    def column(values: Iterable[Any], dtype: torch.dtype = torch.float64) -> Any:
        return torch.tensor(list(values), dtype=dtype)[:, None]

    steps = trace.steps
    terminated = column((step.terminated for step in steps), torch.bool)
    truncated = column((False for _ in steps), torch.bool)
    truncated[-1] = not bool(terminated[-1])
    last = column([final_value])
    found, returns = gae(
        column(step.reward for step in steps),
        column(step.value for step in steps),
        last[0],
        last.expand(len(steps), 1),
        terminated,
        truncated,
        gamma,
        lam,
    )
    return {"advantage": found[:, 0].tolist(), "return": returns[:, 0].tolist()}


def ledger(trace: Trace, shaped: bool = False) -> dict[str, Any]:
    """What the return is made of. Parts and rest add up to the total; a rest is what the env did not name. `shaped`:
    the parts are what the learner is paid, which is not the return."""
    parts: dict[str, float] = {}
    for step in trace.steps:
        for name, value in step.components.items():
            parts[name] = parts.get(name, 0.0) + value
    total = sum(parts.values()) if shaped else trace.total
    rest = total - sum(parts.values())
    return {
        "total": total,
        "parts": [{"name": name, "sum": value} for name, value in parts.items()],
        "rest": rest,
        "shaped": shaped,
    }


def numbers_of(traces: Sequence[Trace], comparable: Iterable[int], gamma: float) -> dict[int, dict[str, float | None]]:
    """By episode: its value error, where that means something, and its mean entropy."""
    known = set(comparable)
    return {
        trace.n: {
            "value_error": value_error(trace, gamma) if trace.n in known else None,
            "entropy": sum(mine) / len(mine) if (mine := trace.known_entropies) else None,
        }
        for trace in traces
    }


def flags_of(traces: Sequence[Trace], numbers: Mapping[int, Mapping[str, float | None]]) -> dict[int, list[str]]:
    """What is remarkable, by episode: the worst return, the longest, the highest value error, the highest entropy."""
    over = [trace for trace in traces if trace.outcome not in (None, CUT) and trace.steps]
    flags: dict[int, list[str]] = {trace.n: [] for trace in traces}
    scores: dict[str, dict[int, float]] = {
        "worst": {trace.n: -trace.total for trace in over},
        "longest": {trace.n: float(trace.length) for trace in over},
    }
    for flag in ("value_error", "entropy"):
        scores[flag] = {trace.n: one for trace in over if (one := numbers[trace.n][flag]) is not None}
    for flag, score in scores.items():
        if len(set(score.values())) > 1:
            flags[max(score, key=lambda n: score[n])].append(flag)
    return flags
