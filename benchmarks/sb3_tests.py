"""How many of stable-baselines3's own tests of PPO and A2C pass with Gymnast's models in their place.

`python benchmarks/sb3_tests.py CHECKOUT`: a checkout of https://github.com/DLR-RM/stable-baselines3, whose tests run
against the package beside them. `--only EXPRESSION` is pytest's -k, `--control` replaces nothing, which shows
the tests that fail on this machine whatever is tested, `--out FILE` writes a line for each test.

`PPO`, `A2C`, `make_vec_env` and `evaluate_policy` are Gymnast's; everything else stays stable-baselines3's: callbacks,
wrappers, vectors of envs, loggers, buffers. A test is judged if it calls one of the four and makes no off-policy model.

passed   as it is
refused  by a message of Gymnast's own, which names what is not supported
differs  an assertion of the test fails: no error, another behaviour
raw      any other exception
"""

from __future__ import annotations

import argparse
import collections
import functools
import importlib
import inspect
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

OFF_POLICY = {"DDPG", "DQN", "SAC", "TD3"}
NAMES = {"PPO", "A2C", "make_vec_env", "evaluate_policy"}
OUTCOMES = ("passed", "refused", "differs", "raw")
LIMIT = 120  # seconds a test


class Judge:
    """A pytest plugin: replaces names, and sorts tests by how they end."""

    def __init__(self, control: bool) -> None:
        self.control = control
        self.calls: set[str] = set()  # what the test under way has called: "ours", "off-policy"
        self.outcomes: dict[str, tuple[str, str]] = {}
        self._refusals: tuple[type[BaseException], ...] = ()
        self._functions: dict[str, Callable[..., Any]] = {}

    def replace(self) -> None:
        """Gymnast's names in stable-baselines3's modules, before a test imports them."""
        from gymnast import api
        from gymnast.api.model import Model, model_class
        from gymnast.core.errors import UserError

        self._refusals = (UserError,)
        sb3 = importlib.import_module("stable_baselines3")
        env_util, evaluation, off_policy, on_policy = (
            importlib.import_module(f"stable_baselines3.common.{name}")
            for name in ("env_util", "evaluation", "off_policy_algorithm", "on_policy_algorithm")
        )
        self._watch(off_policy.OffPolicyAlgorithm, "__init__", "off-policy")
        if self.control:
            self._watch(on_policy.OnPolicyAlgorithm, "__init__", "ours")
            self._functions = {
                "make_vec_env": env_util.make_vec_env,
                "evaluate_policy": evaluation.evaluate_policy,
            }
            return
        self._watch(Model, "__init__", "ours")
        for name in ("PPO", "A2C"):
            setattr(sb3, name, model_class(name.lower()))
        self._functions = {name: getattr(api, name) for name in ("make_vec_env", "evaluate_policy")}

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Functions are replaced in the tests alone: its own make_atari_env and EvalCallback call its. Tests that can
        reach none of the four names are not run."""
        items[:] = filter(concerns, items)
        for module in {item.getparent(pytest.Module).obj for item in items}:  # type: ignore[union-attr]
            for name in vars(module).keys() & self._functions:
                setattr(module, name, self._functions[name])
                self._watch(module, name, "ours")

    def _watch(self, owner: Any, name: str, kind: str) -> None:
        function: Callable[..., Any] = getattr(owner, name)

        @functools.wraps(function)
        def watched(*args: Any, **kwargs: Any) -> Any:
            self.calls.add(kind)
            return function(*args, **kwargs)

        setattr(owner, name, watched)

    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        self.calls.clear()
        if OFF_POLICY & {one.__name__ for one in parameters_of(item).values() if inspect.isclass(one)}:
            pytest.skip("off-policy")

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_makereport(self, item: pytest.Item, call: pytest.CallInfo[None]) -> Any:
        report = (yield).get_result()
        if report.when != "call" or report.skipped or "ours" not in self.calls or "off-policy" in self.calls:
            return
        self.outcomes[item.nodeid] = ("passed", "") if call.excinfo is None else self._failure(call.excinfo)

    def _failure(self, error: pytest.ExceptionInfo[BaseException]) -> tuple[str, str]:
        said = f"{error.typename}: {error.value}".partition("\n")[0]
        if error.errisinstance(self._refusals):
            return "refused", said
        last = error.traceback[-1]
        is_assertion = error.errisinstance((AssertionError, pytest.fail.Exception))
        return "differs" if is_assertion else "raw", f"{said} ({Path(last.path).name}:{last.lineno + 1})"


def parameters_of(item: Any) -> dict[str, Any]:
    found: dict[str, Any] = getattr(getattr(item, "callspec", None), "params", {})
    return found


def concerns(item: Any) -> bool:
    """Whether a test's code, its fixtures or functions that they call name one of the four."""
    if any(inspect.isclass(one) and one.__name__ in NAMES for one in parameters_of(item).values()):
        return True
    fixtures = [each.func for all_ in item._fixtureinfo.name2fixturedefs.values() for each in all_]
    waiting, seen = [item.function, *fixtures], set()
    while waiting:
        function = inspect.unwrap(waiting.pop())
        codes = [function.__code__] if hasattr(function, "__code__") else []
        while codes:
            code = codes.pop()
            if NAMES & set(code.co_names):
                return True
            codes += [one for one in code.co_consts if inspect.iscode(one)]
            known = (getattr(function, "__globals__", {}).get(name) for name in code.co_names)
            for one in known:
                if isinstance(one, dict) and any(f".{name}'" in repr(one) for name in NAMES):  # classes by name
                    return True
                if inspect.isfunction(one) and one not in seen and one.__module__ == item.module.__name__:
                    seen.add(one)
                    waiting.append(one)
    return False


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("checkout", type=Path)
    parser.add_argument("--only", default="")
    parser.add_argument("--control", action="store_true")
    parser.add_argument("--out", type=Path)
    asked = parser.parse_args()
    out = asked.out and asked.out.resolve()
    os.chdir(asked.checkout)  # tests write into folders beside them
    sys.path.insert(0, str(Path.cwd()))
    judge = Judge(asked.control)
    judge.replace()
    options = ["-q", "--no-header", "--tb=no", "-p", "no:cacheprovider", "-W", "ignore", f"--timeout={LIMIT}"]
    options += ["--ignore", "tests/test_her.py"]  # a replay buffer for off-policy algorithms
    pytest.main([*options, *(["-k", asked.only] if asked.only else []), "tests"], plugins=[judge])
    lines = [f"{outcome:<8} {name}  {said}".rstrip() for name, (outcome, said) in sorted(judge.outcomes.items())]
    if out:
        out.write_text("\n".join(lines) + "\n", encoding="utf-8")
    counts = collections.Counter(outcome for outcome, _ in judge.outcomes.values())
    print(f"\n{len(judge.outcomes)} tests of PPO and A2C: " + ", ".join(f"{counts[one]} {one}" for one in OUTCOMES))


if __name__ == "__main__":
    main()
