"""Envs by id, whatever their suite: which suite an id belongs to, whether it exists, and one env of it."""

from __future__ import annotations

import importlib
import os
import sys
import traceback
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from gymnast.config.files import preset_ids
from gymnast.core.errors import UserError, did_you_mean, not_installed
from gymnast.core.registry import SUITES
from gymnast.core.text import cut
from gymnast.core.trust import run_that_holds
from gymnast.envs.suites.foreign import SEVERAL_AGENTS, foreign_advice

if TYPE_CHECKING:
    import gymnasium as gym
    from gymnasium.envs.registration import EnvSpec

    from gymnast.envs.suites.base import Suite

NAMED = 3  # envs of a module that a message names


class UnknownEnv(UserError):
    """An id that nobody has registered."""

    def __init__(self, message: str, versions: Sequence[str] = ()) -> None:
        """`versions`: other versions of it, which are registered."""
        super().__init__(message)
        self.versions = list(versions)


def suite_of(env_id: str) -> Suite:
    """The suite of an id or "module:id": the one whose beginning fits, and the longest of those."""
    name = env_id.rpartition(":")[2]
    return SUITES.get(max((start for start in SUITES.names() if name.startswith(start)), key=len))()


def list_env_ids() -> list[str]:
    """Every id known right now, in alphabetical order; ids of packages that were not imported are not known."""
    import gymnasium as gym

    suites = _all_suites()
    for suite in suites:
        if suite.module is not None and suite.missing is None:
            importlib.import_module(suite.module)
    return sorted(name for name, spec in gym.registry.items() if not any(suite.new_name(spec) for suite in suites))


def find_spec(env_id: str) -> EnvSpec:
    """The registration of an id; a mistake is answered with the nearest ids."""
    import gymnasium as gym

    module, _, name = env_id.rpartition(":")
    if file := next((word for word in (module, name) if word.endswith(".py")), None):
        raise UserError(file_problem(file, env_id))
    if module:
        import_users_module(module, f"env.id: {env_id!r}", name)
    suite = suite_of(env_id)
    if suite.module is not None:
        if suite.missing:
            raise UserError(missing_package(env_id, None, suite.missing))
        importlib.import_module(suite.module)
    known = [] if name in gym.registry else list_env_ids()  # which makes the suites register theirs
    if spec := gym.registry.get(name):
        if new_name := next(filter(None, (suite.new_name(spec) for suite in _all_suites())), None):
            raise UserError(f"env.id: {env_id!r} is an old name. Use {new_name}")
        return spec
    versions = [other for other in known if other.rpartition("-v")[0].lower() == _without_version(name).lower()]
    if versions:
        raise UnknownEnv(f"env.id: there is no env {env_id!r}. Registered: {', '.join(versions)}.", versions)
    if advice := foreign_advice(name, module):
        raise UnknownEnv(f"env.id: there is no env {env_id!r}. {advice}")
    advice = did_you_mean(name, {*known, *preset_ids()}) or " See `gymnast envs list`."
    raise UnknownEnv(
        f"env.id: there is no env {env_id!r}.{advice} An env of your own module is written as module:{name}."
        if not module
        else f"env.id: the module {module!r} registers no env {name!r}.{advice}"
    )


def file_problem(file: str, env_id: str) -> str:
    """A Python file where an env is asked for: the envs that its module registers, by the names they have here."""
    import gymnasium as gym

    path, here = Path(file).resolve(), Path.cwd()
    if not path.is_file():
        return f"env.id: {env_id!r}: there is no file {file!r}. Envs of your own module are written as module:Env-v0."
    if not path.is_relative_to(here):
        return (
            f"env.id: {env_id!r} is a Python file. In the folder {path.parent} name the env in it: {path.stem}:Env-v0."
        )
    module = ".".join(path.relative_to(here).with_suffix("").parts)
    before = set(gym.registry)
    import_users_module(module, f"env.id: {env_id!r}")
    registered = [
        name
        for name, spec in gym.registry.items()
        if name not in before or str(spec.entry_point).startswith(f"{module}:")
    ]
    names = " or ".join(f"{module}:{name}" for name in registered[:NAMED])
    more = f" or {len(registered) - NAMED} more" if len(registered) > NAMED else ""
    found = f"{names}{more}" if names else f"{module}:Env-v0, with the id that it registers"
    return f"env.id: {env_id!r} is a Python file. Name the env in it: {found}."


def make(
    env_id: str,
    kwargs: Mapping[str, Any] | None = None,
    max_episode_steps: int | None = None,
    render_mode: str | None = None,
    training: bool = False,
) -> gym.Env[Any, Any]:
    """One env with its registered wrappers and its time limit, or `max_episode_steps` instead of that limit.

    `training`: with what its suite does for the learner only, as ending an Atari episode with a life.
    """
    import gymnasium as gym

    spec, kwargs = find_spec(env_id), dict(kwargs or {})
    suite = suite_of(env_id)  # only now: a user's module may have brought its own
    try:
        return suite.make(spec, suite.task(kwargs), max_episode_steps, render_mode, training)
    except UserError:
        raise
    except (gym.error.DependencyNotInstalled, ModuleNotFoundError) as error:
        raise UserError(missing_package(env_id, spec, error)) from error
    except gym.error.Error as error:
        raise UserError(f"env.id: {env_id!r} cannot be made: {error}") from error
    except (Exception, SystemExit) as error:  # an env's constructor is foreign code
        if "must inherit from the gymnasium.Env class" in str(error):
            raise UserError(f"env.id: {env_id!r} is not a gymnasium.Env. {SEVERAL_AGENTS}") from error
        blamed = [key for key in kwargs if _can_be_made(suite, spec, {**kwargs}, key)] or list(kwargs)
        said = ", ".join(f"{key}={cut(repr(kwargs[key]))}" for key in blamed)
        how = f"env.kwargs: {env_id!r} cannot be made with {said}" if kwargs else f"env.id: {env_id!r} cannot be made"
        raise UserError(f"{how}: {raised(error)}.") from error


def _can_be_made(suite: Suite, spec: EnvSpec, kwargs: dict[str, Any], without: str) -> bool:
    del kwargs[without]
    try:
        suite.make(spec, suite.task(kwargs), None, None, False).close()
    except (Exception, SystemExit):  # another argument is wrong as well
        return False
    return True


def missing_package(env_id: str, spec: EnvSpec | None, error: Exception | str) -> str:
    """What to install, where an env needs more than is there."""
    entry = spec.entry_point if spec else ""
    module = entry if isinstance(entry, str) else getattr(entry, "__module__", "")
    if extra := suite_of(env_id).extra_of(module):
        name = getattr(error, "name", None) or "a package that it needs"
        return f"env.id: {env_id!r}: {not_installed(name, extras=[extra])}"
    return f"env.id: {env_id!r}: a package that it needs is not installed: {' '.join(str(error).split())}"


def _all_suites() -> list[Suite]:
    return [SUITES.get(start)() for start in SUITES.names()]


def import_users_module(module: str, what: str, name: str = "") -> ModuleType:
    """A module that the config names; `what` needs it, an env's `name` in it."""
    # the command's own path does not include the working directory, where a user's module most likely is
    if os.getcwd() not in sys.path and "" not in sys.path:
        sys.path.append(os.getcwd())
    if not all(part.isidentifier() for part in module.split(".")):
        raise UserError(f"env.id: {module!r} is not the name of a module. Write module:Env-v0.")
    if (run := run_that_holds(module)) is not None:
        raise UserError(
            f"{what}: the code of {module!r} lies in {run}, among runs, and code from there is never imported. If it "
            "is yours, keep it in a folder of its own."
        )
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name is None or not (module == error.name or module.startswith(f"{error.name}.")):
            raise UserError(f"{what}: {not_installed(error.name or 'a package')}") from error
        advice = foreign_advice(name, module) or "Is it installed?"
        raise UserError(f"{what}: there is no module {module!r}. {advice}") from error
    except (Exception, SystemExit) as error:  # foreign code
        raise UserError(f"{what}: importing {module!r} failed: {raised(error)}.") from error


def raised(error: BaseException) -> str:
    """What foreign code raised, and the line that did, in one line."""
    frames = traceback.extract_tb(error.__traceback__)
    inside = not frames or f"{os.sep}gymnasium{os.sep}" in frames[-1].filename  # nothing that a user could look at
    place = "" if inside else f" ({os.path.relpath(frames[-1].filename)}, line {frames[-1].lineno})"
    text = " ".join(str(error).split(" was raised from")[0].split())  # gymnasium adds how it called
    return f"{type(error).__name__}: {text or 'no message'}{place}"


def _without_version(name: str) -> str:
    stem, dash, version = name.rpartition("-v")
    return stem if dash and version.isdigit() else name
