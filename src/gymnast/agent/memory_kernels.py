"""Recurrent layers scanned over time by compiled loops, forwards and backwards, one call for a batch of sequences.

Products with the inputs, and the gradients of the weights, are one large product each and stay with torch; what is left
is the product of each step with the previous one's output and the gates. Arrays are [sequences, time, ...], float32.
`tests/unit/test_memory.py` holds both layers to torch's own.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gymnast.agent.nets.kernels import HALF, ONE, ZERO, Flags, Floats, compiled, tanh


@compiled
def sigmoid(x: Any) -> Any:
    return HALF + HALF * tanh(HALF * x)


@compiled
def add_products(a: Floats, b: Floats, out: Floats) -> None:
    """out += a @ b. Two rows and four steps of the inner product at once: a number that was read is used often."""
    rows, inner = a.shape
    size = b.shape[1]
    for i in range(0, rows - 1, 2):
        row0, row1 = out[i], out[i + 1]
        for k in range(0, inner - 3, 4):
            a0, a1, a2, a3 = a[i, k], a[i, k + 1], a[i, k + 2], a[i, k + 3]
            c0, c1, c2, c3 = a[i + 1, k], a[i + 1, k + 1], a[i + 1, k + 2], a[i + 1, k + 3]
            b0, b1, b2, b3 = b[k], b[k + 1], b[k + 2], b[k + 3]
            for j in range(size):
                x0, x1, x2, x3 = b0[j], b1[j], b2[j], b3[j]
                row0[j] += a0 * x0 + a1 * x1 + a2 * x2 + a3 * x3
                row1[j] += c0 * x0 + c1 * x1 + c2 * x2 + c3 * x3
        for k in range(inner - inner % 4, inner):
            a0, c0, b0 = a[i, k], a[i + 1, k], b[k]
            for j in range(size):
                row0[j] += a0 * b0[j]
                row1[j] += c0 * b0[j]
    if rows % 2:
        row0 = out[rows - 1]
        for k in range(inner):
            a0, b0 = a[rows - 1, k], b[k]
            for j in range(size):
                row0[j] += a0 * b0[j]


@compiled
def previous(state: Floats, first: Floats, starts: Flags, t: int, out: Floats) -> None:
    """The state before step t: the initial one, or the previous step's; 0 where an episode starts."""
    rows, size = out.shape
    for s in range(rows):
        source = first[s] if t == 0 else state[s, t - 1]
        for j in range(size):
            out[s, j] = ZERO if starts[s, t] else source[j]


@compiled
def to_previous(sums: Floats, weight: Floats, starts: Flags, t: int, dh: Floats) -> None:
    """Adds the gradient of step t's sums to that of the output before it; 0 where an episode starts."""
    add_products(sums, weight, dh)
    for s in range(len(dh)):
        if starts[s, t]:
            dh[s] = ZERO


@compiled
def lstm_forward(
    gates: Floats, weight_t: Floats, starts: Flags, h0: Floats, c0: Floats, before: Floats, cells: Floats, out: Floats
) -> None:
    """`gates` [S, T, 4H] hold the inputs' part (input, forget, cell, output) and become the gates themselves;
    `before` [S, T, H] are the outputs that each step began with."""
    count, length, size = out.shape
    h, c = np.empty((count, size), np.float32), np.empty((count, size), np.float32)
    sums = np.empty((count, 4 * size), np.float32)
    for t in range(length):
        previous(out, h0, starts, t, h)
        previous(cells, c0, starts, t, c)
        before[:, t] = h
        sums[:] = gates[:, t]
        add_products(h, weight_t, sums)
        for s in range(count):  # a loop for each gate: one over all of them would not use vector instructions
            total, cell, hidden = sums[s], cells[s, t], out[s, t]
            for j in range(2 * size):
                total[j] = sigmoid(total[j])
            for j in range(2 * size, 3 * size):
                total[j] = tanh(total[j])
            for j in range(3 * size, 4 * size):
                total[j] = sigmoid(total[j])
            i, f, g, o = total[:size], total[size : 2 * size], total[2 * size : 3 * size], total[3 * size :]
            for j in range(size):
                cell[j] = f[j] * c[s, j] + i[j] * g[j]
            for j in range(size):
                hidden[j] = o[j] * tanh(cell[j])
        gates[:, t] = sums


@compiled
def lstm_backward(
    gradient: Floats, gates: Floats, weight: Floats, starts: Flags, c0: Floats, cells: Floats, out: Floats
) -> None:
    """`gradient` [S, T, H] of the outputs to `out` [S, T, 4H], that of the gates' sums."""
    count, length, size = gradient.shape
    dh, dc = np.zeros((count, size), np.float32), np.zeros((count, size), np.float32)
    c, sums = np.empty((count, size), np.float32), np.empty((count, 4 * size), np.float32)
    squashed = np.empty(size, np.float32)
    for t in range(length - 1, -1, -1):
        previous(cells, c0, starts, t, c)
        for s in range(count):
            gate, slope, cell = gates[s, t], sums[s], dc[s]
            i, f, g, o = gate[:size], gate[size : 2 * size], gate[2 * size : 3 * size], gate[3 * size :]
            di, df, dg, do = slope[:size], slope[size : 2 * size], slope[2 * size : 3 * size], slope[3 * size :]
            for j in range(size):
                squashed[j] = tanh(cells[s, t, j])
            for j in range(size):
                dh[s, j] += gradient[s, t, j]
            for j in range(size):
                cell[j] += dh[s, j] * o[j] * (ONE - squashed[j] * squashed[j])
            for j in range(size):
                di[j] = cell[j] * g[j] * i[j] * (ONE - i[j])
            for j in range(size):
                df[j] = cell[j] * c[s, j] * f[j] * (ONE - f[j])
            for j in range(size):
                dg[j] = cell[j] * i[j] * (ONE - g[j] * g[j])
            for j in range(size):
                do[j] = dh[s, j] * squashed[j] * o[j] * (ONE - o[j])
            for j in range(size):
                cell[j] = ZERO if starts[s, t] else cell[j] * f[j]
        out[:, t] = sums
        dh[:] = ZERO
        to_previous(sums, weight, starts, t, dh)


@compiled
def gru_forward(
    x: Floats, weight_t: Floats, bias: Floats, starts: Flags, h0: Floats, before: Floats, gates: Floats, out: Floats
) -> None:
    """`x` [S, T, 3H] are the inputs' part (reset, update, new); `gates` [S, T, 4H] keep reset, update, new, and
    the previous output's part of new."""
    count, length, size = out.shape
    h, sums = np.empty((count, size), np.float32), np.empty((count, 3 * size), np.float32)
    for t in range(length):
        previous(out, h0, starts, t, h)
        before[:, t] = h
        sums[:] = bias
        add_products(h, weight_t, sums)
        for s in range(count):
            inputs, total, gate, hidden = x[s, t], sums[s], gates[s, t], out[s, t]
            for j in range(2 * size):
                gate[j] = sigmoid(inputs[j] + total[j])
            r, z, n, part = gate[:size], gate[size : 2 * size], gate[2 * size : 3 * size], gate[3 * size :]
            part[:] = total[2 * size :]
            new = inputs[2 * size :]
            for j in range(size):
                n[j] = tanh(new[j] + r[j] * part[j])
            for j in range(size):
                hidden[j] = (ONE - z[j]) * n[j] + z[j] * h[s, j]


@compiled
def gru_backward(
    gradient: Floats, gates: Floats, weight: Floats, starts: Flags, before: Floats, inputs: Floats, hidden: Floats
) -> None:
    """`gradient` [S, T, H] of the outputs to those of the inputs' part and of the previous output's part, [S, T, 3H]
    each: they differ in the new gate, where the reset gate stands between them."""
    count, length, size = gradient.shape
    dh, sums = np.zeros((count, size), np.float32), np.empty((count, 3 * size), np.float32)
    through = np.empty((count, size), np.float32)
    for t in range(length - 1, -1, -1):
        for s in range(count):
            gate, slope, x = gates[s, t], sums[s], inputs[s, t]
            r, z, n, part = gate[:size], gate[size : 2 * size], gate[2 * size : 3 * size], gate[3 * size :]
            dr, dz, dn = slope[:size], slope[size : 2 * size], slope[2 * size :]
            new = x[2 * size :]
            for j in range(size):
                dh[s, j] += gradient[s, t, j]
            for j in range(size):
                new[j] = dh[s, j] * (ONE - z[j]) * (ONE - n[j] * n[j])
            for j in range(size):
                dr[j] = new[j] * part[j] * r[j] * (ONE - r[j])
            for j in range(size):
                dz[j] = dh[s, j] * (before[s, t, j] - n[j]) * z[j] * (ONE - z[j])
            for j in range(size):
                dn[j] = new[j] * r[j]
            x[: 2 * size] = slope[: 2 * size]
            for j in range(size):
                through[s, j] = dh[s, j] * z[j]
        hidden[:, t] = sums
        dh[:] = through
        to_previous(sums, weight, starts, t, dh)
