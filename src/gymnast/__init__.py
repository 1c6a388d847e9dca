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
    raise AttributeError(f"module 'gymnast' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *_exported()])


def _exported() -> list[str]:
    from gymnast.core.registry import ALGOS

    return [*API, *(name.upper() for name in ALGOS)]
