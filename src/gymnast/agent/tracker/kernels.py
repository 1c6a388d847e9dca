"""The compiled loops of a tracker, over pixels that differ from the background."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

REACH = 4  # pixels that the network sees on every side of the one in question
SIDE = 2 * REACH + 1
AROUND, MIDDLE = SIDE * SIDE, SIDE * SIDE // 2  # pixels that it sees, and which of them is the one in question
DIFFERENT = 8  # brightness of 255 by which a pixel differs from the background
SCALE = np.float32(1 / 64)  # of brightness, for the network
MOST_MOVING = 0.25  # of all pixels: a picture with more shows something else, like the black one before a game


@njit(cache=True, error_model="numpy")
def moving_pixels(pictures: Any, background: Any, most: int) -> Any:
    """Of all pixels that differ from the background: which picture they are in, row and column, and what the network
    gets: by how much the pixels around them differ, a 1 for their row, and a 1 for their column. Pictures after the
    first `most` pixels are left out."""
    count, height, width = pictures.shape
    n = used = 0
    for frame in range(count):
        new = len(_different(pictures[frame], background)[0])
        if n + new > most:
            break
        n, used = n + new, frame + 1
    frames, places = np.empty(n, np.int64), np.empty((n, 2), np.float32)
    inputs = np.zeros((n, AROUND + height + width), np.float32)
    first = 0
    for frame in range(used):
        rows, columns, differences = _different(pictures[frame], background)
        for i in range(len(rows)):
            own = inputs[first + i]
            frames[first + i], places[first + i, 0], places[first + i, 1] = frame, rows[i], columns[i]
            own[AROUND + rows[i]] = own[AROUND + height + columns[i]] = 1
            for other in range(len(rows)):
                if abs(rows[other] - rows[i]) <= REACH and abs(columns[other] - columns[i]) <= REACH:
                    own[_offset(rows[other] - rows[i], columns[other] - columns[i])] = differences[other]
        first += len(rows)
    return frames, places, inputs


@njit(cache=True, error_model="numpy", nogil=True)
def equal_pictures(some: Any, others: Any) -> Any:
    """Which of them are equal, pixel by pixel: [B, C, H, W] twice to [B, C]."""
    count, times, height, width = some.shape
    equal = np.ones((count, times), np.bool_)
    for i in range(count):
        for k in range(times):
            for row in range(height):
                any_bit = np.uint8(0)
                for column in range(width):
                    any_bit |= some[i, k, row, column] ^ others[i, k, row, column]
                if any_bit:
                    equal[i, k] = False
                    break
    return equal


@njit(cache=True, error_model="numpy", nogil=True)
def objects_of(pictures: Any, background: Any, hidden: Any, hidden_bias: Any, out: Any, out_bias: Any) -> Any:
    """Mass, row and column of each object in each picture, [N, objects, 3]; a pixel belongs to one object. `hidden` has
    weights of every pixel around it, then of every row and every column that it may be in."""
    count, height, _ = pictures.shape
    units, objects = out.shape
    found = np.zeros((count, objects, 3), np.float32)
    active = np.empty(units, np.float32)
    for frame in range(count):
        mine = found[frame]
        rows, columns, differences = _different(pictures[frame], background)
        nearest = 0  # the first pixel that the network sees from this one; they come row by row
        for i in range(len(rows)):
            row, column = rows[i], columns[i]
            for unit in range(units):
                place = hidden[AROUND + row, unit] + hidden[AROUND + height + column, unit]
                active[unit] = hidden_bias[unit] + place
            while rows[nearest] < row - REACH:
                nearest += 1
            for other in range(nearest, len(rows)):
                if rows[other] > row + REACH:
                    break
                if abs(columns[other] - column) <= REACH:
                    weights = hidden[_offset(rows[other] - row, columns[other] - column)]
                    for unit in range(units):
                        active[unit] += differences[other] * weights[unit]
            best, most = 0, np.float32(-np.inf)
            for k in range(objects):
                likely = out_bias[k]
                for unit in range(units):
                    likely += max(active[unit], np.float32(0)) * out[unit, k]
                if likely > most:
                    best, most = k, likely
            mass = abs(differences[i])
            mine[best, 0] += mass
            mine[best, 1] += mass * row
            mine[best, 2] += mass * column
        for k in range(objects):
            if mine[k, 0] > 0:
                mine[k, 1] /= mine[k, 0]
                mine[k, 2] /= mine[k, 0]
    return found


@njit(cache=True, error_model="numpy")
def _different(picture: Any, background: Any) -> Any:
    """Rows, columns and differences of the pixels that differ, row by row; none where it is a quarter of all pixels. A
    picture may have columns at its right edge that the background has not: they are not looked at."""
    height, width = background.shape
    most = int(MOST_MOVING * height * width)
    rows, columns, differences = np.empty(most, np.int64), np.empty(most, np.int64), np.empty(most, np.float32)
    n = 0
    for row in range(height):
        any_bit = np.uint8(0)
        for column in range(width):  # most rows are all background, and this loop is quick
            any_bit |= picture[row, column] ^ background[row, column]
        if any_bit == 0:
            continue
        for column in range(width):
            difference = np.int32(picture[row, column]) - np.int32(background[row, column])
            if abs(difference) > DIFFERENT:
                if n == most:
                    return rows[:0], columns[:0], differences[:0]
                rows[n], columns[n], differences[n] = row, column, difference * SCALE
                n += 1
    return rows[:n], columns[:n], differences[:n]


@njit(cache=True, error_model="numpy", inline="always")
def _offset(down: Any, right: Any) -> Any:
    """Where the network takes the pixel so far below and right of the one in question."""
    return (down + REACH) * SIDE + right + REACH
