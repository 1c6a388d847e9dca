"""Runs jobs on Modal, through its own client: a deployed function, spawned for each job, and a volume for its files."""

from __future__ import annotations

import io
import json
import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from gymnast.core.errors import UserError, package_problem
from gymnast.jobs.mirror import FIRST, GROWING, Change, Known, Stamp, apply, begin_of
from gymnast.jobs.pool import ENDS
from gymnast.jobs.worker import Event, Job

if TYPE_CHECKING:
    import modal

LOOK_SECONDS = 3.0  # between two looks at the volume
MOST_CONTAINERS = 20  # that one command keeps busy where its user names no number
KIND, SMALLEST_GPU = "gpu", "T4"  # the label that names the kind of GPU, and the kind where it does not
NO_TOKEN = "Modal has no token on this machine. Run: modal token new"


class ModalKept:
    """A spawned call of our function, by the id of the call and its folder on the volume."""

    def __init__(self, name: str, call: modal.FunctionCall[Any], volume: modal.Volume) -> None:
        self._name, self._call, self._volume = name, call, volume

    def news(self, known: Known, heard: int) -> tuple[list[Event], list[Change]]:
        with _one_line():
            events = [Event(*json.loads(line)) for line in self._read("events.jsonl").splitlines()]
            new = events[heard:]
            changed, complete = self._changes(known)
            if new and new[-1].kind in ENDS and not complete:  # after the end the volume is forgotten: files first
                new.pop()
            if not new and not changed:
                if (why := self._how_it_ended()) is not None:
                    return [Event("error", {"why": why})], []
                time.sleep(LOOK_SECONDS)
        return new, changed

    def _changes(self, known: Known) -> tuple[list[Change], bool]:
        """Checkpoints are read first: rows of metrics are then never older than they are. A commit may come between the
        index and a file: what does not fit is read the next time. And whether all did."""
        if not (index := self._read("index.json")):
            return [], not known
        there: dict[str, Stamp] = {
            path: (stamp[0], stamp[1], stamp[2]) for path, stamp in json.loads(index)["files"].items()
        }
        new = [path for path in there if known.get(path) != there[path]]
        found: list[Change] = []
        for path in sorted(new, key=lambda path: FIRST not in path):
            stamp, data = there[path], self._read(f"files/{path}")
            if path.endswith(GROWING):  # what it has more by now was only appended
                data = data[: stamp[2]]
            if len(data) == stamp[2]:
                begin = begin_of(path, known.get(path), stamp)
                found.append(Change(path, stamp, begin, data[begin:]))
        gone = [Change(path, known[path], 0, None) for path in known.keys() - there.keys()]
        return [*reversed(found), *gone], len(found) == len(new)

    def _read(self, path: str) -> bytes:
        """Nothing of a file that is not there yet."""
        import modal

        try:
            return b"".join(self._volume.read_file(f"{self._name}/{path}"))
        except (FileNotFoundError, modal.exception.NotFoundError):
            return b""

    def _how_it_ended(self) -> str | None:
        """Of a call that has ended without a word: it could not be started, failed, or was cut off."""
        import modal

        try:
            self._call.get(timeout=0)
        except (modal.exception.ConnectionError, modal.exception.ServiceError, modal.exception.AuthError):
            raise  # of the way there: the call itself may go on
        except Exception as error:  # what the function has raised comes here as it was
            if type(error) is TimeoutError and not error.args:  # it goes on
                return None
            return f"Modal: {_first_line(error)}"
        return None  # its last event is on its way

    def stop(self) -> None:
        with _one_line(), self._volume.batch_upload(force=True) as batch:
            batch.put_file(io.BytesIO(b"stop"), f"{self._name}/stop")

    def forget(self) -> None:
        with _one_line():
            self._volume.remove_file(self._name, recursive=True)


class ModalRun:
    """A job that ends with this process."""

    def __init__(self, kept: ModalKept, job: Job) -> None:
        self._kept, self._job, self._closed = kept, job, False

    def __iter__(self) -> Iterator[Event]:
        known: Known = {}
        heard = 0
        while not self._closed:
            events, changed = self._kept.news(known, heard)
            heard += len(events)
            if self._job.folder is not None:
                apply(self._job.folder, changed, known)
            yield from events
            if events and events[-1].kind in ENDS:
                self._kept.forget()
                return
        yield Event("error", {"why": "it was stopped"})

    def close(self) -> None:
        self._closed = True
        self._kept.stop()


class ModalLauncher:
    address = "modal"
    most_cores = 1024  # Modal itself says what is too much

    def __init__(self) -> None:
        if problem := package_problem("modal", "modal"):
            raise UserError(f"--on modal: {problem}")
        from modal.config import config

        if not (config.get("token_id") and config.get("token_secret")):
            raise UserError(f"--on modal: {NO_TOKEN}")
        self._deployed = False

    def run(self, job: Job) -> ModalRun:
        return ModalRun(self.submit(f"job-{secrets.token_hex(8)}", job), job)

    def room(self, cores: int) -> int:
        return MOST_CONTAINERS

    def submit(self, name: str, job: Job) -> ModalKept:
        """The function is deployed before its first call, as it is here. A call survives this process."""
        import modal

        from gymnast.jobs.launchers import modal_app
        from gymnast.jobs.mirror import changes

        options = options_of(job)
        with _one_line():
            volume = _volume()
            with suppress(FileNotFoundError, modal.exception.NotFoundError):  # what an earlier call of the run has left
                volume.remove_file(name, recursive=True)
            files = [] if job.folder is None else changes(job.folder, {})
            with volume.batch_upload(force=True) as batch:
                for change in files:
                    batch.put_file(io.BytesIO(change.data or b""), f"{name}/files/{change.path}")
            if not self._deployed:
                modal_app.app.deploy()
                self._deployed = True
            function = modal.Function.from_name(modal_app.APP, modal_app.FUNCTION).with_options(**options)
            call = function.spawn(
                name=name,
                work=job.work,
                arguments=dict(job.arguments),
                packages=list(job.packages),
                cores=job.cores,
                folder=job.folder.name if job.folder else None,
            )
            with volume.batch_upload(force=True) as batch:
                batch.put_file(io.BytesIO(call.object_id.encode()), f"{name}/call")
            return ModalKept(name, call, volume)

    def find(self, name: str) -> ModalKept | None:
        import modal

        with _one_line():
            volume = _volume()
            try:
                call_id = b"".join(volume.read_file(f"{name}/call")).decode()
            except (FileNotFoundError, modal.exception.NotFoundError):
                return None
            return ModalKept(name, modal.FunctionCall.from_id(call_id), volume)


def options_of(job: Job) -> dict[str, Any]:
    """What a job reserves, in Modal's words."""
    asked = job.resources
    if other := sorted(asked.labels.keys() - {KIND}):
        raise UserError(f"train.resources.labels.{other[0]}: Modal has no such label; it knows {KIND}.")
    options: dict[str, Any] = {"cpu": float(job.cores)}
    if asked.memory:
        options["memory"] = -(-asked.memory // 2**20)  # in MiB
    if asked.gpu:  # no parts of one there
        options["gpu"] = asked.labels.get(KIND, SMALLEST_GPU)
    return options


def _volume() -> modal.Volume:
    import modal

    from gymnast.jobs.launchers import modal_app

    return modal.Volume.from_name(modal_app.VOLUME, create_if_missing=True, version=2)


@contextmanager
def _one_line() -> Iterator[None]:
    import modal

    try:
        yield
    except modal.exception.AuthError as error:
        raise UserError(f"--on modal: {error}") from None
    except modal.exception.Error as error:
        raise UserError(f"--on modal: {_first_line(error)}") from None


def _first_line(error: Exception) -> str:
    said = (str(error).strip().splitlines() or [""])[0]
    return (
        said
        if type(error).__module__.startswith("modal.") and said
        else f"{type(error).__name__}: {said}".removesuffix(": ")
    )
