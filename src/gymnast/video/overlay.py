"""What is drawn around a picture: a strip below it that stays readable when the video is shown small."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from PIL.Image import Image
    from PIL.ImageDraw import ImageDraw

    from gymnast.envs.types import Box, Picture
    from gymnast.play.episode import Step
    from gymnast.play.step_table import Labels

HEIGHT = 400  # at least; smaller pictures are enlarged. Most envs draw that many rows: to enlarge those takes time
WIDTH = 480  # of the whole, at least: the strip needs it
MOST_WIDTH = 960  # that enlarging leads to: a flat picture stays low
PIXEL_ART = 240  # pictures lower than this are enlarged in whole pixels
MOST_BARS = 18  # Atari's actions; of more, the likeliest
BARS_A_ROW = 6
WIDEST = "-8,888.88"  # of a part of the reward: it has its place whatever it is
GROUND, TEXT, DIM, BAR, CHOSEN = (17, 19, 24), (240, 242, 245), (150, 156, 168), (70, 78, 92), (255, 176, 32)

Bar = tuple[str, str, float, float, bool]  # name, number, begin and end in its track (0 to 1), whether it was chosen


def enlarge(picture: Picture, boxes: Sequence[Box] = ()) -> Image:
    """With boxes around the objects and their names."""
    image = _enlarged(picture)
    if boxes:
        _frame_objects(image, boxes, image.width / picture.shape[1])
    return image


def _frame_objects(image: Image, boxes: Sequence[Box], scale: float) -> None:
    from PIL import ImageDraw

    draw = ImageDraw.Draw(image)
    for box in boxes:
        left, top = box.x * scale - 2, box.y * scale - 2  # around the object, not on it
        right, bottom = (box.x + box.width) * scale + 1, (box.y + box.height) * scale + 1
        draw.rectangle((left, top, right, bottom), outline=CHOSEN)
        anchor = "ld" if left < image.width / 2 else "rd"
        draw.text((left if anchor == "ld" else right, top), box.name, CHOSEN, _font(12), anchor=anchor)


def _enlarged(picture: Picture) -> Image:
    from PIL import Image

    image = Image.fromarray(picture)
    width, height = image.size
    if height < PIXEL_ART:
        factor = max(1, min(math.ceil(HEIGHT / height), MOST_WIDTH // width))
        return image.resize((width * factor, height * factor), Image.Resampling.NEAREST)
    if height < HEIGHT:
        return image.resize((round(width * HEIGHT / height), HEIGHT), Image.Resampling.BILINEAR)
    return image


def bare(step: Step) -> Picture:
    """The picture alone, enlarged, with the even sizes that the encoder needs."""
    image = enlarge(step.picture, step.boxes)
    return _even(image, image.width, image.height)


def annotated(
    step: Step, reward: float, trained: int | None, labels: Labels, parts: Mapping[str, float] | None = None
) -> Picture:
    """The picture with its strip: steps of training and of the episode; the `reward` that led here, return so far,
    value; the named `parts` of the reward so far, where there are any; then every action with its probability. How
    high the strip is depends on names alone, so that it is the same in every frame."""
    from PIL import Image, ImageDraw

    shown = enlarge(step.picture, step.boxes)
    width = max(shown.width, WIDTH)
    size = max(16, round(width / 36))
    part_rows = _rows([f"{name}  {WIDEST}" for name in parts or ()], width - size, round(size * 0.85))
    bar_rows = _bar_rows(labels, width - size, size)
    strip = round(
        size * (3.5 + 1.5 * _count(parts or (), part_rows) + 2.6 * _count(labels.actions[:MOST_BARS], bar_rows))
    )
    canvas = Image.new("RGB", (width, shown.height + strip), GROUND)
    canvas.paste(shown, ((width - shown.width) // 2, 0))
    draw = ImageDraw.Draw(canvas)
    margin, top = size // 2, shown.height + size // 3
    items = [] if trained is None else [("trained", f"{trained:,} steps")]
    _line(draw, [*items, ("episode step", f"{step.t:,}")], margin, top, width - 2 * margin, size)
    items = [("reward", _number(reward)), ("return", _number(step.total))]
    items += [] if step.value is None else [("value", _number(step.value))]
    _line(draw, items, margin, top + round(size * 1.5), width - 2 * margin, size, columns=3)
    below = top + 3 * size
    if parts:
        shown_parts = [(name, _number(value)) for name, value in parts.items()]
        for some in _batched(shown_parts, part_rows):
            _line(draw, some, margin, below, width - 2 * margin, round(size * 0.85), columns=part_rows)
            below += round(size * 1.5)
    if step.record is not None:
        how = "ended" if step.record.terminated else "cut by the time limit"
        draw.text((margin, below), f"{how} after {step.t:,} steps", TEXT, _font(size))
    else:
        for bars in _batched(_entries(step, labels), bar_rows):
            _bars(draw, bars, margin, below, width - 2 * margin, size, bar_rows)
            below += round(size * 2.6)
    return _even(canvas, width, canvas.height)


def card(lines: Sequence[str], height: int, width: int) -> Picture:
    """A title: its first line large."""
    from PIL import Image, ImageDraw

    canvas = Image.new("RGB", (width, height), GROUND)
    draw = ImageDraw.Draw(canvas)
    sizes = [width // 12, *[width // 20] * (len(lines) - 1)]
    y = (height - sum(round(size * 1.5) for size in sizes)) / 2
    for number, (line, size) in enumerate(zip(lines, sizes, strict=True)):
        while size > 10 and draw.textlength(line, _font(size)) > 0.92 * width:
            size -= 1
        draw.text((width / 2, y), line, DIM if number else TEXT, _font(size), anchor="ma")
        y += round(size * 1.5)
    return np.asarray(canvas)


def _entries(step: Step, labels: Labels) -> list[Bar]:
    if labels.bounds is not None:
        entries = []
        taken = np.ravel(step.action).tolist()
        for name, value, (low, high) in zip(labels.actions, taken, labels.bounds, strict=True):
            at, zero = (min(max((x - low) / (high - low), 0.0), 1.0) for x in (value, 0.0))
            entries.append((name, f"{value:+.2f}", min(at, zero), max(at, zero), True))
        return entries[:MOST_BARS]
    chances = step.choices.get("probability", [])
    chosen = labels.chosen(step.action)
    order = list(range(len(chances)))
    if len(chances) > MOST_BARS:  # and what was done
        likely = sorted(order, key=lambda i: (i not in chosen, -chances[i]))
        order = sorted(likely[:MOST_BARS])
    return [(labels.actions[i], f"{100 * chances[i]:.0f}%", 0.0, chances[i], i in chosen) for i in order]


def _number(value: float) -> str:
    return f"{value:,.2f}".removesuffix(".00")


def _line(
    draw: ImageDraw, items: Sequence[tuple[str, str]], x: int, y: int, width: int, size: int, columns: int = 2
) -> None:
    each = width / columns
    for number, (name, value) in enumerate(items):
        left = x + number * each
        draw.text((left, y), name, DIM, _font(size))
        draw.text((left + draw.textlength(f"{name}  ", _font(size)), y), value, TEXT, _font(size))


def _rows(texts: Sequence[str], width: int, size: int, most: int | None = None) -> int:
    """How many of them stand next to each other, each in as much room as the widest needs; one at least."""
    widest = max((_font(size).getlength(text) for text in texts), default=width)
    return max(1, min(int(width / (widest + size)), len(texts), most or len(texts)))


def _bar_rows(labels: Labels, width: int, size: int) -> int:
    """How many bars stand next to each other: as many as leave room for names and numbers, evenly over the rows."""
    names, small = labels.actions[:MOST_BARS], round(size * 0.85)
    least = min(3, len(names))  # longer names are cut
    fitting = max(least, _rows([f"{_bar_name(name)} {_widest(labels)}" for name in names], width, small, BARS_A_ROW))
    return -(-len(names) // -(-len(names) // fitting)) if names else 1


def _batched(items: Sequence[Any], size: int) -> Iterator[Sequence[Any]]:
    return (items[first : first + size] for first in range(0, len(items), size))


def _count(items: Collection[Any], a_row: int) -> int:
    return -(-len(items) // a_row)


def _bar_name(name: str) -> str:
    return name.lower() if name.isupper() else name  # narrower


def _widest(labels: Labels) -> str:
    """Number of a bar, so that the same is shown in every frame."""
    return "100%" if labels.bounds is None else "+0.00"


def _bars(draw: ImageDraw, entries: Sequence[Bar], x: int, y: int, width: int, size: int, a_row: int) -> None:
    gap, small = size // 2, round(size * 0.85)
    each = (width - gap * (a_row - 1)) / a_row
    for number, (name, value, begin, end, chosen) in enumerate(entries):
        left = x + number * (each + gap)
        colour = CHOSEN if chosen else DIM
        widest = "100%" if value.endswith("%") else "+0.00"
        room = each - draw.textlength(f" {widest}", _font(small))
        draw.text((left + each, y), value, colour, _font(small), anchor="ra")
        draw.text((left, y), _fit(draw, _bar_name(name), room, small), colour, _font(small))
        top, bottom = y + round(small * 1.45), y + round(small * 2.2)
        draw.rectangle((left, top, left + each, bottom), fill=BAR)
        if end > begin:
            draw.rectangle((left + begin * each, top, left + end * each, bottom), fill=CHOSEN if chosen else TEXT)


def _fit(draw: ImageDraw, text: str, room: float, size: int) -> str:
    """The text, with initials for all words but the last, or cut."""
    if draw.textlength(text, _font(size)) <= room:
        return text
    *words, last = text.split()
    text = " ".join([*(word[0] for word in words), last])
    if draw.textlength(text, _font(size)) <= room:
        return text
    while text and draw.textlength(f"{text}.", _font(size)) > room:
        text = text[:-1]
    return f"{text.rstrip()}." if text else ""


@lru_cache(maxsize=16)
def _font(size: int) -> Any:
    from PIL import ImageFont

    return ImageFont.load_default(size)


def _even(image: Image, width: int, height: int) -> Picture:
    """H.264 with halved colours takes even sizes only: a black row or column is added where one is missing."""
    picture = np.asarray(image)
    return np.pad(picture, ((0, height % 2), (0, width % 2), (0, 0))) if height % 2 or width % 2 else picture
