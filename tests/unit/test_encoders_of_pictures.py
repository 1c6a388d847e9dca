"""Small, residual and board networks against torch's own layers; norms of layers and pictures, which stand still."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from gymnasium import spaces
from torch import Tensor, nn
from torch.nn import functional as F

from gymnast.agent.agent import Agent
from gymnast.agent.bodies.cnn import BoardCNN, Convolution, ImpalaCNN, SmallCNN
from gymnast.agent.bodies.norms import BatchNorm, PictureNorm
from gymnast.agent.nets import choose_net
from gymnast.config import AgentConfig
from gymnast.core import devices
from gymnast.core.errors import UserError
from gymnast.core.registry import ENCODERS
from gymnast.rl.rollout import Rollout


def config(encoder: str, **values: Any) -> AgentConfig:
    return AgentConfig(**({"encoder": encoder, "hidden": [], "shared": True} | values))


def pictures(*shape: int) -> gym.Space[Any]:
    return spaces.Box(0, 255, shape, np.uint8)


def frames(*shape: int) -> Tensor:
    return torch.randint(0, 256, shape, dtype=torch.uint8, generator=torch.Generator().manual_seed(0))


def plain(convolution: Any, x: Tensor, padding: int = 0) -> Tensor:
    """The same by torch's own rule, which wants weights [out, in, h, w]."""
    return F.conv2d(x, convolution.weight.permute(0, 3, 1, 2), convolution.bias, convolution.stride, padding)


@pytest.mark.parametrize("encoder,least", [("small_cnn", 8), ("impala_cnn", 8), ("nature_cnn", 36)])
@pytest.mark.parametrize("side", [8, 9, 16, 35, 36, 42, 64, 84, 97])
def test_every_size_of_picture_works_or_is_refused_in_one_line(encoder: str, least: int, side: int) -> None:
    def make() -> Any:
        return ENCODERS.get(encoder)({"obs": pictures(2, side, side + 3)}, config(encoder))

    if side < least:
        with pytest.raises(UserError, match=rf"at least {least} x {least} pixels; observation 'obs' has {side} x"):
            make()
        return
    network = make()
    assert network({"obs": frames(3, 2, side, side + 3)}).shape == (3, network.out_features)


def test_the_small_network_is_that_of_2013() -> None:
    torch.manual_seed(0)
    encoder = SmallCNN({"obs": pictures(4, 84, 84)}, config("small_cnn"))
    leaf: Any = encoder.leaves[0]
    x = frames(5, 4, 84, 84)
    y = x.float() / 255
    for convolution in leaf.convolutions:
        y = plain(convolution, y).relu()
    assert y.shape == (5, 32, 9, 9)  # 84 -> 20 -> 9: nothing is padded
    expected = F.linear(y.permute(0, 2, 3, 1).flatten(1), leaf.linear.weight, leaf.linear.bias).relu()
    torch.testing.assert_close(encoder({"obs": x}), expected, rtol=1e-5, atol=1e-5)


def test_the_small_network_sees_every_pixel() -> None:
    """42 + 2 of padding -> 10 -> 4. Without it 42 -> 9 -> 3: kernels would end at pixel 36."""
    torch.manual_seed(0)
    for side in (*range(8, 60), 84):
        encoder = SmallCNN({"obs": pictures(1, side, side)}, config("small_cnn"))
        black = torch.zeros(1, 1, side, side, dtype=torch.uint8)
        for corner in ((0, 0), (0, -1), (-1, 0), (-1, -1)):
            lit = black.clone()
            lit[0, 0, *corner] = 255
            convolved = [encoder.leaves[0].convolved(x.float()) for x in (black, lit)]  # type: ignore[operator, union-attr]
            assert not torch.equal(*convolved), (side, corner)
    leaf: Any = SmallCNN({"obs": pictures(4, 42, 42)}, config("small_cnn")).leaves[0]
    assert leaf.linear.in_features == 4 * 4 * 32
    products = 10 * 10 * 16 * 8 * 8 * 4 + 4 * 4 * 32 * 4 * 4 * 16 + 512 * 256
    assert products < 0.08 * 9.34e6  # of those of the Nature network on 84 x 84 x 4


def test_the_residual_network_equals_torchs_layers() -> None:
    torch.manual_seed(0)
    encoder = ImpalaCNN({"obs": pictures(3, 20, 17)}, config("impala_cnn"))
    leaf: Any = encoder.leaves[0]
    x = frames(2, 3, 20, 17)
    y = x.float() / 255
    for convolution, _, *blocks in leaf.sections:
        y = F.max_pool2d(plain(convolution, y, padding=1), 3, 2, padding=1)
        for block in blocks:
            first, second = block.convolutions
            y = y + plain(second, plain(first, y.relu(), padding=1).relu(), padding=1)
    assert y.shape == (2, 32, 3, 3)  # 20 -> 10 -> 5 -> 3; 17 -> 9 -> 5 -> 3
    expected = F.linear(y.relu().permute(0, 2, 3, 1).flatten(1), leaf.linear.weight, leaf.linear.bias).relu()
    torch.testing.assert_close(encoder({"obs": x}), expected, rtol=1e-4, atol=1e-4)
    assert [c.weight.shape[0] for c in leaf.modules() if isinstance(c, Convolution)] == [16] * 5 + [32] * 10


def test_boards_of_bits() -> None:
    torch.manual_seed(0)
    board = spaces.Box(0, 1, (10, 10, 6), np.bool_)
    encoder = BoardCNN({"obs": board}, config("board_cnn"))
    leaf: Any = encoder.leaves[0]
    x = torch.rand(4, 10, 10, 6) < 0.3
    y = plain(leaf.convolutions[0], x.permute(0, 3, 1, 2).float()).relu()
    expected = F.linear(y.permute(0, 2, 3, 1).flatten(1), leaf.linear.weight, leaf.linear.bias).relu()
    torch.testing.assert_close(encoder({"obs": x}), expected, rtol=1e-5, atol=1e-5)
    assert leaf.linear.in_features == 8 * 8 * 16
    with pytest.raises(UserError, match=r"board_cnn reads boards .* the observation has none"):
        BoardCNN({"obs": pictures(4, 42, 42)}, config("board_cnn"))


@pytest.mark.parametrize("norm", ["layer_norm", "batch_norm"])
@pytest.mark.parametrize("encoder", ["small_cnn", "impala_cnn", "nature_cnn"])
def test_norms_stand_behind_every_convolution(encoder: str, norm: str) -> None:
    network = ENCODERS.get(encoder)({"obs": pictures(2, 42, 42)}, config(encoder, hidden=[8], **{norm: True}))
    found = [m for m in network.modules() if isinstance(m, BatchNorm | nn.GroupNorm | nn.LayerNorm)]
    convolutions = [m for m in network.modules() if isinstance(m, Convolution)]
    assert len(found) >= len(convolutions) - 3 + 1  # the first of a residual section has none; and the hidden layer
    assert network({"obs": frames(3, 2, 42, 42)}).shape == (3, 8)


def batch_normed(**values: Any) -> Agent:
    torch.manual_seed(0)
    spec = {"obs": spaces.Box(-np.inf, np.inf, (3,), np.float32)}
    return Agent(spec, spaces.Discrete(4), AgentConfig(batch_norm=True, **values), 0.99)


def test_batch_norm_moves_only_between_rollouts_and_then_to_what_the_layers_give() -> None:
    agent = batch_normed(hidden=[5], activation="relu")
    obs = {"obs": 3 + 2 * torch.randn(500, 3)}
    norms = [m for m in agent.modules() if isinstance(m, BatchNorm)]
    before = agent.act(obs).logp
    torch.testing.assert_close(agent.act({"obs": obs["obs"][:1]}).logp, before[:1])  # not on the samples beside it
    assert all(torch.equal(norm.mean, torch.zeros(5)) for norm in norms)
    agent.measure(obs)
    linear: Any = agent.actor_body.layers[0]
    inputs = linear(obs["obs"])
    torch.testing.assert_close(norms[0].mean, inputs.mean(0))
    torch.testing.assert_close(norms[0].var, inputs.var(0, correction=0))
    agent.measure({"obs": obs["obs"] + 1})  # the second of two rollouts counts half
    torch.testing.assert_close(norms[0].mean, (inputs.mean(0) + linear(obs["obs"] + 1).mean(0)) / 2)


@pytest.mark.parametrize("encoder", ["small_cnn", "impala_cnn", "nature_cnn"])
def test_normalised_pictures_enter_with_mean_0_and_standard_deviation_1(encoder: str) -> None:
    torch.manual_seed(0)
    agent = Agent({"obs": pictures(2, 42, 40)}, spaces.Discrete(4), config(encoder, normalize_pictures=True), 0.99)
    (norm,) = (m for m in agent.modules() if isinstance(m, PictureNorm))
    (first, *_) = (m for m in agent.modules() if isinstance(m, Convolution))
    x = frames(50, 2, 42, 40) // 4 + 80
    same = torch.Generator().manual_seed(1)
    torch.testing.assert_close(first(x.float()), plain(first, x.float() / 255, first.padding), rtol=1e-4, atol=1e-4)
    before = agent.act({"obs": x}, sample=same).logp
    assert torch.equal(norm.mean, torch.zeros(42, 40, 2))  # acting measures nothing
    agent.measure({"obs": x})
    mean = x.float().mean(0)
    variance = (x.float() - mean).square().mean()  # of all pixels together: 16^2 / 3 of the range, and no more
    torch.testing.assert_close(norm.mean.permute(2, 0, 1), mean)
    torch.testing.assert_close(norm.var, variance)
    expected = plain(first, (x - mean) / (variance + 1).sqrt(), first.padding)
    torch.testing.assert_close(first(x.float()), expected, rtol=1e-4, atol=1e-4)
    assert not torch.equal(agent.act({"obs": x}, sample=same.manual_seed(1)).logp, before)
    agent.measure({"obs": x + 10})  # the second of two rollouts counts half
    torch.testing.assert_close(norm.mean.permute(2, 0, 1), mean + 5)


def test_boards_are_not_normalised_as_pictures() -> None:
    board = spaces.Box(0, 1, (10, 10, 6), np.bool_)
    network = BoardCNN({"obs": board}, config("board_cnn", normalize_pictures=True))
    assert not [m for m in network.modules() if isinstance(m, PictureNorm)]


@pytest.mark.parametrize("norm", ["layer_norm", "batch_norm", "normalize_pictures"])
def test_the_ratio_is_1_before_the_first_step(norm: str) -> None:
    torch.manual_seed(0)
    agent = Agent({"obs": pictures(2, 36, 36)}, spaces.Discrete(4), config("small_cnn", **{norm: True}), 0.99)
    net, rollout = choose_net(agent), Rollout(6, 4, agent)
    agent.measure({"obs": frames(24, 2, 36, 36)})
    rollout.obs["obs"].copy_(frames(6, 4, 2, 36, 36))
    for t in range(6):
        array = {"obs": rollout.obs["obs"][t].numpy()}
        choice = net.act(array, {}, np.zeros(4, np.bool_), None, torch.Generator().manual_seed(t))
        rollout["action"][t].copy_(torch.from_numpy(choice.action))
        assert choice.logp is not None
        rollout["logp"][t].copy_(choice.logp)
    batch = rollout.batch(["action", "logp"])
    out = net.forward(net.prepare(batch))
    torch.testing.assert_close(out.logp, batch["logp"], rtol=1e-5, atol=1e-6)


def test_threads_do_not_divide_what_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    means = []
    for parts in (1, 2):
        torch.manual_seed(0)
        agent = Agent({"obs": pictures(2, 36, 36)}, spaces.Discrete(4), config("small_cnn", batch_norm=True), 0.99)
        monkeypatch.setattr(devices, "_parts", parts)
        agent.measure({"obs": frames(128, 2, 36, 36)})
        assert devices.parts_of_a_batch() == parts
        means.append([m.mean for m in agent.modules() if isinstance(m, BatchNorm)])
    for one, two in zip(*means, strict=True):
        torch.testing.assert_close(one, two, rtol=0, atol=0)
