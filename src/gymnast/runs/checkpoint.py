"""Checkpoints: one safetensors file with everything in it, whole at every moment; no pickle.

Tensors are the file's tensors. The JSON state and the metrics of that moment lie in the header's metadata, so that one
rename replaces all of it. NAME.json repeats the metrics for people to read; the header is what counts.
NAME.csv has the last steps before it, one a row, as `play/step_table.py` writes them.
"""

from __future__ import annotations

import io
import json
import math
import os
import zipfile
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np
from numpy.typing import NDArray
from pydantic import TypeAdapter
from typing_extensions import TypedDict

from gymnast import config as configs
from gymnast.core.errors import DISTRIBUTION, UserError, did_you_mean
from gymnast.core.files import FULL, LARGEST, number_from_json, number_to_json, open_regular, write_atomic, write_json
from gymnast.core.machine import free_memory
from gymnast.core.text import cut, printable
from gymnast.core.trust import require_trust, run_above
from gymnast.core.typed import Count, Number, typed
from gymnast.runs.folder import CHECKPOINT_SUFFIX, checkpoint_order

if TYPE_CHECKING:
    import torch

FORMAT = 2  # 1: its checksum was of the tensors' names and bytes alone
FORMAT_KEY = "gymnast_checkpoint"
ZIPPED = "model.safetensors"  # what a checkpoint is called inside a zip archive
FLOAT_TAG = "$float"  # {"$float": "NaN"}: how a float that JSON cannot write stands in the state


class CheckpointError(UserError):
    """A checkpoint that cannot be written or read. One line with the file and what to do."""


class DiskFull(CheckpointError):
    """It may be written later, when there is room again."""


class _Entry(TypedDict):
    """A tensor in the header."""

    dtype: str
    shape: list[Count]
    data_offsets: tuple[Count, Count]


class _Training(TypedDict):
    """What a state must have to be resumed; each part checks its own."""

    config: dict[str, Any]
    threshold: Number | None
    counters: dict[str, Count]
    judge: dict[str, Any]


ENTRIES, TRAINING = TypeAdapter(dict[str, _Entry]), TypeAdapter(_Training)
TEXTS, METRICS, STATE = TypeAdapter(dict[str, str]), TypeAdapter(dict[str, Number]), TypeAdapter(dict[str, Any])


@dataclass(frozen=True)
class Checkpoint:
    path: Path
    tensors: dict[str, torch.Tensor]
    state: dict[str, Any]
    metrics: dict[str, float]

    @property
    def step(self) -> int | None:
        return _step(self.state, self.metrics)

    def require_training_state(self) -> None:
        """An earlier version kept a run's state in another form: its agent can be used, its training not resumed."""
        try:
            typed(TRAINING, self.state)
        except ValueError as error:
            raise CheckpointError(
                f"{self.path} was written by an earlier version and cannot be resumed, or is damaged: {error}. "
                "Start a new run with its agent: gymnast train ENV --init-from REF."
            ) from None

    @property
    def settings(self) -> dict[str, Any]:
        """The config as it stands in the file. Untrusted if it names code and the file is not the user's own."""
        data: dict[str, Any] = typed(STATE, self.state.get("config"))
        about = self.state.get("about")
        require_trust(self.path, data, about if isinstance(about, dict) else {})
        return data

    @property
    def config(self) -> configs.RunConfig:
        try:
            return configs.validate(self.settings)
        except (ValueError, configs.ConfigError) as error:
            reason = "; ".join(str(error).splitlines())
            raise CheckpointError(f"cannot use checkpoint {self.path}: its config: {reason}") from None

    @property
    def env_id(self) -> str | None:
        """Also of earlier versions, whose config may no longer be valid."""
        try:
            return str(self.state["config"]["env"]["id"])
        except (KeyError, TypeError):
            return None

    @property
    def stage(self) -> str | None:
        """The one that this agent was in; None: its run has none."""
        config, counters = self.state.get("config"), self.state.get("counters")
        names = list(config.get("stages") or ()) if isinstance(config, dict) else []
        index = counters.get("stage") if isinstance(counters, dict) else None
        return names[index] if isinstance(index, int) and 0 <= index < len(names) else None

    def in_stage(self, name: str | None = None) -> configs.RunConfig:
        """The settings of a stage, by name; None: of the one that this agent was in."""
        config, name = self.config, name or self.stage
        names = list(config.stages)
        if name is None:
            return config
        if name not in names:
            known = f"{did_you_mean(name, names)} It has {', '.join(names)}." if names else " It has none."
            raise UserError(f"--stage {name}: the run has no such stage.{known}")
        return config.in_stage(names.index(name))

    def alone(self) -> Checkpoint:
        """As one of a run without stages, in the env of the stage that it was in."""
        if self.stage is None:
            return self
        counters = self.state["counters"] | {"stage": 0, "stage_began": 0, "advancing": False}
        config = self.in_stage().model_dump(mode="json")
        return replace(self, state=self.state | {"config": config, "counters": counters})

    @property
    def threshold(self) -> float | None:
        """What counted as solved. Of one whose training state is whole."""
        threshold = self.state["threshold"]
        return None if threshold is None else number_from_json(threshold)

    @property
    def about(self) -> dict[str, Any]:
        """What its builder wanted to be kept; nothing in one of `gymnast train`."""
        return self._part("about")

    @property
    def judged(self) -> dict[str, Any]:
        """What the run knew of its evaluations and verdicts."""
        return {name: value for name, value in self._part("judge").items() if name != "waiting"}

    def _part(self, name: str) -> dict[str, Any]:
        try:
            return typed(STATE, self.state.get(name) or {})
        except ValueError as error:
            raise self.unusable(f"{name}: {error}") from None

    def unusable(self, reason: str) -> CheckpointError:
        """To be raised where a part of its state is not what this version writes."""
        return CheckpointError(f"cannot use checkpoint {self.path}: {cut(printable(reason), 300)}. Use another one.")

    def require_env(self) -> None:
        """A command can make an env by its id, and no other."""
        if self.about.get("env") == "object":
            raise CheckpointError(
                f"{self.path} was trained on an object of Python code, {self.state['config']['env']['id']}, which no "
                "command can make. In Python: gymnast.evaluate_policy(gymnast.load(path), env)."
            )

    @property
    def agent(self) -> dict[str, torch.Tensor]:
        """The agent's weights and statistics, by their own names."""
        prefix = "agent/"
        return {key[len(prefix) :]: tensor for key, tensor in self.tensors.items() if key.startswith(prefix)}


@dataclass(frozen=True)
class CheckpointInfo:
    """What can be said of a checkpoint without torch."""

    path: Path
    step: int | None
    metrics: dict[str, float]
    problem: str | None  # why it cannot be used, or None

    @property
    def name(self) -> str:
        return self.path.stem


def save(
    path: str | Path,
    tensors: Mapping[str, torch.Tensor | NDArray[Any]],
    state: Mapping[str, Any],
    metrics: Mapping[str, float],
    table: str | None = None,
    readable: bool = True,
) -> None:
    """Replaces `path` in one step, then NAME.json if `readable`, and NAME.csv with the `table`. On any failure the
    checkpoint there stays whole. NAME.zip is an archive with the checkpoint in it, as other programs expect."""
    path = Path(path)
    about = {"step": _step(state, metrics), "metrics": dict(metrics)}
    data = to_bytes(tensors, state, metrics)
    write(path, _zipped(data) if path.suffix == ".zip" else data, about if readable else None, table)


def write(path: Path, data: bytes, about: dict[str, Any] | None, table: str | None) -> None:
    """The same with the checkpoint's bytes. `about`: for NAME.json."""
    try:
        write_atomic(path, data)
        if about is not None:
            write_json(path.with_suffix(".json"), about)
        if table is not None:
            write_atomic(path.with_suffix(".csv"), table.encode())
    except OSError as error:
        kept = "the checkpoint that was there is whole" if path.exists() else "nothing was left behind"
        kind = DiskFull if error.errno in FULL else CheckpointError
        raise kind(f"cannot save {path} ({len(data):,} bytes): {error.strerror}; {kept}.") from error


def to_bytes(
    tensors: Mapping[str, torch.Tensor | NDArray[Any]], state: Mapping[str, Any], metrics: Mapping[str, float]
) -> bytes:
    """A checkpoint's file."""
    from safetensors.torch import save as serialize

    copies = {name: _copy(tensor) for name, tensor in tensors.items()}
    metadata = {
        FORMAT_KEY: str(FORMAT),
        "state": json.dumps(_encode(dict(state), "state"), allow_nan=False),
        "metrics": json.dumps({name: number_to_json(value) for name, value in metrics.items()}, allow_nan=False),
    }
    metadata["crc32"] = str(_checksum(copies, metadata))
    return serialize(copies, metadata)


def load(path: str | Path, data: bytes | None = None) -> Checkpoint:
    """The checkpoint, or a line that says what is wrong with the file and which others of its folder are whole.

    `data`: its bytes, where they were read already.
    """
    from safetensors import SafetensorError

    path = Path(path)
    try:
        with open_regular(path, follow=run_above(path) is None) if data is None else io.BytesIO(data) as found:
            file = _unzipped(found)
            metadata, state, metrics = _read_header(file)
            file.seek(0)
            data = file.read()

        from safetensors.torch import load as deserialize  # torch takes seconds: a broken file is reported first

        tensors = deserialize(data)
    except FileNotFoundError:
        raise _unusable(path, "there is no such file") from None
    except OSError as error:
        raise _unusable(path, error.strerror or str(error)) from error
    except (SafetensorError, ValueError, RecursionError, zipfile.BadZipFile) as error:
        raise _unusable(path, str(error)) from error
    if metadata["crc32"] != str(_checksum(tensors, metadata)):
        raise _unusable(path, "its content is damaged (checksum differs)")
    return Checkpoint(path, tensors, state, metrics)


def _zipped(data: bytes) -> bytes:
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as into:
        into.writestr(zipfile.ZipInfo(ZIPPED), data)  # not compressed: weights hardly shrink
    return archive.getvalue()


def _unzipped(file: BinaryIO) -> BinaryIO:
    """The checkpoint in a zip archive of ours; any other file as it is."""
    if zipfile.is_zipfile(file):
        with zipfile.ZipFile(file) as archive:
            inside = archive.NameToInfo.get(ZIPPED)
            if inside is not None and inside.compress_type == zipfile.ZIP_STORED:
                return io.BytesIO(archive.read(inside))
    file.seek(0)
    return file


def list_checkpoints(folder: str | Path) -> list[CheckpointInfo]:
    """Every checkpoint of a folder, with what is wrong where something is."""
    return [describe(path) for path in sorted(Path(folder).glob(f"[!.]*{CHECKPOINT_SUFFIX}"), key=checkpoint_order)]


def describe(path: Path) -> CheckpointInfo:
    """Reads the header only and needs no torch."""
    try:
        with open_regular(path) as file:
            _, state, metrics = _read_header(file)
        return CheckpointInfo(path, _step(state, metrics), metrics, None)
    except OSError as error:
        return CheckpointInfo(path, None, {}, error.strerror)
    except (ValueError, RecursionError) as error:
        return CheckpointInfo(path, None, {}, str(error))


def require_trusted(path: Path) -> None:
    """Untrusted as `Checkpoint.settings` is, by the header alone. What is wrong with the file is reported by `load`."""
    try:
        with open_regular(path) as file:
            _, state, _ = _read_header(file)
    except (OSError, ValueError, RecursionError):
        return
    about = state.get("about")
    require_trust(path, state.get("config"), about if isinstance(about, dict) else {})


def _copy(tensor: torch.Tensor | NDArray[Any]) -> torch.Tensor:
    """Alone and contiguous: safetensors refuses views into one buffer, and an agent's parameters may be just that."""
    import torch

    if isinstance(tensor, torch.Tensor):
        return tensor.detach().to("cpu", copy=True, memory_format=torch.contiguous_format)
    return torch.from_numpy(np.array(tensor, order="C"))


def _checksum(tensors: Mapping[str, torch.Tensor], metadata: Mapping[str, str]) -> int:
    import torch

    whole = metadata[FORMAT_KEY] != "1"
    total = zlib.crc32((metadata["state"] + metadata["metrics"]).encode()) if whole else 0
    for name in sorted(tensors):
        kind = f"{tensors[name].dtype}{tuple(tensors[name].shape)}" if whole else ""
        total = zlib.crc32((name + kind).encode(), total)
        if tensors[name].numel():
            total = zlib.crc32(tensors[name].reshape(-1).view(torch.uint8).numpy().data, total)
    return total


def _read_header(file: BinaryIO) -> tuple[dict[str, str], dict[str, Any], dict[str, float]]:
    """Our part of a safetensors header, the state and the metrics; ValueError with the reason where the file is not a
    whole checkpoint of ours. Nothing of the size that the file itself names is read before it is checked."""
    size = file.seek(0, os.SEEK_END)
    file.seek(0)
    start = file.read(9)
    if len(start) < 9:
        raise ValueError(f"it is cut short ({size} bytes)")
    span = int.from_bytes(start[:8], "little")
    if start.startswith(b"PK\x03\x04"):  # all four: a header of 19,280 bytes also begins with PK
        raise ValueError(
            "it is a zip file. One that stable-baselines3 saved holds pickled code and other networks, and cannot be "
            "loaded: train again here. One of `gymnast runs zip` is unpacked first"
        )
    if start[8:] != b"{":
        raise ValueError("it is not a checkpoint")
    if size < 8 + span:
        raise ValueError(f"it is cut short ({size:,} bytes)")
    if span > LARGEST:
        raise ValueError(f"its header has more than {LARGEST >> 20} MB")
    try:
        fields = typed(STATE, json.loads(start[8:] + file.read(span - 1)))
        metadata = typed(TEXTS, fields.pop("__metadata__", {}))
    except ValueError:
        raise ValueError("it is not a checkpoint") from None
    version = metadata.get(FORMAT_KEY, "")
    if not version.isdecimal():
        raise ValueError("it is not a checkpoint of Gymnast")
    if int(version) > FORMAT:
        raise ValueError(
            f"it has format {version}, this Gymnast reads up to {FORMAT}: upgrade with `pip install -U {DISTRIBUTION}`"
        )
    whole = 8 + span + max((entry["data_offsets"][1] for entry in typed(ENTRIES, fields).values()), default=0)
    if size != whole:
        raise ValueError(f"it has {size:,} bytes instead of {whole:,}")
    if 2 * size > free_memory():
        raise ValueError(f"its {size:,} bytes do not fit into the memory of this machine")
    if not {"state", "metrics", "crc32"} <= metadata.keys():
        raise ValueError("it is not a whole checkpoint")
    state = _decode(typed(STATE, json.loads(metadata["state"])))
    return metadata, state, typed(METRICS, json.loads(metadata["metrics"]))


def _step(state: Mapping[str, Any], metrics: Mapping[str, float]) -> int | None:
    counters = state.get("counters")
    said = metrics.get("time/total_timesteps", counters.get("env_steps") if isinstance(counters, dict) else None)
    return int(said) if isinstance(said, int | float) and math.isfinite(said) else None


def _unusable(path: Path, reason: str) -> CheckpointError:
    whole = [info.name for info in list_checkpoints(path.parent) if info.problem is None and info.path != path]
    others = (
        f" Intact checkpoints in the same folder: {', '.join(whole)}."
        if whole
        else " The folder has no other checkpoint."
    )
    return CheckpointError(f"cannot use checkpoint {path}: {cut(printable(reason), 300)}.{others}")


def _encode(value: Any, where: str) -> Any:
    """The state as strict JSON that comes back equal; whatever would not is refused here, at saving, with its place."""
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else {FLOAT_TAG: number_to_json(value)}
    if isinstance(value, (list, tuple)):
        return [_encode(inner, f"{where}[{index}]") for index, inner in enumerate(value)]
    if isinstance(value, dict):
        for key in value:
            if not isinstance(key, str) or key == FLOAT_TAG:
                raise TypeError(f"{where}: the key {key!r} cannot be written as JSON")
        return {key: _encode(inner, f"{where}.{key}") for key, inner in value.items()}
    raise TypeError(f"{where}: {type(value).__name__} cannot be written as JSON; arrays belong into the tensors")


def _decode(value: Any) -> Any:
    if isinstance(value, list):
        return [_decode(inner) for inner in value]
    if isinstance(value, dict):
        if set(value) == {FLOAT_TAG}:
            return number_from_json(value[FLOAT_TAG])
        return {key: _decode(inner) for key, inner in value.items()}
    return value
