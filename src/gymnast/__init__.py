"""Gymnast: a reinforcement-learning workbench.

    from gymnast import PPO

    model = PPO("CartPole-v1").learn(50_000)

What is exported is imported when it is first asked for, so that `import gymnast` costs nothing.
"""

from __future__ import annotations

TYPE_CHECKING = False  # type checkers take it for typing's, whose import would be most of this one's time
if TYPE_CHECKING:
    from gymnast.api import A2C, PPO, REINFORCE, VecEnv, evaluate_policy, load, make_vec_env

    __version__: str

__all__ = ["A2C", "PPO", "REINFORCE", "VecEnv", "__version__", "evaluate_policy", "load", "make_vec_env"]


def __getattr__(name: str) -> object:
    if name == "__version__":
        from importlib.metadata import version

        return version("gymnast")
    if name in __all__:
        from gymnast import api

        return getattr(api, name)
    raise AttributeError(f"module 'gymnast' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
