"""Rules about scores and speed, which are effects: after those about learning."""

from __future__ import annotations

import math

from gymnast.alerts import suspects as why
from gymnast.alerts.advice import Known, differences, is_shortened
from gymnast.alerts.alert import Evidence
from gymnast.alerts.conditions import NO_RISE, Found, Memory, Row, all_alike, behind, is_below, seen, warn_high
from gymnast.alerts.rules.rule import rule


@rule("warning", 5, "There has hardly been a reward to learn from.",
      "Random actions do not find the reward: shape it (env.shaping), or start episodes nearer to it. "
      "`gymnast envs audit` says whether the env pays at all.",
      why.LITTLE_ENTROPY, why.SHORT_SIGHT, outside="rollout/ep_rew_max")  # fmt: skip
def reward_sparse(row: Row, known: Known, memory: Memory) -> Found:
    """Hardly a reward yet, for a fifth of the run. Where no episode was ever paid, no setting of learning is blamed."""
    found = is_below(row, "rollout/reward_nonzero_fraction")
    if not found:
        return found
    return {} if row["time/progress"] < 0.2 else found | (seen(row, "rollout/ep_rew_max") if all_alike(known) else {})


@rule("warning", 3, "Every episode is cut by the time limit, and the score does not rise.",
      "No step has set `terminated`. A task with an end of its own, a goal or a failure, must say so in its step; in a "
      "task without one the limit is no fault, and something else keeps the score down.",
      why.OWN_LIMIT, by_design=True)  # fmt: skip
def all_cut(row: Row, known: Known, memory: Memory) -> Found:
    """Never an end of the task's own, or a clock of the config that is shorter than the env's. Tasks of a fixed length
    have no other end: there it is nothing, as long as the score rises. An env with facts ends as it should."""
    score, cut = row.get("rollout/ep_rew_mean"), row.get("rollout/truncated_fraction")
    if score is None or cut is None:
        return None
    high = warn_high("rollout/truncated_fraction")
    first = memory.setdefault("score", score)
    noise = memory["noise"] = max(memory.get("noise", 0.0), row["rollout/ep_rew_std"])
    memory["ended"] = max(memory.get("ended", 0.0), float(cut < high))
    shortened = is_shortened(known)  # then it is the limit, also where a worse agent ended before it
    if cut < high or (memory["ended"] and not shortened) or not behind(row, known):
        return {}
    late = row["time/progress"] > 0.5 and noise > 0 and score - first < NO_RISE * noise
    if not (shortened or (late and known.facts is None)):
        return {}
    evidence = {"rollout/truncated_fraction": Evidence(cut, high=high)}
    return evidence | seen(row, "rollout/ep_len_mean") | seen(row, "rollout/ep_rew_std")


@rule("warning", 2, "The greedy policy scores far below the sampled actions of training.",
      "The policy needs its randomness: it cannot tell states apart in which it must act differently.",
      why.SURE_ACTIONS)  # fmt: skip
def greedy_below_training(row: Row, known: Known, memory: Memory) -> Found:
    """More than half of what training has gained is lost, in evaluations one after the other, beyond chance."""
    trained, evaluated = row.get("rollout/ep_rew_mean"), row.get("eval/mean_reward")
    if trained is not None:
        memory.setdefault("first", trained)
    if trained is None or evaluated is None or known.config.eval.policy != "greedy":
        return None
    gained, missing = trained - memory["first"], trained - evaluated
    error = math.hypot(row["eval/std_reward"], row["rollout/ep_rew_std"]) / math.sqrt(known.config.eval.episodes)
    if row["time/progress"] < 0.3 or missing < max(0.5 * gained, 4 * error) or missing <= 1e-3 * abs(trained):
        return {}
    return {"eval/mean_reward": Evidence(evaluated, low=trained - 0.5 * gained), **seen(row, "rollout/ep_rew_mean")}


@rule("info", 3, "The score has not improved for half of the run.",
      "It has learned what these settings let it.",
      why.MORE_STEPS, why.FAST, why.SLOW, why.WIDE_CLIP, why.NARROW_CLIP, why.MANY_EPOCHS, why.SHORT_SIGHT,
      why.MUCH_ENTROPY, why.LITTLE_ENTROPY, why.LARGE_REWARD, why.SMALL_REWARD, why.TIGHT_LIMIT,
      why.WEAK_CRITIC)  # fmt: skip
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
    if since < 0.5 or not behind(row, known) or memory["low"] == memory["best"]:
        return {}  # a score that never moved is another alert
    return {"rollout/ep_rew_mean": Evidence(score), **seen(row, "rollout/ep_rew_best")}


@rule("info", 1, "The run is nearly over, and the score is below the threshold.",
      "It has learned what these settings let it.",
      why.MORE_STEPS)  # fmt: skip
def below_threshold(row: Row, known: Known, memory: Memory) -> Found:
    """Near the end of a run whose settings are not those of the preset: what else differs from it is named."""
    score = row.get("rollout/ep_rew_mean")
    if score is None or row["time/progress"] < 0.9 or known.threshold is None:
        return None
    preset = next(iter(known.presets), None) if behind(row, known) else None
    if preset is None or not differences(known.config, preset):
        return {}
    return {"rollout/ep_rew_mean": Evidence(score, low=known.threshold)}


@rule("info", 10, "Training runs at less than a third of the speed it began with.",
      "Another process takes the cores, or memory runs short. Episodes may also have become costlier to simulate.",
      compares=False)  # fmt: skip
def rate_falls(row: Row, known: Known, memory: Memory) -> Found:
    """Env steps a second, without evaluation, compared with what they were: a slow average of good rows."""
    if "time/fps" not in row:
        return None
    rate = row["time/fps"] / max(1.0 - row.get("time/share/eval", 0.0), 0.05)
    count = memory["count"] = memory.get("count", 0.0) + 1.0
    recent = memory["recent"] = memory.get("recent", rate) + 0.1 * (rate - memory.get("recent", rate))
    if count <= 20:
        memory["first"] = memory.get("first", rate) + (rate - memory.get("first", rate)) / count
        return {}
    return {"time/fps": Evidence(row["time/fps"], low=memory["first"] / 3)} if recent < memory["first"] / 3 else {}
