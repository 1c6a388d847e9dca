"""The calls of Modal's client that we use, without Modal: a call is made only if the real one would take its arguments.

A call of a function runs `.local()` in a thread; a volume is a folder that others see as it was at the last commit.
"""

from __future__ import annotations

import inspect
import shutil
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import modal


def takes(real: Callable[..., Any], *args: Any, **kwargs: Any) -> None:
    """TypeError where the real call has no such arguments."""
    bound = inspect.signature(real).bind(*args, **kwargs)
    for name, value in bound.arguments.items():
        annotation = str(inspect.signature(real).parameters[name].annotation)
        if value is not None and annotation in ("str", "int", "float", "bool"):
            problem = f"{real.__qualname__}: {name} must be {annotation}, not {value!r}"
            assert type(value).__name__ == annotation, problem


class DoubleVolume:
    """`work` is what a container sees, `seen` what everybody else does."""

    def __init__(self, work: Path, seen: Path) -> None:
        self.work, self.seen = work, seen
        self.commits = 0
        self._moment = threading.Lock()  # nobody sees half of a commit
        for folder in (work, seen):
            folder.mkdir(parents=True, exist_ok=True)

    def commit(self) -> None:
        takes(modal.Volume.commit, None)
        self.commits += 1
        with self._moment:
            shutil.copytree(self.work, self.seen, dirs_exist_ok=True)

    def reload(self) -> None:
        takes(modal.Volume.reload, None)
        shutil.copytree(self.seen, self.work, dirs_exist_ok=True)

    def read_file(self, path: str) -> Iterator[bytes]:
        takes(modal.Volume.read_file, None, path)
        with self._moment:
            if not (self.seen / path).is_file():
                raise FileNotFoundError(path)
            data = (self.seen / path).read_bytes()
        yield data

    def remove_file(self, path: str, recursive: bool = False) -> None:
        takes(modal.Volume.remove_file, None, path, recursive=recursive)
        with self._moment:
            shutil.rmtree(self.seen / path)
            shutil.rmtree(self.work / path, ignore_errors=True)  # as the next container will see it

    @contextmanager
    def batch_upload(self, force: bool = False) -> Iterator[Any]:
        takes(modal.Volume.batch_upload, None, force=force)
        from modal.volume import AbstractVolumeUploadContextManager

        volume = self

        class Batch:
            def put_file(self, file: BinaryIO, path: str) -> None:
                takes(AbstractVolumeUploadContextManager.put_file, None, file, path)
                target = volume.seen / path
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(file.read())

        yield Batch()


class DoubleCall:
    def __init__(self, object_id: str, run: Callable[[], None]) -> None:
        self.object_id = object_id
        self.error: Exception | None = None
        self.thread = threading.Thread(target=self._run, args=(run,), daemon=True)
        self.thread.start()

    def _run(self, run: Callable[[], None]) -> None:
        try:
            run()
        except Exception as error:  # as of a function that fails elsewhere
            self.error = error

    def get(self, timeout: float | None = None) -> None:
        takes(modal.FunctionCall.get, None, timeout=timeout)
        self.thread.join(timeout)
        if self.thread.is_alive():
            raise TimeoutError
        if self.error is not None:  # Modal raises what the function has raised
            raise self.error


class DoubleModal:
    """What of the module `modal` is replaced."""

    def __init__(self, volume: DoubleVolume, function: Any) -> None:
        self.volume, self.function = volume, function
        self.calls: dict[str, DoubleCall] = {}
        self.options: list[dict[str, Any]] = []
        self.deployed: list[str | None] = []

    def deploy(self) -> None:
        takes(modal.App.deploy, None)
        self.deployed.append(modal.App.__name__)

    def from_name(self, app: str, name: str) -> DoubleModal:
        takes(modal.Function.from_name, app, name)
        return self

    def with_options(self, **options: Any) -> DoubleModal:
        takes(modal.Function.with_options, None, **options)
        self.options.append(options)
        return self

    def spawn(self, **arguments: Any) -> DoubleCall:
        call = DoubleCall(f"fc-{len(self.calls)}", lambda: self.function.local(**arguments))
        self.calls[call.object_id] = call
        return call

    def volume_from_name(self, name: str, *, create_if_missing: bool = False, version: Any = None) -> DoubleVolume:
        takes(modal.Volume.from_name, name, create_if_missing=create_if_missing, version=version)
        return self.volume

    def call_from_id(self, call_id: str) -> DoubleCall:
        takes(modal.FunctionCall.from_id, call_id)
        return self.calls[call_id]
