"""Pictures as a page gets them: a header of 32 bytes, then PNG, JPEG or plain bytes."""

from __future__ import annotations

import io
import struct
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from gymnast.envs.types import Picture

HEADER = struct.Struct(">4sBBHIIIIHHHH")
MAGIC = b"GYM1"
FRAME, INPUT, SALIENCY, ACTIVATION, FILTER = range(5)
JPEG, PNG, GREY, RGB = range(4)
SMALL = 70_000  # pixels up to which a picture is sent without loss: Atari's screens, boards, frozen lakes


def encoded(picture: Picture) -> tuple[int, bytes]:
    """Codec and data. Small pictures are games of pixels, in which one pixel may be the ball."""
    from PIL import Image

    data = io.BytesIO()
    image = Image.fromarray(picture)
    if picture.shape[0] * picture.shape[1] <= SMALL:
        image.save(data, "PNG", compress_level=1)
        return PNG, data.getvalue()
    image.save(data, "JPEG", quality=90, subsampling=0)
    return JPEG, data.getvalue()


def packet(
    kind: int,
    codec: int,
    size: tuple[int, int],
    data: bytes,
    *,
    session: int,
    episode: int,
    t: int,
    seq: int,
    index: int = 0,
    layer: int = 0,
) -> bytes:
    """`size`: height and width."""
    height, width = size
    return HEADER.pack(MAGIC, kind, codec, 0, session, episode, t, seq & 0xFFFFFFFF, width, height, index, layer) + data


def grey(tile: NDArray[Any], low: float | None = None, high: float | None = None) -> bytes:
    """Numbers as brightnesses; bytes as they are."""
    if tile.dtype == np.uint8 and low is None:
        return np.ascontiguousarray(tile).tobytes()
    numbers = np.nan_to_num(tile.astype(np.float64))
    bottom = float(numbers.min()) if low is None else low
    top = float(numbers.max()) if high is None else high
    scaled = (numbers - bottom) / (top - bottom) * 255 if top > bottom else np.zeros_like(numbers)
    return np.clip(np.rint(scaled), 0, 255).astype(np.uint8).tobytes()
