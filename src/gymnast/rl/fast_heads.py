"""The actor's outputs scored in NumPy: log-probability, entropy, and the gradient of both, for a batch at a time.

Arrays are [actions, B]: with few actions, operators along the batch are long and those over actions few. The
reference is `agent/distributions.py`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from gymnast.agent.distributions import LOG_2PI, MASKED

Floats = NDArray[np.float32]


class CategoricalScores:
    """One softmax. `outputs` is written by the network; `evaluate`, then `gradient`, work in place."""

    def __init__(self, n_actions: int, rows: int) -> None:
        self.outputs = np.zeros((n_actions, rows), np.float32)  # logits, then log-probabilities
        self.probs, self.slope, self.terms = (np.zeros((n_actions, rows), np.float32) for _ in range(3))
        self.logp, self.entropy, self.row = (np.zeros(rows, np.float32) for _ in range(3))
        self.columns = np.arange(rows)
        self.taken = np.zeros(rows, np.int64)  # index of each action taken in the flattened [actions, B]
        self.mask: NDArray[np.bool_] | None = None

    @staticmethod
    def sample(outputs: Floats, noise: Floats | None, out: NDArray[Any]) -> None:
        """Gumbel: the largest of logit - log(exponential) is a sample. Both arrays, [B, actions], are used up."""
        if noise is not None:
            np.log(noise, out=noise)
            np.subtract(outputs, noise, out=outputs)
        outputs.argmax(1, out=out)

    def evaluate(self, action: NDArray[Any], mask: NDArray[np.bool_] | None) -> None:
        """Sets `logp` and `entropy`."""
        logits, probs, row = self.outputs, self.probs, self.row
        self.mask = None if mask is None else mask.T
        if self.mask is not None:
            logits[~self.mask] = MASKED
        np.maximum.reduce(logits, 0, out=row)
        np.subtract(logits, row, out=logits)
        np.exp(logits, out=probs)
        np.add.reduce(probs, 0, out=row)
        np.divide(probs, row, out=probs)
        np.log(row, out=row)
        np.subtract(logits, row, out=logits)
        np.multiply(action, len(self.columns), out=self.taken)
        np.add(self.taken, self.columns, out=self.taken)
        logits.take(self.taken, out=self.logp, mode="clip")
        np.multiply(probs, logits, out=self.terms)
        np.add.reduce(self.terms, 0, out=self.entropy)
        np.negative(self.entropy, out=self.entropy)

    def gradient(self, logp_weight: Floats, entropy_weight: float) -> Floats:
        """Of sum(logp_weight * logp) + entropy_weight * sum(entropy), with respect to the outputs.

        d logp_a / d z_j = [j = a] - p_j  and  d entropy / d z_j = -p_j (log p_j + entropy).
        """
        slope = self.slope
        if entropy_weight:
            np.add(self.outputs, self.entropy, out=slope)
            np.multiply(slope, -entropy_weight, out=slope)
            np.subtract(slope, logp_weight, out=slope)
            np.multiply(slope, self.probs, out=slope)
        else:
            np.multiply(self.probs, logp_weight, out=slope)
            np.negative(slope, out=slope)
        slope.reshape(-1)[self.taken] += logp_weight
        if self.mask is not None:  # a masked logit was replaced: nothing flows through it
            np.multiply(slope, self.mask, out=slope)
        return slope


class GaussianScores:
    """A diagonal Gaussian whose spread is a parameter; its gradient is added up here."""

    def __init__(self, n_actions: int, rows: int, log_std: Floats, log_std_gradient: Floats) -> None:
        self.outputs = np.zeros((n_actions, rows), np.float32)  # means
        self.log_std, self.log_std_gradient = log_std, log_std_gradient
        self.off, self.squares, self.slope = (np.zeros((n_actions, rows), np.float32) for _ in range(3))
        self.logp, self.entropy = np.zeros(rows, np.float32), np.zeros(rows, np.float32)
        self.std = np.ones((n_actions, 1), np.float32)

    @staticmethod
    def sample(outputs: Floats, log_std: Floats, noise: Floats | None, out: NDArray[Any]) -> None:
        np.copyto(out, outputs)
        if noise is not None:
            np.multiply(noise, np.exp(log_std), out=noise)
            np.add(out, noise, out=out)

    def evaluate(self, action: NDArray[Any], mask: NDArray[np.bool_] | None) -> None:
        """Sets `logp` and `entropy`; a mask makes no sense here."""
        np.exp(self.log_std, out=self.std[:, 0])
        np.subtract(action.T, self.outputs, out=self.off)
        np.divide(self.off, self.std, out=self.off)
        np.multiply(self.off, self.off, out=self.squares)
        np.add.reduce(self.squares, 0, out=self.logp)
        np.multiply(self.logp, -0.5, out=self.logp)
        spread = float(self.log_std.sum()) + 0.5 * LOG_2PI * len(self.log_std)
        np.subtract(self.logp, spread, out=self.logp)
        self.entropy.fill(spread + 0.5 * len(self.log_std))

    def gradient(self, logp_weight: Floats, entropy_weight: float) -> Floats:
        """As for a softmax. With u = (a - mean) / std:

        d logp / d mean = u / std,  d logp / d log_std = u^2 - 1,  d entropy / d log_std = 1.
        """
        np.subtract(self.squares, 1.0, out=self.squares)
        np.matmul(self.squares, logp_weight, out=self.log_std_gradient)
        np.add(self.log_std_gradient, entropy_weight * len(logp_weight), out=self.log_std_gradient)
        np.divide(self.off, self.std, out=self.slope)
        np.multiply(self.slope, logp_weight, out=self.slope)
        return self.slope
