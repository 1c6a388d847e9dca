"""The rules: what each one says, and which settings it suspects; a root cause before what it causes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from gymnast.alerts import conditions as tests
from gymnast.alerts.advice import Known, Suspect, is_shortened


@dataclass(frozen=True)
class Rule:
    name: str
    severity: str
    rows: int  # bad rows before it fires; a good row takes one back, so noise neither raises an alert nor clears it
    test: Callable[[tests.Row, Known, tests.Memory], tests.Found]
    message: str
    suspects: tuple[Suspect, ...]
    otherwise: str  # the likely cause, where no setting can be blamed


FAST = Suspect("algo.learning_rate", "high", "the learning rate is too high", factor=10, limit=1e-4)
SLOW = Suspect("algo.learning_rate", "low", "the learning rate is too low", factor=10, limit=1e-2)
# The KL of an update grows with the square of the rate: a thousandth of what is usual is a rate thirty times too low.
VERY_SLOW = Suspect("algo.learning_rate", "low", "the learning rate is too low", factor=100, limit=1e-3)
MANY_EPOCHS = Suspect("algo.n_epochs", "high", "each rollout is learned from too often", factor=4, limit=3)
WIDE_CLIP = Suspect(
    "algo.clip_range", "high", "the clip range is too wide to hold an update back", factor=10, limit=0.2
)
NARROW_CLIP = Suspect("algo.clip_range", "low", "the clip range is too narrow to move", factor=10, limit=0.1)
FEW_SAMPLES = Suspect("algo.batch_size", "low", "minibatches are too small", factor=4, limit=256)
MUCH_ENTROPY = Suspect("algo.ent_coef", "high", "the entropy bonus outweighs the reward", factor=10, limit=0.01)
LITTLE_ENTROPY = Suspect("algo.ent_coef", "low", "nothing keeps the policy exploring", factor=10, limit=0.1)
SHORT_SIGHT = Suspect("algo.gamma", "low", "gamma hides what comes later", factor=20, limit=100)
LARGE_REWARD = Suspect("env.reward.scale", "high", "the reward is scaled up too far", factor=100, limit=1)
SMALL_REWARD = Suspect("env.reward.scale", "low", "the reward is scaled down too far", factor=100, limit=1)
LOOSE_LIMIT = Suspect("algo.max_grad_norm", "high", "gradients are hardly limited", factor=100, limit=0.5)
TIGHT_LIMIT = Suspect("algo.max_grad_norm", "low", "the limit leaves nothing of the gradient", factor=1e6, limit=0.5)
WEAK_CRITIC = Suspect("algo.vf_coef", "low", "the critic hardly learns", factor=500, limit=0.5)
RAW_OBS = Suspect("agent.normalize_obs", "switch", "observations are far from mean 0 and spread 1", value=True)
RAW_REWARD = Suspect("agent.normalize_reward", "switch", "rewards are far from the order of 1", value=True)
RAW_ADVANTAGE = Suspect("algo.normalize_advantage", "switch", "advantages are used as they come", value="batch")
CUT_REWARD = Suspect("env.reward.clip", "switch", "the clip takes from the reward what tells good from bad", value=None)
LOW_CEILING = Suspect(
    "agent.clip_reward", "low", "the clip takes from normalised rewards what tells good from bad", factor=10, limit=10
)
MUCH_SHAPING = Suspect("env.shaping.*", "high", "shaping pays many times what the env does", factor=100, limit=1e-3)
OWN_START = Suspect("agent.ortho_init", "switch", "weights start at random sizes", value=True)
OWN_LIMIT = Suspect(
    "env.max_episode_steps", "switch", "the time limit is shorter than the task", value=None, only=is_shortened
)
WIDE_START = Suspect("agent.log_std_init", "switch", "actions start with a wide spread", value=0.0)
MORE_STEPS = Suspect("train.total_timesteps", "low", "the run may be too short", factor=2)

RULES = (
    Rule(
        "not_finite", "error", 1, tests.not_finite,
        "A number is NaN or infinite; nothing can be learned from here on.",
        (FAST, LARGE_REWARD, LOOSE_LIMIT, RAW_OBS),
        "The env gave an observation or a reward that is not finite: `gymnast envs check` finds where.",
    ),
    Rule(
        "ratio_off", "error", 1, tests.ratio_off,
        "Acting and learning disagree about the probability of the same action: the first ratio is not 1.",
        (),
        "Observations, masks or weights changed between acting and learning: an env that reuses its arrays, or a bug.",
    ),
    Rule(
        "reward_scale", "warning", 2, tests.reward_scale,
        "Returns are far from the scale that a network learns well.",
        (LARGE_REWARD, SMALL_REWARD, RAW_REWARD),
        "The env's rewards are very large or very small.",
    ),
    Rule(
        "reward_altered", "warning", 3, tests.reward_altered,
        "The reward that is learned from is unlike the one that is scored.",
        (CUT_REWARD, LARGE_REWARD, LOW_CEILING, MUCH_SHAPING),
        "Clipping hides part of the reward.",
    ),
    Rule(
        "horizon_short", "warning", 2, tests.horizon_short,
        "Episodes are much longer than the discount lets the agent look ahead.",
        (SHORT_SIGHT,),
        "The discount is too strong.",
    ),
    Rule(
        "policy_not_uniform", "warning", 1, tests.policy_not_uniform,
        "The untrained policy prefers some actions already and will miss what the others bring.",
        (OWN_START, RAW_OBS),
        "Observations are large, or the last layer starts with large weights.",
    ),
    Rule(
        "kl_high", "warning", 2, tests.kl_high,
        "Updates change the policy too much at once.",
        (FAST, MANY_EPOCHS, WIDE_CLIP, FEW_SAMPLES, LARGE_REWARD),
        "Steps are too large for what a rollout can say.",
    ),
    Rule(
        "clip_fraction_high", "warning", 3, tests.clip_fraction_high,
        "Most samples leave the clip range: an update wants to go further than it may.",
        (NARROW_CLIP, FAST, MANY_EPOCHS),
        "Steps are too large for the clip range.",
    ),
    Rule(
        "update_tiny", "warning", 3, tests.update_tiny,
        "Updates hardly change the policy.",
        (VERY_SLOW, NARROW_CLIP, TIGHT_LIMIT, LARGE_REWARD, MUCH_ENTROPY),
        "The gradient does not tell actions apart: rewards may not depend on them.",
    ),
    Rule(
        "entropy_stuck", "warning", 3, tests.entropy_stuck,
        "The policy is still as good as uniform.",
        (MUCH_ENTROPY, SLOW),
        "The entropy bonus is stronger than what the reward teaches.",
    ),
    Rule(
        "spread_grows", "warning", 3, tests.spread_grows,
        "The spread of continuous actions keeps growing.",
        (MUCH_ENTROPY, WIDE_START),
        "Noise costs nothing: actions are cut to their bounds. Set agent.squash=true, or a lower agent.log_std_init.",
    ),
    Rule(
        "entropy_collapse", "warning", 3, tests.entropy_collapse,
        "The policy has become certain of its actions before it is good.",
        (FAST, MANY_EPOCHS, WIDE_CLIP, LARGE_REWARD, LITTLE_ENTROPY),
        "Exploration ended too early.",
    ),
    Rule(
        "entropy_falling", "warning", 2, tests.entropy_falling,
        "The policy loses its randomness fast and gains no score by it.",
        (FAST, MANY_EPOCHS, WIDE_CLIP, LITTLE_ENTROPY),
        "Exploration ends too early.",
    ),
    Rule(
        "action_collapse", "warning", 3, tests.action_collapse,
        "Nearly all actions are the same one.",
        (FAST, MANY_EPOCHS, LARGE_REWARD, LITTLE_ENTROPY),
        "Exploration ended too early.",
    ),
    Rule(
        "dead_units", "warning", 2, tests.dead_units,
        "Most units of the network no longer react to what they see.",
        (FAST, RAW_OBS, LARGE_REWARD),
        "Large steps or large observations pushed them out of their working range.",
    ),
    Rule(
        "critic_wrong", "warning", 5, tests.critic_wrong,
        "The critic's values are no help: further off than a constant would be.",
        (WEAK_CRITIC, FAST, SLOW, LARGE_REWARD, TIGHT_LIMIT),
        "Values cannot be told from what the agent observes.",
    ),
    Rule(
        "advantage_scale", "warning", 3, tests.advantage_scale,
        "Advantages are large, and nothing scales them.",
        (RAW_ADVANTAGE, LARGE_REWARD),
        "The env's rewards are very large.",
    ),
    Rule(
        "gradient_large", "warning", 2, tests.gradient_large,
        "Gradients are thousands of times the limit: only their direction is used.",
        (LARGE_REWARD, TIGHT_LIMIT, FAST, RAW_REWARD),
        "The loss is out of scale.",
    ),
    Rule(
        "gradient_vanishes", "warning", 3, tests.gradient_vanishes,
        "Gradients are next to nothing: the agent has stopped learning.",
        (SMALL_REWARD, FAST, LITTLE_ENTROPY),
        "The policy is certain, units are dead, or all returns are alike.",
    ),
    Rule(
        "reward_sparse", "warning", 5, tests.reward_sparse,
        "There has hardly been a reward to learn from.",
        (LITTLE_ENTROPY, SHORT_SIGHT),
        "Random actions do not find the reward: shape it (env.shaping), or start episodes nearer to it.",
    ),
    Rule(
        "all_cut", "warning", 3, tests.all_cut,
        "Every episode is cut by the time limit.",
        (OWN_LIMIT, LITTLE_ENTROPY, SHORT_SIGHT),
        "No episode reaches an end of its own.",
    ),
    Rule(
        "plateau", "info", 3, tests.plateau,
        "The score has not improved for half of the run.",
        (
            MORE_STEPS, FAST, SLOW, WIDE_CLIP, NARROW_CLIP, MANY_EPOCHS, SHORT_SIGHT,
            MUCH_ENTROPY, LITTLE_ENTROPY, LARGE_REWARD, SMALL_REWARD, TIGHT_LIMIT, WEAK_CRITIC,
        ),
        "It has learned what these settings let it.",
    ),
    Rule(
        "rate_falls", "info", 10, tests.rate_falls,
        "Training runs at less than a third of the speed it began with.",
        (),
        "Another process takes the cores, or memory runs short. Episodes may also have become costlier to simulate.",
    ),
)  # fmt: skip
