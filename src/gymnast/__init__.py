"""Gymnast: a reinforcement-learning workbench.

    from gymnast import PPO

    model = PPO("CartPole-v1").learn(50_000)

What is exported is imported when it is first asked for, so that `import gymnast` costs nothing.
"""

from __future__ import annotations

TYPE_CHECKING = False  # type checkers take it for typing's, whose import would be most of this one's time
if TYPE_CHECKING:
    from typing import Any

    from gymnast.api import VecEnv as VecEnv
    from gymnast.api import evaluate_policy as evaluate_policy
    from gymnast.api import load as load
    from gymnast.api import make_vec_env as make_vec_env

__version__ = "0.1.0"
API = ("VecEnv", "evaluate_policy", "load", "make_vec_env")

_OFF_POLICY = "Gymnast has no off-policy algorithms. PPO, A2C and REINFORCE train on the same envs."
_OTHERS = "Gymnast has PPO, A2C and REINFORCE."
# Names of other libraries that scripts import, and what to use here
INSTEAD = {
    **dict.fromkeys(("DQN", "QRDQN", "SAC", "TD3", "DDPG", "TQC", "CrossQ", "HerReplayBuffer", "HER"), _OFF_POLICY),
    **dict.fromkeys(("TRPO", "ARS", "ACKTR", "ACER"), _OTHERS),
    "MaskablePPO": "Use PPO(env, set={'env.action_masks': True}); the env puts the mask into info['action_mask'].",
    "RecurrentPPO": "Use PPO(env, memory='lstm').",
    "make_atari_env": "Use make_vec_env('ALE/Pong-v5', n_envs=4): Atari's preprocessing is built in.",
    "VecNormalize": "Use PPO(env, normalize_obs=True, normalize_reward=True), or stable-baselines3's around the envs.",
    "check_env": "Use the command `gymnast envs check ENV`, or stable-baselines3's check_env.",
    **dict.fromkeys(
        ("DummyVecEnv", "SubprocVecEnv"),
        "Use make_vec_env(..., engine='sync') or engine='process'; a model takes stable-baselines3's objects, too.",
    ),
    **dict.fromkeys(
        ("Monitor", "VecMonitor", "VecFrameStack", "VecTransposeImage", "VecVideoRecorder", "VecCheckNan"),
        "Import it from stable_baselines3: a model trains on its objects as they are.",
    ),
    **dict.fromkeys(
        ("BaseCallback", "CheckpointCallback", "EvalCallback", "CallbackList", "StopTrainingOnRewardThreshold"),
        "Import it from stable_baselines3.common.callbacks: learn(callback=...) calls it at the same moments.",
    ),
}


def __getattr__(name: str) -> Any:
    """A model class for every registered algorithm (`gymnast.PPO`), and the rest of the API."""
    if name == "__all__":
        return _exported()
    if name in API:
        from gymnast import api

        return getattr(api, name)
    if name.isupper() and not name.startswith("_"):
        from gymnast.core.registry import ALGOS

        if name.lower() in list(ALGOS):
            from gymnast.api import model_class

            return model_class(name.lower())
    if name in INSTEAD:  # no AttributeError: `from gymnast import DQN` would put a message of its own in its place
        raise ImportError(f"gymnast has no {name}. {INSTEAD[name]}", name="gymnast")
    raise AttributeError(f"module 'gymnast' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *_exported()])


def _exported() -> list[str]:
    from gymnast.core.registry import ALGOS

    return [*API, *(name.upper() for name in ALGOS)]
