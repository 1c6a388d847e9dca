"""The command in a process of its own, forked from one that has imported everything: the same command without the
seconds that torch takes to import. How a command starts from nothing is tested elsewhere, by processes that do.

A server waits for a line on its standard input: a command to start, whose process id it prints, or a process id to wait
for, whose exit code it prints. It imports and does nothing else, so that what is forked is as good as new.
"""

from __future__ import annotations

import gc
import io
import json
import os
import runpy
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import NoReturn

ROOT = Path(__file__).resolve().parents[1]  # `tests.envs_for_tests` is importable from here
IMPORTED = ("gymnast.cli", "gymnast.verbs.train", "gymnast.training.loop", "gymnast.verbs.eval", "gymnasium", "torch")


class Warm:
    """The server; `prefix` is a program that starts it, as `setpriv` is one."""

    def __init__(self, *prefix: str) -> None:
        self._command = [*prefix, sys.executable, "-m", "tests.warm"]
        self._server: subprocess.Popen[str] | None = None

    def run(
        self, args: Sequence[str | Path], env: Mapping[str, str] | None = None, folder: Path = ROOT, both: bool = False
    ) -> subprocess.CompletedProcess[str]:
        """`gymnast ARGS`; `both`: standard error goes where standard output goes."""
        return self.run_all([args], env, folder, both)[0]

    def run_all(
        self,
        commands: Sequence[Sequence[str | Path]],
        env: Mapping[str, str] | None = None,
        folder: Path = ROOT,
        both: bool = False,
    ) -> list[subprocess.CompletedProcess[str]]:
        """All at once."""
        started: dict[int, list[str]] = {}
        with tempfile.TemporaryDirectory() as name:
            try:
                for number, args in enumerate(commands):
                    out = str(Path(name, f"out{number}"))
                    streams = [out, out if both else str(Path(name, f"err{number}"))]
                    words, environment = list(map(str, args)), dict(os.environ if env is None else env)
                    pid = self._ask({"args": words, "env": environment, "folder": str(folder), "streams": streams})
                    started[pid] = streams
                codes = [self._ask(pid) for pid in started]
            except BaseException:  # a test whose time is up: nothing of it may go on
                for pid in started:
                    with suppress(ProcessLookupError):
                        os.kill(pid, 9)
                self._server = None
                raise
            said = [[Path(path).read_text() for path in streams] for streams in started.values()]
        return [
            subprocess.CompletedProcess(list(args), code, out, "" if both else err)
            for args, code, (out, err) in zip(commands, codes, said, strict=True)
        ]

    def _ask(self, what: object) -> int:
        if self._server is None:
            pipe = subprocess.PIPE
            alone = {**os.environ, "OMP_NUM_THREADS": "1"}  # threads of several tests would wait for each other
            self._server = subprocess.Popen(self._command, cwd=ROOT, env=alone, stdin=pipe, stdout=pipe, text=True)
        assert self._server.stdin is not None
        assert self._server.stdout is not None
        print(json.dumps(what), file=self._server.stdin, flush=True)
        return int(self._server.stdout.readline())


warm = Warm()  # ends with this process, which has the other end of its standard input


def serve() -> None:
    for module in IMPORTED:
        import_module(module)
    gc.freeze()
    while line := sys.stdin.readline():
        asked = json.loads(line)
        if isinstance(asked, int):
            answer = os.waitstatus_to_exitcode(os.waitpid(asked, 0)[1])
        elif (answer := os.fork()) == 0:
            become(**asked)
        print(answer, flush=True)


def become(args: list[str], env: dict[str, str], folder: str, streams: list[str]) -> NoReturn:
    """What `python -m gymnast ARGS` is after its imports."""
    for stream, path in enumerate((os.devnull, *streams)):
        opened = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND)
        os.dup2(opened, stream)
        os.close(opened)
    os.environ.clear()
    os.environ.update(env)
    os.chdir(folder)
    sys.path[0] = folder
    sys.argv = ["gymnast", *args]
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(write_through="PYTHONUNBUFFERED" in env)
    runpy.run_module("gymnast", run_name="__main__", alter_sys=True)
    raise AssertionError("the command ends its process")


if __name__ == "__main__":
    serve()
