"""Modules that an algorithm's file uses, imported when they are first used: reading its settings must not take torch's
two seconds."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any


class LazyModule:
    """Stands for a module; keeps every attribute that was asked for, so that only the first use pays."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, attribute: str) -> Any:
        value = getattr(importlib.import_module(self._name), attribute)
        setattr(self, attribute, value)
        return value


if TYPE_CHECKING:
    import numpy as np
    import torch as torch
else:
    np, torch = LazyModule("numpy"), LazyModule("torch")

__all__ = ["LazyModule", "np", "torch"]
