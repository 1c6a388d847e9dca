"""The Nature CNN: its sizes, its equality with torch's own layers, and what it refuses."""

from __future__ import annotations

import math
import platform
import subprocess
import sys
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from gymnasium import spaces
from torch import nn

from gymnast.agent.agent import Agent
from gymnast.agent.bodies.cnn import NatureCNN
from gymnast.agent.nets import choose_net
from gymnast.config import AgentConfig
from gymnast.core import devices
from gymnast.core.errors import UserError
from gymnast.rl.rollout import Rollout


def config(**values: Any) -> AgentConfig:
    return AgentConfig(**({"encoder": "nature_cnn", "hidden": [], "shared": True} | values))


def pictures(*shape: int) -> gym.Space[Any]:
    return spaces.Box(0, 255, shape, np.uint8)


def frames(*shape: int) -> torch.Tensor:
    return torch.randint(0, 256, shape, dtype=torch.uint8, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize(
    "shape,flat",
    [
        ((4, 84, 84), 7 * 7 * 64),  # 84 -> 20 -> 9 -> 7
        ((3, 100, 64), 9 * 4 * 64),  # 100 -> 24 -> 11 -> 9; 64 -> 15 -> 6 -> 4
        ((1, 36, 36), 1 * 1 * 64),  # 36 -> 8 -> 3 -> 1
    ],
)
def test_any_size_of_picture(shape: tuple[int, ...], flat: int) -> None:
    encoder = NatureCNN({"obs": pictures(*shape)}, config())
    assert encoder.leaves[0].linear.in_features == flat  # type: ignore[union-attr]
    assert encoder({"obs": frames(2, *shape)}).shape == (2, 512)
    assert encoder.out_features == 512
    assert NatureCNN({"obs": pictures(*shape)}, config(hidden=[32])).out_features == 32


def torch_layers(encoder: NatureCNN) -> nn.Sequential:
    """The same network from torch's own layers, which want weights [out, in, h, w] and flatten channels first."""
    leaf: Any = encoder.leaves[0]
    layers: list[nn.Module] = []
    for convolution in leaf.convolutions:
        out, side, _, channels = convolution.weight.shape
        layer = nn.Conv2d(channels, out, side, convolution.stride)
        layer.weight.data, layer.bias.data = convolution.weight.data.permute(0, 3, 1, 2), convolution.bias.data
        layers += [layer, nn.ReLU()]
    linear = nn.Linear(leaf.linear.in_features, 512)
    linear.weight.data = leaf.linear.weight.data.unflatten(1, (7, 7, 64)).permute(0, 3, 1, 2).flatten(1)
    linear.bias.data = leaf.linear.bias.data
    return nn.Sequential(*layers, nn.Flatten(), linear, nn.ReLU())


def test_equals_torchs_layers_on_scaled_frames_and_so_do_its_gradients() -> None:
    torch.manual_seed(0)
    encoder = NatureCNN({"obs": pictures(4, 84, 84)}, config())
    reference = torch_layers(encoder)
    x = frames(5, 4, 84, 84)
    mine, theirs = encoder({"obs": x}), reference(x.float() / 255)
    torch.testing.assert_close(mine, theirs, rtol=1e-5, atol=1e-5)
    channels_last = x.contiguous(memory_format=torch.channels_last)
    torch.testing.assert_close(encoder({"obs": channels_last}), mine, rtol=1e-5, atol=1e-5)
    mine.square().mean().backward()
    theirs.square().mean().backward()
    leaf: Any = encoder.leaves[0]
    for own, layer in zip(leaf.convolutions, (reference[0], reference[2], reference[4]), strict=True):
        grad: Any = layer.weight.grad
        torch.testing.assert_close(own.weight.grad, grad.permute(0, 2, 3, 1), rtol=1e-3, atol=1e-6)
        torch.testing.assert_close(own.bias.grad, layer.bias.grad, rtol=1e-3, atol=1e-6)
    assert all(parameter.is_contiguous() for parameter in encoder.parameters())


def test_parts_of_a_batch_in_threads_give_the_same_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(0)
    encoder = NatureCNN({"obs": pictures(4, 84, 84)}, config())
    x = {"obs": frames(70, 4, 84, 84)}
    found = []
    for parts in (1, 2, 2):
        monkeypatch.setattr(devices, "_parts", parts)
        encoder.zero_grad()
        out = encoder(x)
        out.square().mean().backward()
        with torch.no_grad():
            torch.testing.assert_close(encoder(x), out, rtol=1e-5, atol=1e-5)
        found.append([out.detach(), *(parameter.grad for parameter in encoder.parameters())])
    for one, two, again in zip(*found, strict=True):
        torch.testing.assert_close(two, one, rtol=1e-3, atol=1e-6)
        torch.testing.assert_close(again, two, rtol=0, atol=0)  # the same bits every time


def test_orthogonal_start() -> None:
    encoder = NatureCNN({"obs": pictures(4, 84, 84)}, config())
    leaf: Any = encoder.leaves[0]
    rows = leaf.convolutions[0].weight.flatten(1)  # 32 filters of 4 * 8 * 8: rows at right angles, of length sqrt(2)
    torch.testing.assert_close(rows @ rows.T, 2 * torch.eye(32), rtol=0, atol=1e-5)
    assert not any(convolution.bias.any() for convolution in leaf.convolutions)
    plain: Any = NatureCNN({"obs": pictures(4, 84, 84)}, config(ortho_init=False)).leaves[0]
    bound = 1 / math.sqrt(4 * 8 * 8)  # torch's own start: uniform, by the number of inputs
    assert 0.9 * bound < plain.convolutions[0].weight.abs().max() <= bound


def test_other_leaves_stand_beside_the_pictures() -> None:
    encoder = NatureCNN({"camera": pictures(3, 40, 40), "gear": spaces.Discrete(5)}, config())
    assert encoder.out_features == 512 + 5
    features = encoder({"camera": frames(2, 3, 40, 40), "gear": torch.tensor([0, 3])})
    assert features[:, 512:].argmax(1).tolist() == [0, 3]


@pytest.mark.parametrize(
    "space,expected",
    [
        (spaces.Box(-1, 1, (4,)), r"nature_cnn reads pictures .* the observation has none .* Use agent.encoder=mlp"),
        (pictures(3, 20, 64), r"at least 36 x 36 pixels; observation 'obs' has 20 x 64"),
    ],
)
def test_what_it_cannot_read_is_refused(space: gym.Space[Any], expected: str) -> None:
    with pytest.raises(UserError, match=expected) as error:
        NatureCNN({"obs": space}, config())
    assert "\n" not in str(error.value)


def test_rollout_keeps_bytes_channels_last_and_minibatches_too() -> None:
    agent = Agent({"obs": pictures(4, 84, 84)}, spaces.Discrete(6), config(), 0.99)
    rollout = Rollout(4, 2, agent)
    stored = rollout.obs["obs"]
    assert (stored.shape, stored.dtype) == ((4, 2, 4, 84, 84), torch.uint8)
    rollout["action"].zero_()
    stored.copy_(frames(4, 2, 4, 84, 84))
    flat = rollout.batch(["action"])
    assert flat.obs["obs"].data_ptr() == stored.data_ptr()  # not a copy
    net, order = choose_net(agent), torch.randperm(8, generator=torch.Generator().manual_seed(0))
    for batch in net.shuffled(net.prepare(flat), order, 4):
        assert batch.obs["obs"].dtype == torch.uint8
        assert batch.obs["obs"].is_contiguous(memory_format=torch.channels_last)
    torch.testing.assert_close(batch.obs["obs"], frames(4, 2, 4, 84, 84).flatten(0, 1)[order[-4:]])


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="about glibc's memory")
def test_a_large_network_keeps_its_memory() -> None:
    """8 blocks of 16 MB are 32,768 pages of 4 KB. Freed, they go back to the system, or stay for a large network."""
    code = (
        "import torch\nfrom gymnast.core.devices import set_threads\n"
        "def resident():\n    return int(open('/proc/self/statm').read().split()[1])\n"
        "for large_network in (False, True):\n"
        "    set_threads(None, large_network=large_network)\n"
        "    before = resident()\n    blocks = [torch.ones(4 << 20) for _ in range(8)]\n    del blocks\n"
        "    print(resident() - before)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    small, large = map(int, done.stdout.split())
    assert small < 32_768 // 2 < large
