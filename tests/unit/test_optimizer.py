"""Our optimizers against torch's own, bit for bit."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from gymnast.agent.nets.optimizer import Adam, RMSprop


@pytest.mark.parametrize(
    "ours, theirs, options",
    [(Adam, torch.optim.Adam, {"fused": True}), (RMSprop, torch.optim.RMSprop, {"alpha": 0.99, "foreach": False})],
)
def test_steps_equal_torchs(ours: Any, theirs: Any, options: dict[str, Any]) -> None:
    generator = torch.Generator().manual_seed(0)
    mine = [torch.randn(shape, generator=generator).requires_grad_() for shape in ((4, 3), (7,), ())]
    reference = [tensor.detach().clone().requires_grad_() for tensor in mine]
    optimizer = ours({str(i): tensor for i, tensor in enumerate(mine)}, eps=1e-5)
    expected = theirs(reference, lr=0.0, eps=1e-5, **options)
    for step in range(20):
        rate = 1e-2 / (step + 1)
        expected.param_groups[0]["lr"] = rate
        for a, b in zip(mine, reference, strict=True):
            a.grad = torch.randn(a.shape, generator=generator)
            b.grad = a.grad.clone()
        if step == 3:  # a parameter that nothing reached stays where it is, and its count too
            mine[1].grad = reference[1].grad = None
        optimizer.step(rate)
        expected.step()
        for a, b in zip(mine, reference, strict=True):
            assert torch.equal(a, b)
    assert int(optimizer.state["1"]["step"]) == 19


def test_making_one_does_not_load_the_compiler() -> None:
    import subprocess
    import sys

    code = (
        "import sys, torch; from gymnast.agent.nets.optimizer import Adam; p = torch.ones(3, requires_grad=True); "
        "o = Adam({'p': p}, 1e-5); p.grad = torch.ones(3); o.step(1e-3); print('torch._dynamo' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
