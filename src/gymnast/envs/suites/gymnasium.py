"""Any env registered with Gymnasium, by id or by "module:id"."""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
import warnings
from typing import Any

import gymnasium as gym

from gymnast.core.errors import UserError, did_you_mean
from gymnast.envs.suites.atari.task import NAMESPACE as ATARI
from gymnast.envs.suites.atari.task import atari_task, is_atari

# Namespaces whose ids exist only once a module is imported
_REGISTERED_BY = {"gymnast": "gymnast.envs.suites.own.register", "ALE": "ale_py"}
# Which of our extras brings what an env of this package needs
_EXTRAS = {
    "gymnasium.envs.box2d": "box2d",
    "gymnast.envs.suites.own.lunar_lander": "box2d",
    "gymnasium.envs.mujoco": "mujoco",
    "gymnasium.envs.classic_control": "classic",
    "gymnasium.envs.toy_text": "classic",
    "ale_py": "atari",
}


def list_env_ids() -> list[str]:
    """Every id known right now, in alphabetical order; ids of packages that were not imported are not known."""
    for module in _REGISTERED_BY.values():
        if importlib.util.find_spec(module.partition(".")[0]) is not None:
            importlib.import_module(module)
    return sorted(name for name, spec in gym.registry.items() if not _is_old_atari(name, spec))


def find_spec(env_id: str) -> gym.envs.registration.EnvSpec:
    """The registration of an id; a mistake is answered with the nearest ids."""
    module, _, name = env_id.rpartition(":")
    if module:
        _import_module(module, env_id)
    namespace = name.partition("/")[0] if "/" in name else ""
    if namespace in _REGISTERED_BY:
        try:
            importlib.import_module(_REGISTERED_BY[namespace])
        except ModuleNotFoundError as error:
            extra = _EXTRAS[_REGISTERED_BY[namespace]]
            raise UserError(
                f'env.id: {env_id!r} needs a package that is not installed. Run: pip install "gymnast[{extra}]"'
            ) from error
    if name in gym.registry and not _is_old_atari(name, gym.registry[name]):
        return gym.registry[name]
    known = list_env_ids()
    if name in gym.registry:
        title = str(gym.registry[name].kwargs["game"]).title().replace("_", "")
        raise UserError(
            f"env.id: {env_id!r} is an old name. Use {ATARI}{title}-v5: as made here it is what NoFrameskip-v4 was."
        )
    versions = [other for other in known if other.rpartition("-v")[0].lower() == _without_version(name).lower()]
    if versions:
        raise UserError(f"env.id: there is no env {env_id!r}. Registered: {', '.join(versions)}.")
    advice = did_you_mean(name, known) or " See `gymnast envs list`."
    raise UserError(
        f"env.id: there is no env {env_id!r}.{advice} An env of your own package is written as module:{name}."
        if not module
        else f"env.id: the module {module!r} registers no env {name!r}.{advice}"
    )


def make(
    env_id: str,
    kwargs: dict[str, Any] | None = None,
    max_episode_steps: int | None = None,
    render_mode: str | None = None,
    training: bool = False,
) -> gym.Env[Any, Any]:
    """One env with its registered wrappers and its time limit, or `max_episode_steps` instead of that limit.

    `training`: with what its suite does for the learner only, as ending an Atari episode with a life.
    """
    spec = find_spec(env_id)
    kwargs = dict(kwargs or {})
    if is_atari(env_id):
        from gymnast.envs.suites.atari import env as atari

        return atari.make(spec, atari_task(kwargs), max_episode_steps, render_mode, training)
    if render_mode is not None:
        kwargs["render_mode"] = render_mode
    # no banner on standard output, which may be a JSON line's; no window where pictures only are wanted
    os.environ.setdefault("PYGAME_HIDE_SUPPORT_PROMPT", "1")
    if render_mode == "rgb_array" and not os.environ.get("DISPLAY"):
        os.environ.setdefault("SDL_VIDEODRIVER", "dummy")
    try:
        if render_mode is not None and _draws_nothing(spec):
            raise UserError(f"{env_id} draws no pictures: it can be trained and scored, not watched.")
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message=".*is out of date.*")  # an older version is the user's choice
            return gym.make(spec, max_episode_steps=max_episode_steps, disable_env_checker=True, **kwargs)
    except (gym.error.DependencyNotInstalled, ModuleNotFoundError) as error:
        raise UserError(missing_package(env_id, spec, error)) from error
    except gym.error.Error as error:
        raise UserError(f"env.id: {env_id!r} cannot be made: {error}") from error
    except TypeError as error:
        if not kwargs or "argument" not in str(error):
            raise
        reason = str(error).split(" was raised from")[0]
        raise UserError(f"env.kwargs: {env_id!r} does not take {kwargs}: {reason}.") from error
    except (KeyError, ValueError, AssertionError) as error:
        if not kwargs:
            raise
        raise UserError(
            f"env.kwargs: {env_id!r} cannot be made with {kwargs}: {type(error).__name__}: {error}."
        ) from error


def _draws_nothing(spec: gym.envs.registration.EnvSpec) -> bool:
    """Whether an env's class says so itself; one that says nothing may be asked."""
    entry = spec.entry_point
    creator = gym.envs.registration.load_env_creator(entry) if isinstance(entry, str) else entry
    return getattr(creator, "metadata", {}).get("render_modes") == []


def _import_module(module: str, env_id: str) -> None:
    # the command's own path does not include the working directory, where a user's module most likely is
    if os.getcwd() not in sys.path and "" not in sys.path:
        sys.path.append(os.getcwd())
    try:
        importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name is None or not (module == error.name or module.startswith(f"{error.name}.")):
            raise UserError(
                f"env.id: {env_id!r} needs the package {error.name!r}. Run: pip install {error.name}"
            ) from error
        raise UserError(f"env.id: there is no module {module!r} to find {env_id!r} in. Is it installed?") from error


def missing_package(env_id: str, spec: gym.envs.registration.EnvSpec | None, error: Exception) -> str:
    """What to install, where an env needs more than is there."""
    entry = (
        ""
        if spec is None
        else spec.entry_point
        if isinstance(spec.entry_point, str)
        else getattr(spec.entry_point, "__module__", "")
    )
    for package, extra in _EXTRAS.items():
        if entry.startswith(package):
            return f'env.id: {env_id!r} needs a package that is not installed. Run: pip install "gymnast[{extra}]"'
    reason = " ".join(str(error).split())
    return f"env.id: {env_id!r} needs a package that is not installed: {reason}"


def _is_old_atari(name: str, spec: gym.envs.registration.EnvSpec) -> bool:
    """Pong-v0 to PongNoFrameskip-v4, which ALE registers too: bare games without pictures. Here ALE/Pong-v5 is all."""
    return not name.startswith(ATARI) and str(spec.entry_point).startswith("ale_py")


def _without_version(name: str) -> str:
    stem, dash, version = name.rpartition("-v")
    return stem if dash and version.isdigit() else name
