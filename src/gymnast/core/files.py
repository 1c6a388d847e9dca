"""Files: written so that they are either old or new, never half; read so that no file can block or fill the memory."""

from __future__ import annotations

import errno
import json
import math
import os
import shutil
import stat
from pathlib import Path
from typing import Any, BinaryIO

from gymnast.core.errors import UserError
from gymnast.core.text import cut, printable

TEMPORARY = ".tmp"  # how a file that is not finished yet ends; leftovers of a killed process may be deleted at any time


LARGEST = 16 << 20  # bytes of a file that is read whole; those of a run have some kilobytes
FULL = (errno.ENOSPC, errno.EDQUOT)  # of an OSError: it may pass, when somebody makes room
HUGE = 1e150  # numbers beyond it count as infinite: the square of one is no number any more


def open_regular(path: str | Path, follow: bool = False) -> BinaryIO:
    """For reading. A FIFO would block, a device never end; a link in a run's folder could lead to any file of this
    machine: only one that a user names is to `follow`."""
    handle = _open(path, os.O_RDONLY | os.O_CLOEXEC | (0 if follow else os.O_NOFOLLOW))
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise OSError(errno.EINVAL, "it is not a regular file", str(path))
    return open(handle, "rb")


def open_to_append(path: str | Path) -> BinaryIO:
    """Each write goes to the system as it is. A FIFO that nobody reads is an error instead of an endless wait, and
    nothing is written where a link leads."""
    return open(path, "ab", buffering=0, opener=lambda name, flags: _open(name, flags | os.O_NOFOLLOW))


def _open(path: str | Path, flags: int) -> int:
    try:
        return os.open(path, flags | os.O_NONBLOCK, 0o666)
    except OSError as error:
        if error.errno == errno.ELOOP and os.path.islink(path):
            raise OSError(errno.ELOOP, "it is a link, and links are not followed", str(path)) from None
        raise


def read_bytes(path: str | Path, most: int = LARGEST, follow: bool = False) -> bytes:
    """All of a file; OSError where it is too large to be one of ours."""
    with open_regular(path, follow) as file:
        data = file.read(most + 1)
    if len(data) > most:
        raise OSError(errno.EFBIG, f"it has more than {most >> 20} MB", str(path))
    return data


def copy_file(path: Path, into: Path) -> None:
    """A file of a run for another one; OSError where it is a link or none that could be copied."""
    with open_regular(path) as file, open(into, "wb") as copy:
        shutil.copyfileobj(file, copy)


def read_text(path: str | Path) -> str:
    """A UTF-8 file; UserError with the file and the reason where it is none."""
    try:
        return read_bytes(path).decode()
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror}.") from error
    except ValueError as error:  # not UTF-8, or a name with a zero byte
        raise UserError(f"{path} cannot be read: {error}.") from error


def read_json(path: Path) -> Any:
    """A JSON file; UserError with the file and the reason where it cannot be read."""
    try:
        return parse_json(read_text(path))
    except ValueError as error:
        raise UserError(f"{path} cannot be read: {error}.") from error


def parse_json(text: str | bytes) -> Any:
    """JSON with its strings made fit for a terminal; ValueError where it is none."""
    try:
        return _printable(json.loads(text))
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def _printable(value: Any) -> Any:
    if isinstance(value, str):
        return printable(value)
    if isinstance(value, dict):
        return {printable(key): _printable(inner) for key, inner in value.items()}
    return [_printable(inner) for inner in value] if isinstance(value, list) else value


def require_replaceable(path: Path) -> None:
    """FileExistsError where another file would take the place of a device, a FIFO or a folder."""
    if path.exists() and not path.is_file():
        raise FileExistsError(errno.EEXIST, "not a regular file", str(path))


def write_atomic(path: Path, data: bytes) -> None:
    """Replaces `path` in one step. After kill -9 or a full disk the old content is still there, whole.

    One writer per path at a time (a run's lock sees to that), so the temporary name needs no random part and a
    leftover is overwritten by the next write.
    """
    require_replaceable(path)
    temporary = path.with_name(f".{path.name}{TEMPORARY}")
    try:
        with open(temporary, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except OSError as error:
        temporary.unlink(missing_ok=True)  # a full disk must not stay full because of us
        error.filename = str(path)  # errors of write() name no file
        raise
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Makes a rename in `folder` survive a power cut."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def number_to_json(value: float) -> int | float | str:
    """JSON knows no NaN and no infinity: they are the strings "NaN", "Infinity", "-Infinity". 5.0 is written as 5."""
    value = float(value)
    if math.isfinite(value):
        return int(value) if value.is_integer() and abs(value) < 2**53 else value
    if math.isnan(value):
        return "NaN"
    return "Infinity" if value > 0 else "-Infinity"


def number_from_json(value: Any) -> float:
    """ValueError for what is no number. One that arithmetic cannot take is infinite."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise ValueError(f"{cut(repr(value))} is not a number")
    try:
        number = float(value)
    except OverflowError:  # a whole number: no text overflows
        number = -math.inf if str(value).startswith("-") else math.inf
    return math.copysign(math.inf, number) if abs(number) > HUGE else number


def numbers_to_json(values: Any) -> Any:
    """Any nest of dicts and lists with its floats made fit for JSON."""
    if isinstance(values, float):
        return number_to_json(values)
    if isinstance(values, dict):
        return {key: numbers_to_json(value) for key, value in values.items()}
    if isinstance(values, (list, tuple)):
        return [numbers_to_json(value) for value in values]
    return values


def write_json(path: Path, data: dict[str, Any]) -> None:
    text = json.dumps(numbers_to_json(data), indent=2, ensure_ascii=False, allow_nan=False)
    write_atomic(path, (text + "\n").encode())
