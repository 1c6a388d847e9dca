"""Pictures to an mp4 that every browser plays: H.264, yuv420p, its index at the front."""

from __future__ import annotations

import os
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from gymnast.core.errors import UserError
from gymnast.core.files import TEMPORARY, require_replaceable

if TYPE_CHECKING:
    from gymnast.envs.types import Picture

QUALITY = {"crf": "23", "preset": "superfast"}


def unfinished(path: Path, pid: int) -> Path:
    """What a video is called while this process makes it; another one may make the same at the same time."""
    return path.with_name(f".{path.name}.{pid}{TEMPORARY}")


class Encoder:
    """Writes under another name; the file appears, whole, when all went well. Height and width must be even."""

    def __init__(self, path: Path, height: int, width: int, fps: float) -> None:
        import av

        self.path = path
        self._temporary = unfinished(path, os.getpid())
        try:
            require_replaceable(path)
            path.parent.mkdir(parents=True, exist_ok=True)
            self._file: Any = av.open(str(self._temporary), "w", format="mp4", options={"movflags": "+faststart"})
        except OSError as error:
            raise UserError(f"cannot write {path}: {error.strerror}.") from error
        self._stream = self._file.add_stream("libx264", rate=Fraction(fps).limit_denominator(1000), options=QUALITY)
        self._stream.height, self._stream.width, self._stream.pix_fmt = height, width, "yuv420p"
        self._stream.codec_context.thread_count = 1  # training has the other cores
        self.frames = 0

    def write(self, picture: Picture) -> None:
        import av

        self._file.mux(self._stream.encode(av.VideoFrame.from_ndarray(picture, format="rgb24")))
        self.frames += 1

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: Any) -> None:
        if error[0] is None:
            self._file.mux(self._stream.encode(None))
        self._file.close()
        if error[0] is None:
            os.replace(self._temporary, self.path)
        else:
            self._temporary.unlink(missing_ok=True)
