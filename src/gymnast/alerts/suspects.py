"""Settings that rules suspect, each with what is wrong about it."""

from __future__ import annotations

from gymnast.alerts.advice import Suspect, is_shortened

FAST = Suspect("algo.learning_rate", "high", "the learning rate is too high", limit=1e-4)
SLOW = Suspect("algo.learning_rate", "low", "the learning rate is too low", limit=1e-2)
# The KL of an update grows with the square of the rate: a thousandth of what is usual is a rate thirty times too low.
VERY_SLOW = Suspect("algo.learning_rate", "low", "the learning rate is too low", factor=100, limit=1e-3)
MANY_EPOCHS = Suspect("algo.n_epochs", "high", "each rollout is learned from too often", factor=4, limit=3)
WIDE_CLIP = Suspect("algo.clip_range", "high", "the clip range is too wide to hold an update back", limit=0.2)
NARROW_CLIP = Suspect("algo.clip_range", "low", "the clip range is too narrow to move", limit=0.1)
FEW_SAMPLES = Suspect("algo.batch_size", "low", "minibatches are too small", factor=4, limit=256)
LARGE_BATCH = Suspect("algo.batch_size", "high", "minibatches are larger than learning was tuned for")
FEW_EPOCHS = Suspect("algo.n_epochs", "low", "each rollout is learned from less often than was tuned for")
MANY_ENVS = Suspect("env.n_envs", "high", "there are more envs than learning was tuned for")
LONG_ROLLOUT = Suspect("algo.n_steps", "high", "rollouts are longer than learning was tuned for")
MUCH_ENTROPY = Suspect("algo.ent_coef", "high", "the entropy bonus outweighs the reward", limit=0.01)
LITTLE_ENTROPY = Suspect("algo.ent_coef", "low", "nothing keeps the policy exploring", limit=0.1)
SHORT_SIGHT = Suspect("algo.gamma", "low", "gamma hides what comes later", factor=20, limit=100)
LARGE_REWARD = Suspect("env.reward.scale", "high", "the reward is scaled up too far", factor=100, limit=1)
SMALL_REWARD = Suspect("env.reward.scale", "low", "the reward is scaled down too far", factor=100, limit=1)
LOOSE_LIMIT = Suspect("algo.max_grad_norm", "high", "gradients are hardly limited", factor=100, limit=0.5)
TIGHT_LIMIT = Suspect("algo.max_grad_norm", "low", "the limit leaves nothing of the gradient", factor=1e6, limit=0.5)
WEAK_CRITIC = Suspect("algo.vf_coef", "low", "the critic hardly learns", factor=500, limit=0.5)
RAW_OBS = Suspect(
    "agent.normalize_obs", "switch", "observations are far from mean 0 and standard deviation 1", value=True
)
RAW_REWARD = Suspect("agent.normalize_reward", "switch", "rewards are far from the order of 1", value=True)
RAW_ADVANTAGE = Suspect("algo.normalize_advantage", "switch", "advantages are used as they come", value="batch")
CUT_REWARD = Suspect("env.reward.clip", "switch", "the clip takes from the reward what tells good from bad", value=None)
LOW_CEILING = Suspect(
    "agent.clip_reward", "low", "the clip takes from normalised rewards what tells good from bad", limit=10
)
MUCH_SHAPING = Suspect("env.shaping.*", "high", "shaping pays many times what the env does", factor=100, limit=1e-3)
OWN_START = Suspect("agent.ortho_init", "switch", "weights start at random sizes", value=True)
OWN_LIMIT = Suspect(
    "env.max_episode_steps", "switch", "the time limit is shorter than the task", value=None, only=is_shortened
)
NO_LIMIT = Suspect(
    "env.max_episode_steps", "switch", "no step has ended it, and its time limit, if there is one, is far", value=1000
)
SURE_ACTIONS = Suspect(
    "stop.judge",
    "switch",
    "training samples actions and reaches by chance what the most likely action alone does not",
    value="stochastic",
    also=(("eval.policy", "both"),),
)
WIDE_START = Suspect("agent.log_std_init", "switch", "actions start with a large standard deviation", value=0.0)
MORE_STEPS = Suspect("train.total_timesteps", "low", "the run may be too short", factor=2)
