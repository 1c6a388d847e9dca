"""Rules about rewards, updates, policy and critic: a root cause before what it causes."""

from __future__ import annotations

import math

from gymnast.alerts import suspects as why
from gymnast.alerts.advice import Known, is_shortened
from gymnast.alerts.alert import Evidence
from gymnast.alerts.conditions import (
    Found,
    Memory,
    Row,
    all_alike,
    behind,
    gradient_steps,
    is_above,
    is_below,
    is_fed,
    is_poor,
    seen,
    warn_high,
    warn_low,
)
from gymnast.alerts.rules.rule import rule

TINY_REWARD = 1e-3  # root mean square of a step's reward
LONG_EPISODE = 2000  # steps of each env, after which an episode that has not ended is worth a word
STARVED = 0.25  # of the usual gradient steps


@rule("error", 1, "A number is NaN or infinite; nothing can be learned from here on.",
      "The env gave an observation or a reward that is not finite: `gymnast envs check` finds where.",
      why.FAST, why.LARGE_REWARD, why.LOOSE_LIMIT, why.RAW_OBS, outside="rollout/obs_")  # fmt: skip
def not_finite(row: Row, known: Known, memory: Memory) -> Found:
    # Returns that do not vary have no variance to explain: that NaN is a plain fact, not a fault.
    if math.isfinite(math.fsum(row.values()) - row.get("train/explained_variance", 0.0)):
        return {}
    bad = [name for name, value in row.items() if not math.isfinite(value) and name != "train/explained_variance"]
    bad.sort(key=lambda name: not name.startswith("rollout/obs_"))  # what the env gave comes before its effects
    return {name: Evidence(row[name]) for name in bad[:3]}


@rule("error", 1, "Acting and learning disagree about the probability of the same action: the first ratio is not 1.",
      "Observations, masks or weights changed between acting and learning: an env that reuses its arrays, or a bug."
)  # fmt: skip
def ratio_off(row: Row, known: Known, memory: Memory) -> Found:
    value = row.get("train/ratio_first")
    low, high = warn_low("train/ratio_first"), warn_high("train/ratio_first")
    if value is None or not math.isfinite(value):
        return None  # not a number is another alert
    if known.config.train.central.compares_with_older:
        return None  # central/ratio_mean says how far that one is from the learner
    return {} if low <= value <= high else {"train/ratio_first": Evidence(value, low, high)}


@rule("warning", 1, "The agent learns in far fewer gradient steps than this env's settings were tuned for.",
      "Fewer gradient steps for the same env steps.",
      why.LARGE_BATCH, why.FEW_EPOCHS, why.MANY_ENVS, why.LONG_ROLLOUT, cures=is_fed)  # fmt: skip
def starved(row: Row, known: Known, memory: Memory) -> Found:
    """More envs or larger batches make env steps faster and learning slower. Settings tell before the first row."""
    if (usual := known.tuned) is None:
        return None
    steps, low = gradient_steps(known.config), STARVED * gradient_steps(usual)
    return {"train/gradient_steps_per_million": Evidence(steps, low=low)} if steps < low else {}


@rule("warning", 2, "No episode has ended yet.",
      "No step has ended it: let the env set `terminated`, or set a shorter env.max_episode_steps.",
      why.NO_LIMIT)  # fmt: skip
def no_end(row: Row, known: Known, memory: Memory) -> Found:
    """Steps of each env without an end: a score, an evaluation and a verdict all wait for the first one."""
    steps = row.get("time/vec_steps", 0.0)
    found = not row.get("time/episodes", 1.0) and steps > LONG_EPISODE
    return {"time/vec_steps": Evidence(steps, high=LONG_EPISODE)} if found else {}


@rule("warning", 3, "Every episode so far had the same return: nothing that the agent did has changed it.",
      "Neither the reward nor the end of an episode depends on what is done. A goal or a failure that ends the task "
      "must set `terminated`. If no episode got that far, explore more (algo.ent_coef) or shape rewards (env.shaping)."
)  # fmt: skip
def returns_alike(row: Row, known: Known, memory: Memory) -> Found:
    """From the first row on: an agent that is perfect by now had other returns when it began."""
    low, high, length = (row.get(f"rollout/{name}") for name in ("ep_rew_min", "ep_rew_max", "ep_len_mean"))
    if low is None or high is None or length is None or not known.fresh or is_shortened(known):
        return None
    alike = low == high == memory.setdefault("return", high) and length == memory.setdefault("length", length)
    memory["vary"] = max(memory.get("vary", 0.0), float(not alike))
    rewarded = row.get("rollout/reward_nonzero_fraction", 0.0) > 0.01  # else it is another alert
    if memory["vary"] or not rewarded or row["time/progress"] < 0.2 or not behind(row, known):
        return {}
    return {"rollout/ep_rew_max": Evidence(high), **seen(row, "rollout/truncated_fraction")}


@rule("warning", 2, "Returns are far from the scale that a network learns well.",
      "The env's rewards are very large or very small.",
      why.LARGE_REWARD, why.SMALL_REWARD, why.RAW_REWARD, by_design=True)  # fmt: skip
def reward_scale(row: Row, known: Known, memory: Memory) -> Found:
    """The critic's targets, in the units that a network starts with: of the order of 1, 1000 is far."""
    if "rollout/return_std" not in row:
        return None
    if found := is_above(row, "rollout/return_std"):
        return found
    # Returns may well be all alike, once an agent is perfect; it is rewards that must not be tiny.
    mean, std = row["rollout/reward_mean"], row["rollout/reward_std"]
    if math.hypot(mean, std) < TINY_REWARD and row["rollout/reward_nonzero_fraction"] > 0.01:
        return {"rollout/reward_mean": Evidence(mean, low=TINY_REWARD), "rollout/reward_std": Evidence(std)}
    return {}


@rule("warning", 3, "The reward that is learned from is unlike the one that is scored.",
      "Clipping hides part of the reward.",
      why.CUT_REWARD, why.LARGE_REWARD, why.LOW_CEILING, why.MUCH_SHAPING, by_design=True)  # fmt: skip
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
    return is_above(row, name) if name in row else None if shaped is None else {}


@rule("warning", 2, "Episodes are much longer than the discount lets the agent look ahead.",
      "The discount is too strong.",
      why.SHORT_SIGHT, by_design=True)  # fmt: skip
def horizon_short(row: Row, known: Known, memory: Memory) -> Found:
    """Episodes of which the discount shows the learner only a small part."""
    horizon = 1.0 / max(1.0 - known.config.algo.gamma, 1e-9)
    if "rollout/ep_len_mean" not in row or horizon > 8:
        return None
    return is_above(row, "rollout/ep_len_mean", 5 * horizon) if behind(row, known) else {}


@rule("warning", 1, "The untrained policy prefers some actions already and will miss what the others bring.",
      "Observations are large, or the last layer starts with large weights.",
      why.OWN_START, why.RAW_OBS, by_design=True)  # fmt: skip
def policy_not_uniform(row: Row, known: Known, memory: Memory) -> Found:
    if known.uniform_entropy is None or not known.fresh or "rollout/initial_entropy" not in row:
        return None
    return is_below(row, "rollout/initial_entropy", 0.95 * known.uniform_entropy)


@rule("warning", 2, "Updates change the policy too much at once.",
      "Steps are too large for what a rollout can say.",
      why.FAST, why.MANY_EPOCHS, why.WIDE_CLIP, why.FEW_SAMPLES, why.LARGE_REWARD)  # fmt: skip
def kl_high(row: Row, known: Known, memory: Memory) -> Found:
    name, limit = "train/approx_kl", known.config.algo.kl_limit
    if limit is not None and row.get("train/epochs", 1.0) < 1.0:  # the limit strikes before one pass is over
        return {name: Evidence(row[name], high=limit), **seen(row, "train/epochs")}
    found = is_above(row, name)
    return found | seen(row, "train/clip_fraction") if found else found


@rule("warning", 3, "Most samples leave the clip range: an update wants to go further than it may.",
      "Steps are too large for the clip range.",
      why.NARROW_CLIP, why.FAST, why.MANY_EPOCHS)  # fmt: skip
def clip_fraction_high(row: Row, known: Known, memory: Memory) -> Found:
    return is_above(row, "train/clip_fraction")


@rule("warning", 3, "Updates hardly change the policy.",
      "The gradient does not tell actions apart: rewards may not depend on them.",
      why.VERY_SLOW, why.NARROW_CLIP, why.TIGHT_LIMIT, why.LARGE_REWARD, why.MUCH_ENTROPY)  # fmt: skip
def update_tiny(row: Row, known: Known, memory: Memory) -> Found:
    """The policy stands still although the schedule has not run down yet."""
    rate = row.get("train/learning_rate", 0.0)
    memory["rate"] = max(memory.get("rate", 0.0), rate)
    if row["time/progress"] > 0.5 or rate < 0.3 * memory["rate"]:
        return None
    if row.get("rollout/ep_rew_std") == 0:
        return {}  # returns that are all alike teach nothing: that is another alert
    name = "train/approx_kl"
    # One gradient step an update moves a policy less than PPO's many: healthy runs go down to 4e-6.
    epochs, _ = known.config.algo.passes(known.config.rollout_steps)
    low = warn_low(name) * (1.0 if epochs > 1 else 0.1)
    entropy = row.get("train/entropy", 1.0)
    if known.uniform_entropy is not None and entropy < 0.05 * known.uniform_entropy:
        return {}  # a policy that is certain stands still too; that is another alert
    return is_below(row, name, low)


@rule("warning", 3, "The policy is still as good as uniform.",
      "The entropy bonus is stronger than what the reward teaches.",
      why.MUCH_ENTROPY, why.SLOW)  # fmt: skip
def entropy_stuck(row: Row, known: Known, memory: Memory) -> Found:
    """Still uniform when half of the run is over, and an entropy bonus that wants it so."""
    if known.uniform_entropy is None or "train/entropy" not in row or not row.get("train/ent_coef"):
        return None
    if row["time/progress"] < 0.25 or not behind(row, known) or row.get("rollout/ep_rew_std") == 0:
        return {}  # returns that are all alike teach nothing: that is another alert
    return is_above(row, "train/entropy", 0.99 * known.uniform_entropy)


@rule("warning", 3, "The standard deviation of continuous actions keeps growing.",
      "Noise costs nothing: actions are cut to their bounds. Set agent.squash=true, or a lower agent.log_std_init.",
      why.MUCH_ENTROPY, why.WIDE_START)  # fmt: skip
def std_grows(row: Row, known: Known, memory: Memory) -> Found:
    """A Gaussian wider than it was at the start, and than anything the env can tell apart."""
    return is_above(row, "train/std", max(warn_high("train/std"), 3 * math.exp(known.config.agent.log_std_init)))


@rule("warning", 3, "The policy is certain of its actions, and its score is low or has not risen.",
      "Exploration ended too early.",
      why.FAST, why.MANY_EPOCHS, why.WIDE_CLIP, why.LARGE_REWARD, why.LITTLE_ENTROPY)  # fmt: skip
def entropy_collapse(row: Row, known: Known, memory: Memory) -> Found:
    """Certain of its actions too early."""
    if "train/entropy" not in row or row["time/progress"] > 0.8:
        return None  # at the end of a schedule a policy may well be certain
    if not is_poor(row, known):
        return {}
    if known.uniform_entropy is not None:
        return is_below(row, "train/entropy", 0.005 * known.uniform_entropy)
    return is_below(row, "train/std")


@rule("warning", 2, "The policy loses its randomness fast and gains no score by it.",
      "Exploration ends too early.",
      why.FAST, why.MANY_EPOCHS, why.WIDE_CLIP, why.LITTLE_ENTROPY)  # fmt: skip
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
    if lost > 0.5 * uniform and not gained and is_poor(row, known):
        return {"train/entropy": Evidence(entropy, low=memory["before"] - 0.5 * uniform)}
    return {}


@rule("warning", 3, "Nearly all actions are the same one.",
      "Exploration ended too early.",
      why.FAST, why.MANY_EPOCHS, why.LARGE_REWARD, why.LITTLE_ENTROPY)  # fmt: skip
def action_collapse(row: Row, known: Known, memory: Memory) -> Found:
    """One discrete action, nearly always."""
    if known.uniform_entropy is None or "rollout/action_std" not in row:
        return None
    if not is_poor(row, known):
        return {}
    return is_below(row, "rollout/action_std")


@rule("warning", 2, "Most units of the network no longer react to what they see.",
      "Large steps or large observations pushed them out of their working range.",
      why.FAST, why.RAW_OBS, why.LARGE_REWARD)  # fmt: skip
def dead_units(row: Row, known: Known, memory: Memory) -> Found:
    """Known where a row brings diagnostics."""
    name = "net/dead_units"
    found = is_above(row, name)
    if found:
        worst = max((key for key in row if key.startswith(f"{name}/")), key=lambda key: row[key], default=None)
        found |= {} if worst is None else seen(row, worst)
    return found


@rule("warning", 1, "An object that agent.track has found is several things: where it is says little.",
      "Things that look alike or that vanish are taken for one object. Ask for as many objects as move (agent.track), "
      "cut the others off, or learn from pixels (agent.track=null, with a convolutional agent.encoder)."
)  # fmt: skip
def objects_scattered(row: Row, known: Known, memory: Memory) -> Found:
    """Known in the one row after which objects were found."""
    filled = [name for name in row if name.startswith("objects/filled/")]
    worst = min(filled, key=lambda name: row[name], default="")
    return is_below(row, worst, warn_low("objects/filled/*")) if worst else None


@rule("warning", 5, "The critic's values are no help: further off than a constant would be.",
      "Values cannot be predicted from what the agent observes.",
      why.WEAK_CRITIC, why.FAST, why.SLOW, why.LARGE_REWARD, why.TIGHT_LIMIT)  # fmt: skip
def critic_wrong(row: Row, known: Known, memory: Memory) -> Found:
    """Values further from the returns than a constant would be, or far from nearly all of them."""
    if not {"rollout/value_mean", "train/explained_variance"} <= row.keys() or row["time/progress"] < 0.2:
        return None
    if not known.config.algo.trains_critic or known.config.rollout_steps < 256:
        return None  # nothing learns values, or too few samples to tell
    explained, low = row["train/explained_variance"], warn_low("train/explained_variance")
    miss = abs(row["rollout/return_mean"] - row["rollout/value_mean"])
    bound = 3.0 * row["rollout/return_std"]
    if not behind(row, known) or all_alike(known):
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


@rule("warning", 3, "Advantages are large, and nothing scales them.",
      "The env's rewards are very large.",
      why.RAW_ADVANTAGE, why.LARGE_REWARD, by_design=True)  # fmt: skip
def advantage_scale(row: Row, known: Known, memory: Memory) -> Found:
    """Unscaled advantages multiply the policy's gradient."""
    if known.config.algo.normalize_advantage != "off" or "rollout/advantage_std" not in row:
        return None
    return is_above(row, "rollout/advantage_std")


@rule("warning", 2, "Gradients are thousands of times the limit: only their direction is used.",
      "The loss is out of scale.",
      why.LARGE_REWARD, why.TIGHT_LIMIT, why.FAST, why.RAW_REWARD, by_design=True)  # fmt: skip
def gradient_large(row: Row, known: Known, memory: Memory) -> Found:
    """So far above the limit that only its direction is left of it."""
    found = is_above(row, "train/grad_norm", 2000.0 * known.config.algo.max_grad_norm)
    return found | seen(row, "train/grad_clipped_fraction") if found else found


@rule("warning", 3, "Gradients are next to nothing: the agent has stopped learning.",
      "The policy is certain, units are dead, or all returns are alike.",
      why.SMALL_REWARD, why.FAST, why.LITTLE_ENTROPY)  # fmt: skip
def gradient_vanishes(row: Row, known: Known, memory: Memory) -> Found:
    if row["time/progress"] > 0.9 or not is_poor(row, known):
        return None
    if row.get("rollout/reward_nonzero_fraction") == 0.0:
        return {}  # nothing is paid: that is another alert
    return is_below(row, "train/grad_norm")
