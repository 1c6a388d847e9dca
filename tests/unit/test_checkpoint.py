"""Checkpoints come back bit for bit, and a bad moment never leaves a bad file."""

from __future__ import annotations

import json
import math
import os
import random
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from gymnast.core.errors import UserError
from gymnast.core.files import write_atomic
from gymnast.runs.checkpoint import CheckpointError, list_checkpoints, load, save

TENSORS: dict[str, Any] = {
    "bool": torch.tensor([True, False, True]),
    "uint8": torch.arange(256, dtype=torch.uint8).reshape(2, 128),
    "int64": torch.tensor([2**62, -(2**63)]),
    "float32": torch.tensor([0.1, float("nan"), float("-inf"), -0.0, 1e-45]),
    "float64": torch.tensor([[math.pi, 5e-324]], dtype=torch.float64),
    "bfloat16": torch.tensor([1.5, -2.0], dtype=torch.bfloat16),
    "scalar": torch.tensor(3.25),
    "empty": torch.zeros(0, 7),
    "transposed": torch.arange(6.0).reshape(2, 3).T,
    "numpy": np.arange(6, dtype=np.int32).reshape(2, 3),
    "numpy_strided": np.arange(10.0)[::2],
    "numpy_scalar": np.array(7, dtype=np.int64),
    "numpy_bool": np.array([[True], [False]]),
    "numpy_uint32": np.array([2**32 - 1], dtype=np.uint32),
}


def as_bytes(tensor: Any) -> bytes:
    tensor = torch.as_tensor(np.ascontiguousarray(tensor)) if isinstance(tensor, np.ndarray) else tensor
    return bytes(tensor.contiguous().reshape(-1).view(torch.uint8).tolist()) if tensor.numel() else b""


def save_plain(path: Path, steps: int = 5) -> None:
    save(
        path,
        {"w": torch.full((4,), float(steps))},
        {"counters": {"env_steps": steps}},
        {"rollout/ep_rew_mean": 2.0 * steps},
    )


def test_tensors_come_back_bit_for_bit(tmp_path: Path) -> None:
    save(tmp_path / "last.safetensors", TENSORS, {}, {})
    loaded = load(tmp_path / "last.safetensors").tensors
    assert set(loaded) == set(TENSORS)
    for name, tensor in TENSORS.items():
        assert tuple(loaded[name].shape) == tuple(tensor.shape), name
        assert loaded[name].dtype == torch.as_tensor(tensor).dtype, name
        assert as_bytes(loaded[name]) == as_bytes(tensor), name
        loaded[name].zero_()  # owned, writable memory


def test_views_of_one_buffer_can_be_saved(tmp_path: Path) -> None:
    flat = torch.arange(10.0, requires_grad=True)  # an agent whose parameters share one flat buffer
    save(tmp_path / "last.safetensors", {"a": flat[:4], "b": flat[4:], "all": flat}, {}, {})
    loaded = load(tmp_path / "last.safetensors").tensors
    assert loaded["b"].tolist() == [4, 5, 6, 7, 8, 9]


def test_state_comes_back_equal(tmp_path: Path) -> None:
    state = {
        "rng": np.random.default_rng(3).bit_generator.state,  # 128-bit integers
        "nested": {"list": [1, 2.5, "text", None, True, {"deep": []}], "empty": {}},
        "tiny": 0.1 + 0.2,
        "bad": [float("inf"), -float("inf")],
        "looks like": "NaN",
    }
    save(tmp_path / "last.safetensors", {}, state, {})
    assert load(tmp_path / "last.safetensors").state == state
    save(tmp_path / "last.safetensors", {}, {"nan": math.nan}, {})
    assert math.isnan(load(tmp_path / "last.safetensors").state["nan"])


@pytest.mark.parametrize("state", [{1: "a"}, {"a": {"b": np.zeros(2)}}, {"a": [np.int64(3)]}, {"a": {1, 2}}])
def test_a_state_that_would_not_come_back_equal_is_refused(tmp_path: Path, state: dict[Any, Any]) -> None:
    save_plain(tmp_path / "last.safetensors")
    with pytest.raises(TypeError, match="state"):
        save(tmp_path / "last.safetensors", {}, state, {})
    assert load(tmp_path / "last.safetensors").step == 5


def test_the_file_beside_it_has_the_metrics_of_that_moment(tmp_path: Path) -> None:
    metrics = {"time/total_timesteps": 20_000.0, "train/loss": math.nan, "train/approx_kl": math.inf, "train/std": 0.1}
    save(tmp_path / "step_20000.safetensors", {}, {}, metrics)
    written = json.loads((tmp_path / "step_20000.json").read_text(), parse_constant=pytest.fail)
    assert written["step"] == 20_000
    assert written["metrics"]["train/loss"] == "NaN"
    assert written["metrics"]["train/approx_kl"] == "Infinity"
    loaded = load(tmp_path / "step_20000.safetensors")
    assert loaded.step == 20_000
    assert loaded.metrics["train/approx_kl"] == math.inf
    assert loaded.metrics["train/std"] == 0.1
    assert math.isnan(loaded.metrics["train/loss"])
    assert {name: float(value) for name, value in written["metrics"].items()}.keys() == metrics.keys()


def test_every_way_a_file_can_be_bad_is_one_line_with_the_way_out(tmp_path: Path) -> None:
    path = tmp_path / "best.safetensors"
    save_plain(tmp_path / "last.safetensors")
    save_plain(path)
    whole = path.read_bytes()
    newer = whole.replace(b'"gymnast_checkpoint":"2"', b'"gymnast_checkpoint":"9"')
    assert newer != whole
    flipped = bytearray(whole)
    flipped[-1] ^= 1
    foreign = tmp_path / "foreign"
    from safetensors.torch import save_file

    save_file({"w": torch.zeros(2)}, foreign)
    cases = {
        b"": "cut short",
        whole[:5]: "cut short",
        whole[:50]: "cut short",
        whole[:-3]: "bytes instead of",
        whole + b"x": "bytes instead of",
        b"\x00" * len(whole): "not a checkpoint",
        b"hello, this is not a checkpoint": "not a checkpoint",
        random.Random(1).randbytes(5000): "not a checkpoint",
        bytes(flipped): "damaged",
        newer: "upgrade",
        foreign.read_bytes(): "not a checkpoint of Gymnast",
    }
    for content, reason in cases.items():
        path.write_bytes(content)
        with pytest.raises(UserError) as caught:
            load(path)
        message = str(caught.value)
        assert reason in message
        assert str(path) in message
        assert "Intact checkpoints in the same folder: last." in message
        assert "\n" not in message
    path.unlink()
    with pytest.raises(UserError, match="no such file"):
        load(path)
    (tmp_path / "last.safetensors").unlink()
    with pytest.raises(UserError, match="no other checkpoint"):
        load(path)


def test_every_cut_of_a_file_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "last.safetensors"
    save_plain(path)
    whole = path.read_bytes()
    for length in range(0, len(whole), 7):
        path.write_bytes(whole[:length])
        with pytest.raises(UserError):
            load(path)


def test_a_header_whose_length_begins_like_a_zip_file(tmp_path: Path) -> None:
    """A file begins with the length of its header: 19,280 is 0x4B50, whose bytes are "PK"."""
    path = tmp_path / "last.safetensors"
    padding = 0
    for _ in range(2):  # the second time with what the first header lacked
        save(path, {"a": torch.ones(1)}, {"counters": {"env_steps": 5}, "padding": "x" * padding}, {}, readable=False)
        padding = 19_280 - int.from_bytes(path.read_bytes()[:8], "little")
    assert path.read_bytes()[:8] == (19_280).to_bytes(8, "little")
    assert load(path).step == 5


def test_list_tells_broken_from_whole(tmp_path: Path) -> None:
    for steps in (900, 10_000, 2_000):
        save_plain(tmp_path / f"step_{steps}.safetensors", steps)
    save_plain(tmp_path / "best.safetensors", 900)
    (tmp_path / "last.safetensors").write_bytes(b"garbage")
    listed = {info.name: info for info in list_checkpoints(tmp_path)}
    assert list(listed) == ["best", "last", "step_900", "step_2000", "step_10000"]
    assert listed["last"].problem is not None
    assert listed["step_2000"].step == 2000
    assert listed["step_2000"].metrics == {"rollout/ep_rew_mean": 4000.0}


def run_python(code: str, *args: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", textwrap.dedent(code), *args]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_a_full_disk_leaves_the_old_checkpoint_whole(tmp_path: Path) -> None:
    path = tmp_path / "last.safetensors"
    save_plain(path)
    # The system lets this process write 20,000 bytes into a file and no more: for the writer that is a full disk.
    code = """
        import resource, signal, sys, torch
        from gymnast.runs import checkpoint
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))
        try:
            checkpoint.save(sys.argv[1], {"w": torch.zeros(100_000)}, {"counters": {"env_steps": 6}}, {})
        except checkpoint.CheckpointError as error:
            print(error)
    """
    done = run_python(code, str(path))
    assert "cannot save" in done.stdout, done.stderr
    assert "is whole" in done.stdout
    assert done.stdout.count("\n") == 1
    assert load(path).step == 5
    assert sorted(file.name for file in tmp_path.iterdir()) == ["last.json", "last.safetensors"]


def test_an_error_of_writing_names_the_file(tmp_path: Path) -> None:
    code = """
        import pathlib, resource, signal, sys
        from gymnast.core.files import write_atomic
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
        try:
            write_atomic(pathlib.Path(sys.argv[1]), bytes(2000))
        except OSError as error:
            print(error.filename)
    """
    assert run_python(code, str(tmp_path / "run.json")).stdout == f"{tmp_path / 'run.json'}\n"


def test_only_regular_files_are_replaced(tmp_path: Path) -> None:
    """A device, a pipe or a folder that has the name of a file stays what it is."""
    pipe, folder, link, file = (tmp_path / name for name in ("pipe", "folder", "link", "file"))
    os.mkfifo(pipe)
    folder.mkdir()
    link.symlink_to("/dev/null")
    for path in (pipe, folder, link):
        with pytest.raises(FileExistsError, match="not a regular file"):
            write_atomic(path, b"new")
    write_atomic(file, b"old")
    write_atomic(file, b"new")
    assert file.read_bytes() == b"new"
    assert (pipe.is_fifo(), folder.is_dir(), link.is_symlink()) == (True, True, True)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "folder", "link", "pipe"]


def test_saving_into_a_folder_that_cannot_be_made_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(CheckpointError, match="cannot save"):
        save_plain(tmp_path / "file" / "last.safetensors")


def test_kill_9_at_any_moment_leaves_a_whole_checkpoint(tmp_path: Path) -> None:
    path = tmp_path / "last.safetensors"
    # One process imports torch; its forked children save and are killed, which keeps 40 kills quick.
    code = """
        import itertools, os, random, signal, sys, time, torch
        from gymnast.runs import checkpoint
        torch.set_num_threads(1)  # a pool of threads does not survive a fork
        path, draw = sys.argv[1], random.Random(0)

        def save(step):
            weights, state = torch.full((50_000,), float(step)), {"counters": {"env_steps": step}}
            checkpoint.save(path, {"w": weights}, state, {"time/fps": step})

        save(0)
        for kill in range(40):
            ours, its = os.pipe()
            child = os.fork()
            if child == 0:
                for step in itertools.count(1000 * (kill + 1)):
                    save(step)
                    os.write(its, b".")
            os.read(ours, 1)  # it has saved once, however slow the disk, and saves on
            time.sleep(draw.uniform(0.0, 0.03))
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            os.close(ours)
            os.close(its)
            loaded = checkpoint.load(path)
            assert (loaded.tensors["w"] == loaded.step).all()
            print(loaded.step)
    """
    done = run_python(code, str(path))
    assert done.returncode == 0, done.stderr
    steps = [int(line) for line in done.stdout.split()]
    assert [step // 1000 for step in steps] == list(range(1, 41))  # each found what its child had saved
    assert load(path).step == steps[-1]


def test_a_leftover_of_a_killed_save_does_no_harm(tmp_path: Path) -> None:
    path = tmp_path / "last.safetensors"
    save_plain(path)
    (tmp_path / ".last.safetensors.tmp").write_bytes(b"half")
    assert [info.name for info in list_checkpoints(tmp_path)] == ["last"]
    save_plain(path, 6)
    assert load(path).step == 6
    assert not (tmp_path / ".last.safetensors.tmp").exists()


def test_importing_it_does_not_import_torch() -> None:
    code = "import sys, gymnast.runs.checkpoint; print('torch' in sys.modules)"
    assert run_python(code).stdout.strip() == "False"
