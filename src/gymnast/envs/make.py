"""The one place where envs are made, for every verb: suite -> recorder -> wrappers -> engine.

The engine checks the env's contract on its first steps. A role other than `train` leaves out those wrappers only that
are marked `training_only: true`.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import gymnasium as gym

from gymnast.config.tuned import find as find_tuned
from gymnast.core.errors import UserError
from gymnast.core.registry import ENGINES, WRAPPERS
from gymnast.envs.engines.envpool import VERIFIED as ENVPOOL_IDS
from gymnast.envs.engines.envpool import atari_obstacle as envpool_obstacle
from gymnast.envs.recorder import Recorder, find_recorder
from gymnast.envs.shaping.components import find_shaper
from gymnast.envs.shaping.vec import ShapedVecEnv
from gymnast.envs.suites import gymnasium as suite
from gymnast.envs.suites.atari.task import MAX_FRAMES, atari_task, is_atari
from gymnast.envs.suites.gymnasium import list_env_ids
from gymnast.envs.types import VecEnv
from gymnast.envs.wrappers import problems

if TYPE_CHECKING:
    from gymnast.config import EnvConfig, RunConfig

Role = Literal["train", "eval", "play"]
Factory = Callable[[], gym.Env[Any, Any]]

NATIVE_IDS = frozenset({"CartPole-v0", "CartPole-v1"})
NATIVE_KWARGS = frozenset({"sutton_barto_reward"})
NATIVE_FROM = 4  # envs; as fast as plain envs one by one with 4, slower with fewer (measured on two cores)
# EnvPool steps these 1.6 to 4 times as fast as sync with 8 envs, and slower with 2 (measured on two cores). On the
# others it knows it does not earn back its import and its inexact resume.
ENVPOOL_PAYS = frozenset({"Acrobot-v1", "LunarLander-v3", "LunarLanderContinuous-v3", "BipedalWalker-v3"})
ENVPOOL_FROM = 8
SLOW_IDS = frozenset({"CarRacing-v3"})  # over a millisecond a step: worth processes of their own


@dataclass(frozen=True)
class EnvMaker:
    """Makes one env of a config when called; can be sent to a worker."""

    config: EnvConfig
    role: Role
    factory: Factory | None = None
    render_mode: str | None = None

    def __call__(self) -> gym.Env[Any, Any]:
        return make_env(self.config, self.role, self.factory, self.render_mode)


def make_env(
    cfg: EnvConfig, role: Role = "play", factory: Factory | None = None, render_mode: str | None = None
) -> gym.Env[Any, Any]:
    """One env with its recorder and wrappers, as Gymnasium knows envs: nothing resets it but its user.

    With a factory, `env.max_episode_steps` is a limit on top of whatever the env has already.
    """
    _check_wrappers(cfg, role)
    wanted = cfg.max_episode_steps
    if factory is None:
        env = suite.make(cfg.id, cfg.kwargs, wanted, render_mode, training=role == "train")
    else:
        env = factory()
        if not isinstance(env, gym.Env):
            raise UserError(f"the env factory returned {type(env).__name__}, not a gymnasium.Env.")
        env = gym.wrappers.TimeLimit(env, wanted) if wanted is not None else env
    env = env if find_recorder(env) else Recorder(env)  # a suite may have put it further down
    for spec in _active_wrappers(cfg, role):
        env = WRAPPERS.get(spec.name)(env, **spec.kwargs)
    return env


def make_vec(
    cfg: EnvConfig,
    n_envs: int,
    role: Role,
    factory: Factory | None = None,
    render_mode: str | None = None,
    threads: int | None = None,
) -> VecEnv:
    """A vector of envs on the engine the config names, or on the fastest one that can run them.

    `threads`: of an engine that has several, or processes; None: one a core. They change no number.
    """
    name, _ = choose_engine(cfg, n_envs, factory, role, render_mode)
    engine = ENGINES.get(name)
    maker = EnvMaker(cfg, role, factory, render_mode)
    if name == "native":
        limit = cfg.max_episode_steps or suite.find_spec(cfg.id).max_episode_steps
        return engine(n_envs, name=cfg.id, max_episode_steps=limit, **cfg.kwargs)
    if name == "ale":
        task = atari_task(cfg.kwargs)
        return engine(
            n_envs,
            name=cfg.id,
            game=suite.find_spec(cfg.id).kwargs["game"],
            task=task,
            max_frames=cfg.max_episode_steps or MAX_FRAMES,
            life_loss=task.episodic_life and role == "train",
            threads=threads,
        )
    if name == "envpool":
        env = maker()  # for its spaces
        env.close()
        atari = atari_task(cfg.kwargs) if is_atari(cfg.id) else None
        return engine(env, n_envs, name=cfg.id, max_episode_steps=cfg.max_episode_steps, atari=atari, threads=threads)
    options: dict[str, Any] = {"step_timeout": cfg.step_timeout, "workers": threads} if name == "process" else {}
    return engine(maker, n_envs, name=_title(cfg, factory), action_masks=cfg.action_masks, **options)


def make_training_vec(config: RunConfig, factory: Factory | None = None) -> VecEnv:
    """What training steps: the only envs whose rewards are shaped."""
    cfg = config.env
    for spec in cfg.wrappers:
        if cfg.shaping and not WRAPPERS.get(spec.name).keeps_numbers:
            raise UserError(
                f"env.shaping: reads the env's own numbers, which the wrapper {spec.name} replaces; drop one of them."
            )
    env = make_vec(cfg, cfg.n_envs, "train", factory)
    if not cfg.shaping:
        return env
    shaper = find_shaper(cfg.id)
    assert shaper is not None  # the config was checked
    return ShapedVecEnv(env, cfg.id, shaper, cfg.shaping, config.algo.gamma)


def choose_engine(
    cfg: EnvConfig,
    n_envs: int,
    factory: Factory | None = None,
    role: Role = "train",
    render_mode: str | None = None,
    use_tuned: bool = True,
) -> tuple[str, str]:
    """The engine's name and why it was chosen. A named engine that cannot run this env is refused with what can.

    `use_tuned` False leaves out what `gymnast speed --tune` found here, for those who measure themselves.
    """

    def obstacle(engine: str) -> str | None:
        return _obstacle(engine, cfg, factory, role, render_mode)

    _check_wrappers(cfg, role)
    if cfg.engine != "auto":
        if reason := obstacle(cfg.engine):
            able = [name for name in ENGINES.names() if obstacle(name) is None]
            raise UserError(f"env.engine: {cfg.engine} cannot run this env: {reason} Use auto or {' or '.join(able)}.")
        return cfg.engine, "named in the config"
    found = find_tuned(cfg.id) if use_tuned and factory is None else None
    if found is not None and (fastest := found.engines.get(n_envs)) in ENGINES.names() and obstacle(fastest) is None:
        return fastest, "measured to be the fastest on this machine (`gymnast speed --tune`)"
    if obstacle("ale") is None:
        return "ale", "ALE's vector env steps Atari games in C++, and nothing wraps it"
    if n_envs >= NATIVE_FROM and obstacle("native") is None:
        return "native", f"{cfg.id} has a vector version in Gymnasium, and nothing wraps it"
    if cfg.id in ENVPOOL_PAYS and n_envs >= ENVPOOL_FROM and obstacle("envpool") is None:
        return "envpool", f"EnvPool steps {cfg.id} faster than Python does, and nothing wraps it"
    if (cfg.id in SLOW_IDS or is_atari(cfg.id)) and n_envs > 1 and obstacle("process") is None:
        return "process", f"{cfg.id} takes over a millisecond a step"
    return "sync", "runs every env, and is fastest for one that is cheap to step"


def _obstacle(engine: str, cfg: EnvConfig, factory: Factory | None, role: Role, render_mode: str | None) -> str | None:
    """Why an engine cannot run this env, or None."""
    if engine == "sync":
        return None
    if render_mode is not None:
        return "it cannot show pictures."
    if engine == "process":
        return None
    wrappers = [spec.name for spec in _active_wrappers(cfg, role)]
    if factory is not None:
        return "it makes its envs from an id, not from a factory."
    if engine == "ale":
        if not is_atari(cfg.id):
            return f"it has no {cfg.id}, only Atari games (ALE/*)."
    elif not (engine == "envpool" and is_atari(cfg.id)):
        known = NATIVE_IDS if engine == "native" else ENVPOOL_IDS
        if cfg.id not in known:
            return f"it has no {cfg.id}, only {', '.join(sorted(known))}{' and ALE/*' if engine == 'envpool' else ''}."
    if wrappers:
        return f"it takes no wrappers, and env.wrappers has {', '.join(wrappers)}."
    if cfg.action_masks:
        return "it gives no action masks, and env.action_masks is true."
    allowed = NATIVE_KWARGS if engine == "native" else frozenset[str]()
    if is_atari(cfg.id):
        allowed = frozenset(cfg.kwargs)  # checked as a task, for all engines alike
        if importlib.util.find_spec("ale_py") is None:
            return 'ale-py is not installed. Run: pip install "gymnast[atari]".'
        if engine == "envpool" and (reason := envpool_obstacle(atari_task(cfg.kwargs), cfg.max_episode_steps)):
            return reason
    if refused := sorted(set(cfg.kwargs) - allowed):
        return f"it does not take env.kwargs {', '.join(refused)}."
    if engine == "envpool" and importlib.util.find_spec("envpool") is None:
        return 'EnvPool is not installed. Run: pip install "gymnast[envpool]".'
    return None


def _active_wrappers(cfg: EnvConfig, role: Role) -> list[Any]:
    return [spec for spec in cfg.wrappers if role == "train" or not spec.kwargs.get("training_only", False)]


def _check_wrappers(cfg: EnvConfig, role: Role) -> None:
    found = [f"env.wrappers: {problem}" for spec in cfg.wrappers for problem in problems(spec.name, spec.kwargs)]
    if not found and cfg.action_masks:
        found = [
            f"env.wrappers: {spec.name} may execute another action than the chosen one, past env.action_masks; "
            "drop one of the two."
            for spec in _active_wrappers(cfg, role)
            if not WRAPPERS.get(spec.name).keeps_masks
        ]
    if found:
        raise UserError("\n".join(found))


def _title(cfg: EnvConfig, factory: Factory | None) -> str:
    return cfg.id if factory is None else (getattr(factory, "__name__", "") or type(factory).__name__)


__all__ = ["EnvMaker", "Factory", "Role", "choose_engine", "list_env_ids", "make_env", "make_training_vec", "make_vec"]
