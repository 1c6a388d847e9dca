"""Loops of the fast path, compiled by numba: what NumPy would do in many passes over a batch, in one each.

Products of matrices stay with NumPy's BLAS; these are the parts around them. Compiled code is kept on disk, so only the
first run on a machine waits for the compiler. Rules: float32 throughout (a bare Python number would turn a loop into
float64), and comparisons written so that NaN passes through: a diverged network must be seen, not hidden.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from gymnast.agent.heads import LEAST_NOISE, LOG_2PI, MASKED

Floats = NDArray[np.float32]
Ints = NDArray[np.int64]
Flags = NDArray[np.bool_]
f32 = np.float32

# Sums may be reordered and products fused, which is what lets a loop use vector instructions. NaN keeps its meaning.
# Division must not be checked for zero: the check alone keeps a loop scalar.
# Actor and critic may be in threads of their own, so none keeps Python's lock.
compiled: Any = njit(cache=True, error_model="numpy", nogil=True, fastmath={"reassoc", "contract", "arcp", "nsz"})

ZERO, HALF, ONE, TWO, TINY = f32(0), f32(0.5), f32(1), f32(2), f32(1e-8)
MASKED_LOGIT, HALF_LOG_2PI, LEAST = f32(MASKED), f32(0.5 * LOG_2PI), f32(LEAST_NOISE)
NO_MASK = np.zeros((0, 0), np.bool_)

# tanh x as x P(x^2) / Q(x^2), fitted for the smallest relative error (2e-8) up to 8, where tanh is 1 in float32.
BOUND = f32(8)
P0, P1, P2 = f32(0.9999999810887), f32(0.1297922460684), f32(2.9858632320582e-3)
P3, P4, P5 = f32(9.878672084973e-6), f32(-1.4704256974690e-8), f32(2.35087038881759e-11)
Q1, Q2, Q3 = f32(0.4631254064934), f32(2.4027929883833e-2), f32(2.3720341496106e-4)


def is_compiled(loop: Any) -> bool:
    """Whether an earlier run left this loop's code on this machine; without it a first update takes seconds."""
    name = f"{loop.__module__.rpartition('.')[2]}.{loop.__name__}"
    return any(Path(loop.stats.cache_path).glob(f"{name}-*.nbi"))


@compiled
def tanh(x: Any) -> Any:
    x = BOUND if x > BOUND else x
    x = -BOUND if x < -BOUND else x
    y = x * x
    p = P0 + y * (P1 + y * (P2 + y * (P3 + y * (P4 + y * P5))))
    return x * p / (ONE + y * (Q1 + y * (Q2 + y * Q3)))


@compiled
def activate(z: Floats, flat: Floats, offset: int, distance: int, relu: bool) -> None:
    """A layer's bias and activation, in place. z [nets, B, H]; net k's bias begins at flat[offset + k * distance]."""
    nets, rows, size = z.shape
    for k in range(nets):
        begin = offset + k * distance
        bias = flat[begin : begin + size]
        for b in range(rows):
            row = z[k, b]
            if relu:
                for j in range(size):
                    s = row[j] + bias[j]
                    row[j] = ZERO if s < ZERO else s
            else:
                for j in range(size):
                    row[j] = tanh(row[j] + bias[j])


@compiled
def activate_backward(delta: Floats, out: Floats, gradient: Floats, offset: int, distance: int, relu: bool) -> None:
    """Through the activation, in place, and the bias's gradient, which lies as the bias does."""
    nets, rows, size = delta.shape
    for k in range(nets):
        begin = offset + k * distance
        bias = gradient[begin : begin + size]
        for j in range(size):
            bias[j] = ZERO
        for b in range(rows):
            slope, value = delta[k, b], out[k, b]
            if relu:
                for j in range(size):
                    slope[j] = slope[j] if value[j] > ZERO else ZERO
                    bias[j] += slope[j]
            else:
                for j in range(size):
                    slope[j] = slope[j] * (ONE - value[j] * value[j])
                    bias[j] += slope[j]


@compiled
def category_rows(delta: Floats, category: Ints, gradient: Floats, offset: int, distance: int, inputs: int) -> None:
    """A first layer's weight gradient [nets, H, inputs] of one-hot inputs: column c adds up the samples in it."""
    nets, rows, size = delta.shape
    for k in range(nets):
        begin = offset + k * distance
        weight = gradient[begin : begin + size * inputs]
        weight[:] = ZERO
        for b in range(rows):
            for j in range(size):
                weight[j * inputs + category[b]] += delta[k, b, j]


@compiled
def dense(x: Floats, flat: Floats, weight: int, bias: int, relu: bool, out: Floats) -> None:
    """One layer of one net for few rows, where calling BLAS costs more than the product: x [B, in] to out [B, H]."""
    rows, inputs = x.shape
    size = out.shape[1]
    for b in range(rows):
        for j in range(size):
            begin = weight + j * inputs
            column = flat[begin : begin + inputs]
            s = flat[bias + j]
            for i in range(inputs):
                s += x[b, i] * column[i]
            out[b, j] = (ZERO if s < ZERO else s) if relu else s
        if not relu:
            for j in range(size):
                out[b, j] = tanh(out[b, j])


@compiled
def normalize(x: Floats, shift: Floats, scale: Floats, bound: Any, out: Floats) -> None:
    rows, size = x.shape
    for b in range(rows):
        for j in range(size):
            s = (x[b, j] - shift[j]) * scale[j]
            s = bound if s > bound else s
            out[b, j] = -bound if s < -bound else s


@compiled
def outputs_of(features: Floats, weight: Floats, bias: Floats, out: Floats) -> None:
    """The actor's last layer: features [B, H], weight [actions, H], out [B, actions]."""
    rows, size = features.shape
    for b in range(rows):
        for a in range(len(bias)):
            s = bias[a]
            for j in range(size):
                s += features[b, j] * weight[a, j]
            out[b, a] = s


@compiled
def mask_outputs(outputs: Floats, mask: Flags) -> None:
    for b in range(len(mask)):
        for a in range(mask.shape[1]):
            if not mask[b, a]:
                outputs[b, a] = MASKED_LOGIT


@compiled
def sample_category(outputs: Floats, noise: Floats, out: Ints) -> None:
    """Gumbel: the largest of logit - log(exponential) is a sample. Without noise (no rows) the likeliest."""
    rows, n_actions = outputs.shape
    for b in range(rows):
        best, chosen = outputs[b, 0], 0
        if len(noise):
            best -= math.log(max(noise[b, 0], LEAST))
        for a in range(1, n_actions):
            s = outputs[b, a]
            if len(noise):
                s -= math.log(max(noise[b, a], LEAST))
            if s > best:
                best, chosen = s, a
        out[b] = chosen


@compiled
def sample_gaussian(means: Floats, log_std: Floats, noise: Floats, out: Floats) -> None:
    """Without noise (no rows) the mean."""
    rows, n_actions = means.shape
    for b in range(rows):
        for a in range(n_actions):
            s = means[b, a]
            out[b, a] = s + math.exp(log_std[a]) * noise[b, a] if len(noise) else s


@compiled
def score_categories(outputs: Floats, action: Ints, mask: Flags, logp: Floats, entropy: Floats) -> None:
    """Logits [B, actions] to log-probabilities, in place; those of the actions taken, and the entropy, [B] each."""
    rows, n_actions = outputs.shape
    mask_outputs(outputs, mask)
    for b in range(rows):
        top = outputs[b, 0]
        for a in range(1, n_actions):
            top = outputs[b, a] if outputs[b, a] > top else top
        total = ZERO
        for a in range(n_actions):
            total += math.exp(outputs[b, a] - top)
        shift = top + math.log(total)
        entropy_sum = ZERO
        for a in range(n_actions):
            s = outputs[b, a] - shift
            outputs[b, a] = s
            entropy_sum -= math.exp(s) * s
        entropy[b] = entropy_sum
        logp[b] = outputs[b, action[b]]


@compiled
def category_gradient(
    log_probs: Floats,
    action: Ints,
    mask: Flags,
    entropy: Floats,
    logp_slope: Floats,
    entropy_slope: Floats,
    out: Floats,
) -> None:
    """Of sum(logp_slope * logp + entropy_slope * entropy), with respect to the logits.

    d logp_a / d z_j = [j = a] - p_j  and  d entropy / d z_j = -p_j (log p_j + entropy).
    """
    rows, n_actions = log_probs.shape
    for b in range(rows):
        for a in range(n_actions):
            s = log_probs[b, a]
            out[b, a] = -math.exp(s) * (logp_slope[b] + entropy_slope[b] * (s + entropy[b]))
        out[b, action[b]] += logp_slope[b]
        if len(mask):  # a masked logit was replaced: nothing flows through it
            for a in range(n_actions):
                if not mask[b, a]:
                    out[b, a] = ZERO


@compiled
def score_gaussian(means: Floats, action: Floats, log_std: Floats, logp: Floats, entropy: Floats) -> None:
    """Means [B, actions] to (action - mean) / std, in place; log-probability and entropy [B]."""
    rows, n_actions = means.shape
    log_scale = ZERO
    for a in range(n_actions):
        log_scale += log_std[a] + HALF_LOG_2PI
    for b in range(rows):
        s = ZERO
        for a in range(n_actions):
            u = (action[b, a] - means[b, a]) * math.exp(-log_std[a])
            means[b, a] = u
            s += u * u
        logp[b] = -HALF * s - log_scale
        entropy[b] = log_scale + HALF * f32(n_actions)


@compiled
def gaussian_gradient(
    off: Floats, log_std: Floats, logp_slope: Floats, entropy_slope: Floats, log_std_gradient: Floats, out: Floats
) -> None:
    """As for categories. With u = (a - mean) / std:

    d logp / d mean = u / std,  d logp / d log_std = u^2 - 1,  d entropy / d log_std = 1.
    """
    rows, n_actions = off.shape
    total = 0.0
    for b in range(rows):
        total += entropy_slope[b]
    for a in range(n_actions):
        log_std_gradient[a] = f32(total)
    for b in range(rows):
        for a in range(n_actions):
            u = off[b, a]
            log_std_gradient[a] += (u * u - ONE) * logp_slope[b]
            out[b, a] = u * math.exp(-log_std[a]) * logp_slope[b]


@compiled
def outputs_backward(
    outputs_gradient: Floats,
    value_gradient: Floats,
    features: Floats,
    actor_weight: Floats,
    critic_weight: Floats,
    actor_weight_gradient: Floats,
    actor_bias_gradient: Floats,
    critic_weight_gradient: Floats,
    critic_bias_gradient: Floats,
    delta: Floats,
) -> None:
    """Through both last layers: their weights' gradients, and that of the features into `delta` [nets, B, H].

    Features [nets, B, H]; with one net, actor and critic share them. `delta` has no nets where nothing is below.
    """
    rows, n_actions = outputs_gradient.shape
    nets, _, size = features.shape
    actor_weight_gradient[:] = ZERO
    actor_bias_gradient[:] = ZERO
    critic_weight_gradient[:] = ZERO
    critic_bias_gradient[:] = ZERO
    for b in range(rows):
        row = features[0, b]
        for a in range(n_actions):
            g = outputs_gradient[b, a]
            actor_bias_gradient[a] += g
            weight_gradient = actor_weight_gradient[a]
            for j in range(size):
                weight_gradient[j] += g * row[j]
        v = value_gradient[b]
        row = features[nets - 1, b]
        critic_bias_gradient[0] += v
        for j in range(size):
            critic_weight_gradient[j] += v * row[j]
        if len(delta):
            slope = delta[nets - 1, b]
            for j in range(size):
                slope[j] = v * critic_weight[j]
            slope = delta[0, b]
            if nets == 2:
                slope[:] = ZERO
            for a in range(n_actions):
                g = outputs_gradient[b, a]
                weight = actor_weight[a]
                for j in range(size):
                    slope[j] += g * weight[j]


@compiled
def value_slope(error: Any, huber_delta: Any) -> tuple[Any, Any]:
    """Of the squared error, or of Huber's where its delta is not negative; and the loss itself."""
    if huber_delta < ZERO:
        return TWO * error, error * error
    if abs(error) > huber_delta:
        slope = huber_delta if error > ZERO else -huber_delta
        return slope, huber_delta * (abs(error) - HALF * huber_delta)
    return error, HALF * error * error


@compiled
def policy_gradient_slopes(
    weight: Floats,
    value: Floats,
    returns: Floats,
    huber_delta: Any,
    vf_coef: Any,
    entropy_share: Any,
    logp_slope: Floats,
    entropy_slope: Floats,
    value_slope_out: Floats,
) -> float:
    """Of -mean(weight * logp) + vf_coef * value loss - ent_coef * mean(entropy); returns the value loss.

    `entropy_share` is -ent_coef / rows. Without returns (none given) there is no value loss.
    """
    share, total = f32(-1.0 / len(weight)), 0.0
    for b in range(len(weight)):
        logp_slope[b] = weight[b] * share
        entropy_slope[b] = entropy_share
    for b in range(len(returns)):
        slope, loss = value_slope(value[b] - returns[b], huber_delta)
        value_slope_out[b] = slope * vf_coef / f32(len(value))
        total += loss
    return total / len(value)


# What `ppo_slopes` adds up for a minibatch.
GAIN, VALUE_LOSS, ENTROPY, KL, CLIPPED, RATIO, VALUE_CLIPPED = range(7)


@compiled
def ppo_slopes(
    logp: Floats,
    old_logp: Floats,
    entropy: Floats,
    advantage: Floats,
    value: Floats,
    old_value: Floats,
    returns: Floats,
    clip: Any,
    value_clip: Any,
    huber_delta: Any,
    vf_coef: Any,
    entropy_share: Any,
    logp_slope: Floats,
    entropy_slope: Floats,
    value_slope_out: Floats,
) -> tuple[float, ...]:
    """The loss's gradient with respect to each log-probability, entropy and value. A bound that is off is negative.

    The smaller of advantage * ratio and advantage * clipped ratio counts. Where that is the first, its gradient with
    respect to logp is advantage * ratio; the second, where it is smaller, is a constant.
    """
    rows = len(logp)
    share = ONE / f32(rows)
    low, high = ONE - clip, ONE + clip
    gain_sum = value_loss_sum = entropy_sum = kl_sum = clipped_sum = ratio_sum = value_clipped_sum = 0.0
    for b in range(rows):
        log_ratio = logp[b] - old_logp[b]
        ratio = math.exp(log_ratio)
        plain = advantage[b] * ratio
        bounded = low if ratio < low else (high if ratio > high else ratio)
        limited = advantage[b] * bounded
        counts = not plain > limited
        logp_slope[b] = -plain * share if counts else ZERO
        entropy_slope[b] = entropy_share
        gain_sum += plain if counts else limited
        entropy_sum += entropy[b]
        kl_sum += ratio - ONE - log_ratio
        clipped_sum += abs(ratio - ONE) > clip
        ratio_sum += ratio
        error, flows = value[b] - returns[b], True
        if value_clip >= ZERO:  # the value counts as at most `value_clip` away from the old one
            change = value[b] - old_value[b]
            flows = not abs(change) > value_clip
            value_clipped_sum += not flows
            if not flows:
                error = old_value[b] + (value_clip if change > ZERO else -value_clip) - returns[b]
        slope, loss = value_slope(error, huber_delta)
        value_slope_out[b] = slope * vf_coef * share if flows else ZERO
        value_loss_sum += loss
    return gain_sum, value_loss_sum, entropy_sum, kl_sum, clipped_sum, ratio_sum, value_clipped_sum


@compiled
def normalize_rows(advantage: Floats) -> None:
    """Each row, a minibatch, to mean 0 and standard deviation 1, in place; one of equal numbers to 0."""
    count, size = advantage.shape
    for k in range(count):
        row = advantage[k]
        others = 0
        for b in range(size):  # its own loop, so that the sum is added up as ever
            others += row[b] != row[0]
        if not others:  # NaN differs from itself
            row[:] = ZERO
            continue
        total = ZERO
        for b in range(size):
            total += row[b]
        mean, square = total / f32(size), ZERO
        for b in range(size):
            row[b] -= mean
            square += row[b] * row[b]
        scale = ONE / (math.sqrt(square / f32(size - 1)) + TINY)
        for b in range(size):
            row[b] *= scale


@compiled
def clip_gradient(gradient: Floats, ends: Ints, most: Any, squares: NDArray[np.float64]) -> None:
    """Scales the gradient to a norm of at most `most`; the norm's square before that, by part, into `squares`.

    Part i ends at ends[i], where the next one begins.
    """
    begin, total = 0, 0.0
    for i in range(len(ends)):
        part = ZERO
        for j in range(begin, ends[i]):
            part += gradient[j] * gradient[j]
        begin = ends[i]
        squares[i] = part
        total += float(part)
    scale = f32(most / (math.sqrt(total) + 1e-6))
    if scale < ONE:
        for j in range(len(gradient)):
            gradient[j] *= scale


@compiled
def adam(
    weights: Floats,
    gradient: Floats,
    mean: Floats,
    square: Floats,
    mean_step: Any,
    square_step: Any,
    rate: Any,
    root: Any,
    eps: Any,
) -> None:
    """One step of Adam. The steps are 1 - beta; `rate` and `root` carry the bias corrections of step t,
    lr / (1 - beta1^t) and sqrt(1 - beta2^t). All are rounded once, after the subtraction."""
    for j in range(len(weights)):
        g = gradient[j]
        m = mean[j] + mean_step * (g - mean[j])
        v = square[j] + square_step * (g * g - square[j])
        mean[j], square[j] = m, v
        weights[j] -= rate * m / (math.sqrt(v) / root + eps)
