"""What an engine says for itself: what hinders it, whether it pays, how it is opened."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, ClassVar

from gymnast.envs.types import VecEnv

if TYPE_CHECKING:
    from gymnast.envs.make import EnvMaker


class Engine:
    """A way to step envs together. `make` asks all of ENGINES the same questions and knows none by name.

    Importing an engine's module must be quick, since every engine is asked: what is heavy is imported by `open`.
    """

    priority: ClassVar[int] = 0  # `auto` takes the highest of those that pay
    action_labels: list[str] | None = None  # of one that asks its envs

    @classmethod
    def obstacle(cls, maker: EnvMaker) -> str | None:
        """Why these envs cannot be run, as a sentence about "it"; None: they can."""
        return None

    @classmethod
    def pays(cls, maker: EnvMaker, n_envs: int) -> str | None:
        """Why `auto` should take it for so many of these envs, if nothing hinders it; None: only where it is named."""
        return None

    @classmethod
    def open(cls, maker: EnvMaker, n_envs: int, threads: int | None) -> VecEnv:
        """The vector; the engine itself, unless it says otherwise. `threads`, or processes, where it has several; None:
        one a core. They change no number."""
        return cls(maker, n_envs, threads)  # type: ignore[call-arg, return-value]


def obstacle_of_own_envs(maker: EnvMaker, knows: bool, all_known: str, kwargs: Collection[str] = ()) -> str | None:
    """What hinders an engine that does not make its envs by `maker`, but has its own of some ids.

    `knows`: whether this id is one of them. `kwargs`: those of env.kwargs that it takes.
    """
    cfg = maker.config
    if maker.render_mode is not None:
        return "it cannot show pictures."
    if maker.factory is not None:
        return "it makes its envs from an id, not from a factory."
    if not knows:
        return f"it has no {cfg.id}, only {all_known}."
    if maker.wrappers:
        return f"it takes no wrappers, and env.wrappers has {', '.join(spec.name for spec in maker.wrappers)}."
    if cfg.action_masks:
        return "it gives no action masks, and env.action_masks is true."
    if cfg.forbid:
        return "it takes all actions of the env, and env.forbid forbids some."
    if refused := sorted(set(cfg.kwargs) - set(kwargs)):
        return f"it does not take env.kwargs {', '.join(refused)}."
    return maker.suite.missing
