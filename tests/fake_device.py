"""A second device on a machine that has none: tensors that say they are elsewhere and refuse to meet those on the CPU.

They say `meta`, the one device that torch knows on every machine. Their numbers lie in ordinary tensors, so a run on
this device must give the numbers of a run on the CPU. What a real accelerator would refuse is refused here: operands on
two devices, float64 (as on mps), reading numbers without moving them first.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map

DEVICE = torch.device("meta")


class OnDevice(Tensor):
    """`inner` has the numbers."""

    inner: Tensor

    @staticmethod
    def __new__(cls, inner: Tensor, requires_grad: bool = False) -> OnDevice:
        assert inner.dtype != torch.float64, "the device has no float64"
        made = Tensor._make_wrapper_subclass(  # type: ignore[attr-defined]
            cls,
            inner.shape,
            dtype=inner.dtype,
            device=DEVICE,
            strides=inner.stride(),
            storage_offset=inner.storage_offset(),
            requires_grad=requires_grad,
        )
        made.inner = inner
        return made

    def __repr__(self) -> str:  # type: ignore[override]
        return f"OnDevice({self.inner!r})"

    def numpy(self, *, force: bool = False) -> Any:
        raise TypeError("can't convert a tensor on another device to numpy; use .cpu() first")

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return on_device(func, args, kwargs or {})


def on_device(func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    """Runs an operator on the numbers; where its result lives follows from its operands, or from `device=`."""
    name = func.overloadpacket.__name__
    there, here = [], []

    def look(leaf: Any) -> Any:
        if isinstance(leaf, OnDevice):
            there.append(leaf)
        elif isinstance(leaf, Tensor) and leaf.ndim:
            here.append(leaf)
        return leaf

    tree_map(look, (args, kwargs))
    wanted = kwargs.get("device")
    moving = name in ("_to_copy", "copy_")
    if there and here and not moving and name not in ("index", "index_put_", "_index_put_impl_"):
        raise RuntimeError(f"{name}: expected all tensors to be on the same device, found {DEVICE} and cpu")
    if wanted is not None:
        kwargs = kwargs | {"device": torch.device("cpu")}
    result = func(*unwrapped(args), **unwrapped(kwargs))
    if name == "copy_" or (name.endswith("_") and there):
        return args[0] if isinstance(args[0], Tensor) else None
    lives_there = torch.device(wanted).type == DEVICE.type if wanted is not None else bool(there)
    return tree_map(wrapped, result) if lives_there else result


def unwrapped(tree: Any) -> Any:
    return tree_map(lambda leaf: leaf.inner if isinstance(leaf, OnDevice) else leaf, tree)


def wrapped(leaf: Any) -> Any:
    return OnDevice(leaf) if isinstance(leaf, Tensor) and not isinstance(leaf, OnDevice) else leaf


class FakeDevice(TorchDispatchMode):
    """Inside, what is made on or moved to `meta` is made on or moved to the device above."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return on_device(func, args, kwargs or {})
