"""Seeds and first random numbers of many episodes at once, equal to NumPy's own for each of them.

One episode's seed and generator cost NumPy some 30 microseconds, as much as dozens of steps of a vector env. This
computes the same published algorithms (SeedSequence's hash, PCG64 XSL-RR) on whole arrays. NumPy guarantees
that both stay as they are; a test compares them with NumPy itself.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

U32 = NDArray[np.uint32]
U64 = NDArray[np.uint64]

_INIT_A, _MULT_A = 0x43B0D7E5, 0x931E8875
_INIT_B, _MULT_B = 0x8B51F9DD, 0x58F38DED
_MIX_L, _MIX_R = np.uint32(0xCA01F9DD), np.uint32(0x4973F715)
_POOL = 4
_HALF = np.uint32(16)
_PCG_HIGH, _PCG_LOW = np.uint64(0x2360ED051FC65DA4), np.uint64(0x4385DF649FCCF645)
_LOW_WORD, _WORD = np.uint64(0xFFFFFFFF), np.uint64(32)
_ONE, _TOP_SIX, _SIXTY_THREE = np.uint64(1), np.uint64(58), np.uint64(63)


def derive_seeds(seed: int, env: NDArray[np.int64], episode: NDArray[np.int64]) -> U32:
    """core.seeds.derive_seed(seed, env, episode) for every pair."""
    words = [seed & 0xFFFFFFFF]
    while seed := seed >> 32:
        words.append(seed & 0xFFFFFFFF)
    entropy = np.empty((len(words) + 2, len(env)), np.uint32)
    entropy[: len(words)] = np.array(words, np.uint32)[:, None]
    entropy[-2], entropy[-1] = env, episode
    return _generate(_mixed(entropy), 1)[0]


def first_uniforms(seeds: U32, count: int) -> NDArray[np.float64]:
    """np.random.Generator(PCG64(seed)).random(count) for every seed, [len(seeds), count]."""
    words = _generate(_mixed(seeds[None]), 8).astype(np.uint64)
    # two 32-bit words make a 64-bit one, the lower first; two of those make 128 bits, the upper first
    state_high, state_low, sequence_high, sequence_low = words[0::2] | (words[1::2] << _WORD)
    step = ((sequence_high << _ONE) | (sequence_low >> _SIXTY_THREE), (sequence_low << _ONE) | _ONE)
    state = _advance(_add((state_high, state_low), step), step)
    uniforms = np.empty((len(seeds), count))
    for i in range(count):
        high, low = state = _advance(state, step)
        turn, value = high >> _TOP_SIX, high ^ low
        drawn = (value >> turn) | (value << ((np.uint64(64) - turn) & _SIXTY_THREE))
        uniforms[:, i] = (drawn >> np.uint64(11)) * 2.0**-53
    return uniforms


def _mixed(entropy: U32) -> U32:
    """SeedSequence's pool, [4, n], from [words, n]. Its hash constants depend on the position only."""
    constants = _powers(_INIT_A, _MULT_A, _POOL * max(_POOL, len(entropy)) + 1)
    padded = np.zeros((max(_POOL, len(entropy)), entropy.shape[1]), np.uint32)
    padded[: len(entropy)] = entropy
    pool, used = _hash(padded[:_POOL], constants[:_POOL], constants[1 : _POOL + 1]), _POOL
    for source in range(_POOL):
        others = [i for i in range(_POOL) if i != source]
        part = constants[used : used + _POOL]
        pool[others] = _mix(pool[others], _hash(pool[source][None], part[:-1], part[1:]))
        used += _POOL - 1
    for source in range(_POOL, len(entropy)):
        part = constants[used : used + _POOL + 1]
        pool = _mix(pool, _hash(padded[source][None], part[:-1], part[1:]))
        used += _POOL
    return pool


def _generate(pool: U32, words: int) -> U32:
    constants = _powers(_INIT_B, _MULT_B, words + 1)
    return _hash(pool[np.arange(words) % _POOL], constants[:-1], constants[1:])


def _powers(first: int, factor: int, count: int) -> U32:
    values = [first]
    for _ in range(count - 1):
        values.append(values[-1] * factor & 0xFFFFFFFF)
    return np.array(values, np.uint32)[:, None]


def _hash(value: U32, before: U32, after: U32) -> U32:
    value = (value ^ before) * after
    return value ^ (value >> _HALF)


def _mix(x: U32, y: U32) -> U32:
    value = _MIX_L * x - _MIX_R * y
    return value ^ (value >> _HALF)


def _advance(state: tuple[U64, U64], step: tuple[U64, U64]) -> tuple[U64, U64]:
    """state * multiplier + step, in 128 bits as (high, low)."""
    high, low = state
    return _add((high * _PCG_LOW + low * _PCG_HIGH + _upper_product(low, _PCG_LOW), low * _PCG_LOW), step)


def _add(a: tuple[U64, U64], b: tuple[U64, U64]) -> tuple[U64, U64]:
    low = a[1] + b[1]
    return a[0] + b[0] + (low < b[1]), low


def _upper_product(a: U64, b: np.uint64) -> U64:
    """The upper 64 bits of a 64 x 64 bit product, by halves."""
    a_high, a_low, b_high, b_low = a >> _WORD, a & _LOW_WORD, b >> _WORD, b & _LOW_WORD
    cross = a_high * b_low + (a_low * b_low >> _WORD)
    middle = a_low * b_high + (cross & _LOW_WORD)
    return a_high * b_high + (cross >> _WORD) + (middle >> _WORD)
