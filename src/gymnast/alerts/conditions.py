"""What a row looks like when something is wrong: one function a rule of `alert_rules.py`.

Each takes a row, what is known, and a memory of its own, and returns the evidence when the row is bad, an empty dict
when it is not, and None when the row cannot tell. Bounds that hold for every run are the catalogue's (`warn_low`,
`warn_high`); all limits lie beyond what the healthy runs of the presets show.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from gymnast.alerts.advice import Known, is_shortened
from gymnast.alerts.alert import Evidence
from gymnast.metrics.catalogue import catalogue

Row = Mapping[str, float]
Memory = dict[str, float]  # what a rule remembers of earlier rows; part of a checkpoint


TINY_REWARD = 1e-3  # root mean square of a step's reward

Found = dict[str, Evidence] | None


def is_above(row: Row, name: str, high: float) -> Found:
    value = row.get(name)
    return None if value is None else {name: Evidence(value, high=high)} if value > high else {}


def is_below(row: Row, name: str, low: float) -> Found:
    value = row.get(name)
    return None if value is None else {name: Evidence(value, low=low)} if value < low else {}


def warn_high(name: str) -> float:
    bound = catalogue().get(name).warn_high
    assert bound is not None, f"catalogue.yaml: {name} has no warn_high"
    return bound


def warn_low(name: str) -> float:
    bound = catalogue().get(name).warn_low
    assert bound is not None, f"catalogue.yaml: {name} has no warn_low"
    return bound


def seen(row: Row, name: str) -> dict[str, Evidence]:
    """A value that speaks for itself beside the one that crossed a bound."""
    return {name: Evidence(row[name])} if name in row else {}


def behind(row: Row, known: Known) -> bool:
    """Whether the score is short of the threshold. Without one nobody knows, and nothing is excused by a good score."""
    score = row.get("rollout/ep_rew_mean")
    return score is None or known.threshold is None or score < known.threshold


# --- broken ---


def not_finite(row: Row, known: Known, memory: Memory) -> Found:
    # Returns that do not vary have no variance to explain: that NaN is a plain fact, not a fault.
    if math.isfinite(math.fsum(row.values()) - row.get("train/explained_variance", 0.0)):
        return {}
    bad = [name for name, value in row.items() if not math.isfinite(value) and name != "train/explained_variance"]
    return {name: Evidence(row[name]) for name in bad[:3]}


def ratio_off(row: Row, known: Known, memory: Memory) -> Found:
    value = row.get("train/ratio_first")
    low, high = warn_low("train/ratio_first"), warn_high("train/ratio_first")
    if value is None or not math.isfinite(value):
        return None  # not a number is another alert
    return {} if low <= value <= high else {"train/ratio_first": Evidence(value, low, high)}


# --- what is learned from ---


def reward_scale(row: Row, known: Known, memory: Memory) -> Found:
    """The critic's targets, in the units that a network starts with: of the order of 1, 1000 is far."""
    if "rollout/return_std" not in row:
        return None
    if found := is_above(row, "rollout/return_std", warn_high("rollout/return_std")):
        return found
    # Returns may well be all alike, once an agent is perfect; it is rewards that must not be tiny.
    mean, spread = row["rollout/reward_mean"], row["rollout/reward_std"]
    if math.hypot(mean, spread) < TINY_REWARD and row["rollout/reward_nonzero_fraction"] > 0.01:
        return {"rollout/reward_mean": Evidence(mean, low=TINY_REWARD), "rollout/reward_std": Evidence(spread)}
    return {}


def reward_altered(row: Row, known: Known, memory: Memory) -> Found:
    """A clip that makes most rewards the same, or shaping that pays many times what the env does."""
    shaped, scored = row.get("rollout/ep_shaped_rew_mean"), row.get("rollout/ep_rew_mean")
    if shaped is not None and scored is not None:
        most = 10.0 * math.hypot(scored, row["rollout/ep_rew_std"])
        if abs(shaped - scored) > most:
            evidence = {"rollout/ep_shaped_rew_mean": Evidence(shaped, scored - most, scored + most)}
            return evidence | seen(row, "rollout/ep_rew_mean")
    name = "rollout/reward_cut_fraction"
    reward = known.facts.reward if known.facts else None
    if reward is not None and reward.low is not None and reward.low == reward.high:
        return {}  # rewards that are all the same stay so
    return is_above(row, name, warn_high(name)) if name in row else None if shaped is None else {}


def reward_sparse(row: Row, known: Known, memory: Memory) -> Found:
    """Hardly a reward yet, for a fifth of the run."""
    if "rollout/reward_nonzero_fraction" not in row:
        return None
    if row["time/progress"] < 0.2:
        return {}
    return is_below(row, "rollout/reward_nonzero_fraction", warn_low("rollout/reward_nonzero_fraction"))


def horizon_short(row: Row, known: Known, memory: Memory) -> Found:
    """Episodes of which the discount shows the learner only a small part."""
    horizon = 1.0 / max(1.0 - known.config.algo.gamma, 1e-9)
    if "rollout/ep_len_mean" not in row or horizon > 8:
        return None
    return is_above(row, "rollout/ep_len_mean", 5 * horizon) if behind(row, known) else {}


def all_cut(row: Row, known: Known, memory: Memory) -> Found:
    """Every episode ends by the clock, all alike, or because the config's clock is shorter than the env's own.

    Some tasks have no other end: that alone is nothing. But there the returns differ.
    """
    if "eval/mean_reward" in row:
        same = row["eval/std_reward"] == 0 and row["eval/mean_reward"] == memory.get("score")
        memory["score"], memory["same"] = row["eval/mean_reward"], float(same)
    if "rollout/truncated_fraction" not in row:
        return None
    if row["rollout/truncated_fraction"] < warn_high("rollout/truncated_fraction") or not behind(row, known):
        return {}
    alike = row["rollout/ep_rew_std"] <= 1e-6 * abs(row["rollout/ep_rew_mean"]) and row["time/progress"] > 0.3
    judged_alike = memory.get("same") and row["time/progress"] > 0.5
    if not (is_shortened(known) or alike or judged_alike):
        return {}
    high = warn_high("rollout/truncated_fraction")
    evidence = {"rollout/truncated_fraction": Evidence(row["rollout/truncated_fraction"], high=high)}
    return evidence | seen(row, "rollout/ep_len_mean") | seen(row, "rollout/ep_rew_std")


# --- the update ---


def kl_high(row: Row, known: Known, memory: Memory) -> Found:
    name, high = "train/approx_kl", warn_high("train/approx_kl")
    limit = known.config.algo.kl_limit
    if limit is not None and row.get("train/epochs", 1.0) < 1.0:  # the limit strikes before one pass is over
        return {name: Evidence(row[name], high=limit), **seen(row, "train/epochs")}
    found = is_above(row, name, high)
    return found | seen(row, "train/clip_fraction") if found else found


def clip_fraction_high(row: Row, known: Known, memory: Memory) -> Found:
    return is_above(row, "train/clip_fraction", warn_high("train/clip_fraction"))


def update_tiny(row: Row, known: Known, memory: Memory) -> Found:
    """The policy stands still although the schedule has not run down yet."""
    rate = row.get("train/learning_rate", 0.0)
    memory["rate"] = max(memory.get("rate", 0.0), rate)
    if row["time/progress"] > 0.5 or rate < 0.3 * memory["rate"]:
        return None
    name = "train/approx_kl"
    # One gradient step an update moves a policy less than PPO's many: healthy runs go down to 4e-6.
    epochs, _ = known.config.algo.passes(known.config.rollout_steps)
    low = warn_low(name) * (1.0 if epochs > 1 else 0.1)
    entropy = row.get("train/entropy", 1.0)
    if known.uniform_entropy is not None and entropy < 0.05 * known.uniform_entropy:
        return {}  # a policy that is certain stands still too; that is another alert
    return is_below(row, name, low)


def gradient_large(row: Row, known: Known, memory: Memory) -> Found:
    """So far above the limit that only its direction is left of it."""
    found = is_above(row, "train/grad_norm", 2000.0 * known.config.algo.max_grad_norm)
    return found | seen(row, "train/grad_clipped_fraction") if found else found


def gradient_vanishes(row: Row, known: Known, memory: Memory) -> Found:
    if row["time/progress"] > 0.9 or not behind(row, known):
        return None
    return is_below(row, "train/grad_norm", warn_low("train/grad_norm"))


def advantage_scale(row: Row, known: Known, memory: Memory) -> Found:
    """Unscaled advantages multiply the policy's gradient."""
    if known.config.algo.normalize_advantage != "off" or "rollout/advantage_std" not in row:
        return None
    return is_above(row, "rollout/advantage_std", warn_high("rollout/advantage_std"))


def critic_wrong(row: Row, known: Known, memory: Memory) -> Found:
    """Values further from the returns than a constant would be, or beside nearly all of them."""
    if not {"rollout/value_mean", "train/explained_variance"} <= row.keys() or row["time/progress"] < 0.2:
        return None
    if not known.config.algo.trains_critic or known.config.rollout_steps < 256:
        return None  # nothing learns values, or too few samples to tell
    explained, low = row["train/explained_variance"], warn_low("train/explained_variance")
    miss = abs(row["rollout/return_mean"] - row["rollout/value_mean"])
    bound = 3.0 * row["rollout/return_std"]
    if not behind(row, known):
        return {}
    # Where returns hardly vary, a little noise of the critic is many times their variance.
    varies = row["rollout/return_std"] > 0.1 * abs(row["rollout/return_mean"])
    if explained < low and varies:
        return {"train/explained_variance": Evidence(explained, low=low)}
    mean = row["rollout/return_mean"]
    if miss > bound > 0 and miss > 0.3 * abs(mean):
        evidence = {"rollout/value_mean": Evidence(row["rollout/value_mean"], mean - bound, mean + bound)}
        return evidence | seen(row, "rollout/return_mean")
    return {}


# --- the policy ---


def policy_not_uniform(row: Row, known: Known, memory: Memory) -> Found:
    if known.uniform_entropy is None or not known.fresh or "rollout/initial_entropy" not in row:
        return None
    return is_below(row, "rollout/initial_entropy", 0.95 * known.uniform_entropy)


def entropy_stuck(row: Row, known: Known, memory: Memory) -> Found:
    """Still uniform when half of the run is over, and an entropy bonus that wants it so."""
    if known.uniform_entropy is None or "train/entropy" not in row or not row.get("train/ent_coef"):
        return None
    if row["time/progress"] < 0.25 or not behind(row, known):
        return {}
    return is_above(row, "train/entropy", 0.99 * known.uniform_entropy)


def spread_grows(row: Row, known: Known, memory: Memory) -> Found:
    """A Gaussian wider than it was at the start, and than anything the env can tell apart."""
    return is_above(row, "train/std", max(warn_high("train/std"), 3 * math.exp(known.config.agent.log_std_init)))


def entropy_collapse(row: Row, known: Known, memory: Memory) -> Found:
    """Certain of its actions before it is good."""
    if "train/entropy" not in row or row["time/progress"] > 0.8:
        return None  # at the end of a schedule a policy may well be certain
    if not behind(row, known):
        return {}
    if known.uniform_entropy is not None:
        return is_below(row, "train/entropy", 0.005 * known.uniform_entropy)
    return is_below(row, "train/std", warn_low("train/std"))


def entropy_falling(row: Row, known: Known, memory: Memory) -> Found:
    """Most of the randomness lost in a twentieth of the run, and the score is still where it was."""
    entropy, uniform = row.get("train/entropy"), known.uniform_entropy
    if entropy is None or uniform is None or "rollout/ep_rew_mean" not in row:
        return None
    progress, score = row["time/progress"], row["rollout/ep_rew_mean"]
    memory.setdefault("score", score)
    memory["best"] = max(memory.get("best", score), score)
    if "at" not in memory:
        memory["before"], memory["at"] = uniform if known.fresh else entropy, progress
    elif progress - memory["at"] > 0.05:
        memory["before"], memory["at"] = memory["now"], progress
    memory["now"] = entropy
    gained = memory["best"] - memory["score"] > 0.05 * abs(memory["score"])
    lost = memory["before"] - entropy
    if lost > 0.5 * uniform and not gained and behind(row, known):
        return {"train/entropy": Evidence(entropy, low=memory["before"] - 0.5 * uniform)}
    return {}


def action_collapse(row: Row, known: Known, memory: Memory) -> Found:
    """One discrete action, nearly always."""
    if known.uniform_entropy is None or "rollout/action_std" not in row:
        return None
    if not behind(row, known):
        return {}
    return is_below(row, "rollout/action_std", warn_low("rollout/action_std"))


def dead_units(row: Row, known: Known, memory: Memory) -> Found:
    """Told where a row brings diagnostics."""
    name = "net/dead_units"
    found = is_above(row, name, warn_high(name))
    if found:
        worst = max((key for key in row if key.startswith(f"{name}/")), key=lambda key: row[key], default=None)
        found |= {} if worst is None else seen(row, worst)
    return found


# --- the run ---


def plateau(row: Row, known: Known, memory: Memory) -> Found:
    """No better training score for half of the run."""
    score, progress = row.get("rollout/ep_rew_mean"), row["time/progress"]
    if score is None:
        return None
    memory["low"] = min(memory.get("low", score), score)
    best = memory.setdefault("best", score)
    if score > best + 0.05 * (best - memory["low"]) + 1e-3 * abs(best):
        memory["best"], memory["at"] = score, progress
    since = progress - memory.setdefault("at", progress)
    if since < 0.5 or not behind(row, known):
        return {}
    return {"rollout/ep_rew_mean": Evidence(score), **seen(row, "rollout/ep_rew_best")}


def rate_falls(row: Row, known: Known, memory: Memory) -> Found:
    """Env steps a second, evaluation taken off, beside what they were: a slow average of good rows."""
    if "time/fps" not in row:
        return None
    rate = row["time/fps"] / max(1.0 - row.get("time/share/eval", 0.0), 0.05)
    count = memory["count"] = memory.get("count", 0.0) + 1.0
    recent = memory["recent"] = memory.get("recent", rate) + 0.1 * (rate - memory.get("recent", rate))
    if count <= 20:
        memory["first"] = memory.get("first", rate) + (rate - memory.get("first", rate)) / count
        return {}
    return {"time/fps": Evidence(row["time/fps"], low=memory["first"] / 3)} if recent < memory["first"] / 3 else {}
