"""The rules, a root cause before what it causes: what is wrong with a row, what is said of it, and what is suspected.

Each takes a row, what is known, and a memory of its own. Bounds that hold for every run are the catalogue's
(`warn_low`, `warn_high`); all limits lie beyond what the healthy runs of the presets show.
"""

from __future__ import annotations

from gymnast.alerts.rules import learning, scores  # each adds its rules, in this order
from gymnast.alerts.rules.rule import RULES, Rule

__all__ = ["RULES", "Rule", "learning", "scores"]
