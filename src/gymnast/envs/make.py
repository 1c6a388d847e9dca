"""The one place where envs are made, for every verb: suite -> recorder -> forbidden actions -> wrappers -> engine.

Every random number of an episode follows from its seed: those of `np_random` and those that are sampled from spaces.

The engine checks the env's contract on its first steps. A role other than `train` leaves out those wrappers only that
are marked `training_only: true`.
"""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing import parent_process
from typing import TYPE_CHECKING, Any, Literal

import gymnasium as gym

from gymnast.config.schema import EnvConfig, encoder_for
from gymnast.config.tuned import find as find_tuned
from gymnast.core.errors import UserError
from gymnast.core.observations import is_normalizable, is_picture
from gymnast.core.registry import ENGINES
from gymnast.envs import suites, wrappers
from gymnast.envs.engines.given import GivenVector
from gymnast.envs.forbid import Forbid
from gymnast.envs.recorder import Recorder, find_recorder
from gymnast.envs.sampling import seed_spaces
from gymnast.envs.shaping.components import find_shaper
from gymnast.envs.shaping.env import Shaped
from gymnast.envs.shaping.vec import ShapedVecEnv
from gymnast.envs.spaces import ObsLayout, texts_of
from gymnast.envs.types import VecEnv

if TYPE_CHECKING:
    from gymnast.config import RunConfig
    from gymnast.config.schema import WrapperSpec
    from gymnast.envs.suites.base import Suite

Role = Literal["train", "eval", "play"]
Factory = Callable[[], gym.Env[Any, Any]]


@dataclass(frozen=True)
class EnvMaker:
    """Makes one env of a config when called; can be sent to a worker. It is what an engine is asked about."""

    config: EnvConfig
    role: Role
    factory: Factory | None = None
    render_mode: str | None = None

    def __call__(self) -> gym.Env[Any, Any]:
        return make_env(self.config, self.role, self.factory, self.render_mode)

    @property
    def title(self) -> str:
        if self.factory is None:
            return self.config.id
        return getattr(self.factory, "__name__", type(self.factory).__name__)

    @property
    def suite(self) -> Suite:
        return suites.suite_of(self.config.id)

    @property
    def task(self) -> Any:
        """env.kwargs as the suite checks them."""
        return self.suite.task(self.config.kwargs)

    @property
    def wrappers(self) -> list[WrapperSpec]:
        return _active_wrappers(self.config, self.role)

    @property
    def one_per_process(self) -> bool:
        return self.factory is None and self.suite.one_per_process


def make_env(
    cfg: EnvConfig, role: Role = "play", factory: Factory | None = None, render_mode: str | None = None
) -> gym.Env[Any, Any]:
    """One env with its recorder and wrappers, as Gymnasium knows envs: nothing resets it but its user.

    With a factory, `env.max_episode_steps` is a limit on top of whatever the env has already.
    """
    _check_wrappers(cfg, role)
    wanted = cfg.max_episode_steps
    if factory is None:
        env = suites.make(cfg.id, cfg.kwargs, wanted, render_mode, training=role == "train")
    else:
        env = factory()
        if not isinstance(env, gym.Env):
            raise UserError(f"the env factory returned {type(env).__name__}, not a gymnasium.Env.")
        env = gym.wrappers.TimeLimit(env, wanted) if wanted is not None else env
    env = env if find_recorder(env) else Recorder(env)  # a suite may have put it further down
    _check_spaces(env)
    if factory is None and cfg.shaping and suites.suite_of(cfg.id).shaping_parts(cfg.id, cfg.kwargs):
        env = Shaped(env, cfg.shaping, role == "train")
    env = Forbid(env, cfg) if cfg.forbid else env
    for spec in _active_wrappers(cfg, role):
        env = wrappers.wrap(env, spec.name, spec.kwargs)
    _accept_options(env)
    env = _without_texts(env)
    _close_in_any_case(env)
    seed_spaces(env)
    return env


def _without_texts(env: gym.Env[Any, Any]) -> gym.Env[Any, Any]:
    """Text is left out of a Dict observation, where something else is in it."""
    texts = texts_of(env.observation_space)
    if not texts or len(texts) == len(env.observation_space):  # type: ignore[arg-type]
        return env
    if parent_process() is None:  # workers say nothing
        names = ", ".join(map(repr, texts))
        warnings.warn(f"the observation's {names} is text, which is not learned from: left out.", stacklevel=2)
    return wrappers.wrap(env, "observation_keys", {"drop": texts})


def _check_spaces(env: gym.Env[Any, Any]) -> None:
    for name in ("observation_space", "action_space"):
        if not isinstance(space := getattr(env, name, None), gym.Space):
            raise UserError(
                f"env.id: {type(env.unwrapped).__name__} has {'no' if space is None else f'{space!r} for'} {name}: set "
                f"self.{name} to one of gymnasium.spaces in its __init__."
            )


def _accept_options(env: gym.Env[Any, Any]) -> None:
    """Every layer is called by reset(seed=..., options=...); one without options gets none: nobody sends any."""
    layer: Any = env
    while True:
        parameters = inspect.signature(layer.reset).parameters
        if not any(one.kind is one.VAR_KEYWORD for one in parameters.values()):
            if "seed" not in parameters:
                raise UserError(
                    f"env.id: {type(layer).__name__}.reset takes no seed, so that no episode could be repeated: write "
                    "def reset(self, *, seed=None, options=None) and return observation, info."
                )
            if "options" not in parameters:
                layer.reset = _without_options(layer.reset)
        if not isinstance(layer, gym.Wrapper):
            return
        layer = layer.env


def _without_options(reset: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *, seed=None, options=None: reset(seed=seed)


def _close_in_any_case(env: gym.Env[Any, Any]) -> None:
    """An env that cannot be closed is done with all the same: its error is a warning."""
    outermost: Any = env
    close = outermost.close

    def close_or_warn() -> None:
        try:
            close()
        except (Exception, SystemExit) as error:  # foreign code
            name = env.spec.id if env.spec else type(env.unwrapped).__name__
            warnings.warn(f"{name}: close() failed: {suites.raised(error)}", stacklevel=1)  # once, whoever closes it

    outermost.close = close_or_warn


def space_defaults(cfg: EnvConfig) -> dict[str, Any]:
    """Settings that the defaults for any env leave to its spaces."""
    env = make_env(cfg)
    try:
        leaves = list(ObsLayout(env.observation_space).obs_space.values())
        continuous = isinstance(env.action_space, gym.spaces.Box)
    finally:
        env.close()
    found: dict[str, Any] = {
        "agent.normalize_obs": any(map(is_normalizable, leaves)),
        "algo.ent_coef": 0.0 if continuous else 0.01,
    }
    pictures = [leaf.shape or () for leaf in leaves if is_picture(leaf)]
    encoder = encoder_for(min((min(shape[1:]) for shape in pictures), default=0))
    if encoder == "mlp":
        return found
    found |= {"agent.encoder": encoder, "agent.shared": True}  # one network for pictures is costly enough
    return found if len(pictures) < len(leaves) else found | {"agent.hidden": []}


def is_endless(cfg: EnvConfig, factory: Factory | None) -> bool:
    """Whether no time limit ends an episode; of an env that is not made from an id nobody knows."""
    if factory is not None or cfg.max_episode_steps or suites.suite_of(cfg.id).is_limited:
        return False
    wrapped = any(spec.name == "time_limit" for spec in cfg.wrappers)
    return not wrapped and suites.find_spec(cfg.id).max_episode_steps is None


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
    if isinstance(factory, GivenVector):  # a vector already: there is nothing to choose
        return factory.open(cfg)
    name, _ = choose_engine(cfg, n_envs, factory, role, render_mode)
    return ENGINES.get(name).open(EnvMaker(cfg, role, factory, render_mode), n_envs, threads)


def make_training_vec(config: RunConfig, factory: Factory | None = None) -> VecEnv:
    """What training steps: the only envs whose rewards are shaped."""
    cfg = config.env
    shaper = find_shaper(cfg.id) if cfg.shaping else None
    for spec in cfg.wrappers:
        if shaper is not None and not wrappers.keeps_numbers(spec.name):
            raise UserError(
                f"env.shaping: reads the env's own numbers, which the wrapper {spec.name} replaces; drop one of them."
            )
    central = config.train.layout == "central"
    env = make_actors(config, factory) if central else make_vec(cfg, cfg.n_envs, "train", factory)
    if shaper is None:  # not shaped, or by the env itself
        return env
    return ShapedVecEnv(env, cfg.id, shaper, cfg.shaping, config.algo.gamma)


def make_actors(config: RunConfig, factory: Factory | None) -> VecEnv:
    """The envs of training in actors, each with a part of them."""
    from gymnast.envs.actors.pool import open_actors

    cfg, central = config.env, config.train.central
    if isinstance(factory, GivenVector):
        raise UserError("train.layout: central makes its own envs, and this one is a vector already. Use lockstep.")
    _check_wrappers(cfg, "train")
    return open_actors(EnvMaker(cfg, "train", factory), central, cfg.n_envs)


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
    _check_wrappers(cfg, role)
    maker = EnvMaker(cfg, role, factory, render_mode)

    def is_able(engine: str) -> bool:
        return ENGINES.get(engine).obstacle(maker) is None

    if cfg.engine != "auto":
        if reason := ENGINES.get(cfg.engine).obstacle(maker):
            able = " or ".join(filter(is_able, ENGINES.names()))
            raise UserError(f"env.engine: {cfg.engine} cannot run this env: {reason} Use auto or {able}.")
        return cfg.engine, "named in the config"
    found = find_tuned(cfg.id) if use_tuned and factory is None else None
    if found is not None and (fastest := found.engines.get(n_envs)) in ENGINES.names() and is_able(fastest):
        return fastest, "measured to be the fastest on this machine (`gymnast speed --tune`)"
    for name in _by_priority():
        if (why := ENGINES.get(name).pays(maker, n_envs)) and is_able(name):
            return name, why
    raise UserError(f"env.id: no engine can run {cfg.id}.")


def missed_engine(cfg: EnvConfig, n_envs: int) -> str | None:
    """The faster engine that this id has as long as nothing about the env is changed, and what to try instead; None: it
    is the one that is taken, or one was named."""
    maker, plain = EnvMaker(cfg, "train"), EnvMaker(EnvConfig(id=cfg.id), "train")
    usual = (name for name in _by_priority() if ENGINES.get(name).pays(plain, n_envs))
    best = next((name for name in usual if ENGINES.get(name).obstacle(plain) is None), None)
    if best is None or cfg.engine != "auto" or not ENGINES.get(best).pays(maker, n_envs):
        return None
    obstacle = ENGINES.get(best).obstacle(maker)
    return obstacle and f"{best} would be faster, but {obstacle} On several cores env.engine=process may be faster too."


def exact_engine(cfg: EnvConfig, n_envs: int, instead_of: str) -> str | None:
    """What `auto` would take of the engines that resume these envs exactly; `instead_of` does not."""
    maker = EnvMaker(cfg, "train")
    for name in _by_priority():
        engine = ENGINES.get(name)
        is_exact = getattr(engine, "exact_resume", False) and name not in instead_of.split("+")
        if is_exact and engine.pays(maker, n_envs) and not engine.obstacle(maker):
            return name
    return None


def _by_priority() -> list[str]:
    return sorted(ENGINES.names(), key=lambda name: -ENGINES.get(name).priority)


def _active_wrappers(cfg: EnvConfig, role: Role) -> list[WrapperSpec]:
    return [spec for spec in cfg.wrappers if role == "train" or not spec.kwargs.get(wrappers.TRAINING_ONLY, False)]


def _check_wrappers(cfg: EnvConfig, role: Role) -> None:
    each = (wrappers.problems(spec.name, spec.kwargs) for spec in cfg.wrappers)
    found = [f"env.wrappers: {problem}" for some in each for problem in some]
    if not found and cfg.action_masks:
        found = [
            f"env.wrappers: {spec.name} may execute another action than the chosen one, past env.action_masks; "
            "drop one of the two."
            for spec in _active_wrappers(cfg, role)
            if not wrappers.keeps_masks(spec.name)
        ]
    if cfg.forbid and any(spec.name == "action_remap" for spec in cfg.wrappers):
        found.append("env.forbid: the wrapper action_remap lists the agent's actions itself. Drop one of the two.")
    if found:
        raise UserError("\n".join(found))
