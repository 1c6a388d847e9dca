"""Our optimizers against torch's own, bit for bit."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from gymnast.agent.nets.optimizer import Adam, AdamW, RMSprop

FUSED = {"fused": True}


@pytest.mark.parametrize(
    "ours, theirs, shared, options",
    [
        (Adam, torch.optim.Adam, {}, FUSED),
        (Adam, torch.optim.Adam, {"betas": (0.8, 0.95), "weight_decay": 0.1}, FUSED),
        (AdamW, torch.optim.AdamW, {"weight_decay": 0.0}, FUSED),
        (AdamW, torch.optim.AdamW, {"betas": (0.5, 0.9), "weight_decay": 0.3}, FUSED),
        (RMSprop, torch.optim.RMSprop, {}, {"alpha": 0.99, "foreach": False}),
        (RMSprop, torch.optim.RMSprop, {"weight_decay": 0.1}, {"alpha": 0.99, "foreach": False}),
    ],
    ids=str,
)
def test_steps_equal_torchs(ours: Any, theirs: Any, shared: dict[str, Any], options: dict[str, Any]) -> None:
    generator = torch.Generator().manual_seed(0)
    mine = [torch.randn(shape, generator=generator).requires_grad_() for shape in ((4, 3), (7,), ())]
    reference = [tensor.detach().clone().requires_grad_() for tensor in mine]
    optimizer = ours({str(i): tensor for i, tensor in enumerate(mine)}, eps=1e-5, **shared)
    expected = theirs(reference, lr=0.0, eps=1e-5, **shared, **options)
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


@pytest.mark.parametrize("ours, theirs", [(Adam, torch.optim.Adam), (AdamW, torch.optim.AdamW)])
def test_the_critics_rate_is_a_group_of_its_own(ours: Any, theirs: Any) -> None:
    generator = torch.Generator().manual_seed(0)
    names = ("actor_out", "critic_out", "head.log_std")
    mine = {name: torch.randn((3, 2), generator=generator).requires_grad_() for name in names}
    reference = {name: tensor.detach().clone().requires_grad_() for name, tensor in mine.items()}
    numbers = {"eps": 1e-5, "weight_decay": 0.1}
    others = [reference[name] for name in names if name != "critic_out"]
    groups = [{"params": others, "lr": 1e-3}, {"params": [reference["critic_out"]], "lr": 5e-3}]
    optimizer, expected = ours(mine, **numbers), theirs(groups, fused=True, **numbers)
    for _ in range(5):
        for name, tensor in mine.items():
            tensor.grad = torch.randn(tensor.shape, generator=generator)
            reference[name].grad = tensor.grad.clone()
        optimizer.step(1e-3, 5e-3)
        expected.step()
    for name, tensor in mine.items():
        assert torch.equal(tensor, reference[name]), name


def test_making_one_does_not_load_the_compiler() -> None:
    import subprocess
    import sys

    code = (
        "import sys, torch; from gymnast.agent.nets.optimizer import Adam; p = torch.ones(3, requires_grad=True); "
        "o = Adam({'p': p}, 1e-5); p.grad = torch.ones(3); o.step(1e-3); print('torch._dynamo' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
