"""TensorBoard event files, in `trackers/tensorboard` of the run's folder. Runs in a tracker's worker.

TensorBoard keeps scalars as 32-bit floats: a number here is metrics.jsonl's, rounded to 7 digits.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from itertools import pairwise
from typing import Any

from gymnast.alerts.alert import Alert
from gymnast.alerts.text import alert_line
from gymnast.sinks.trackers.tracker import Opening, Tracker


class TensorBoardTracker(Tracker):
    package = extra = "tensorboard"
    brings = "runs in TensorBoard"
    rewinds = True

    def __init__(self, opening: Opening) -> None:
        from tensorboard.compat.proto import event_pb2, summary_pb2, tensor_pb2, types_pb2
        from tensorboard.summary.writer.event_file_writer import EventFileWriter

        self._event, self._summary = event_pb2.Event, summary_pb2
        self._tensor, self._string = tensor_pb2.TensorProto, types_pb2.DT_STRING
        self._writer = EventFileWriter(str(opening.folder))
        if opening.last >= 0:  # what comes from here on replaces what an earlier part of the run wrote
            start = event_pb2.SessionLog(status=event_pb2.SessionLog.START)
            self._writer.add_event(event_pb2.Event(wall_time=time.time(), step=opening.last + 1, session_log=start))
        self.note = f"tensorboard: see it with: tensorboard --logdir {opening.run.place.parent}"

    def write(self, step: int, row: Mapping[str, float]) -> None:
        self._add(step, [self._summary.Summary.Value(tag=name, simple_value=value) for name, value in row.items()])

    def diagnostics(self, step: int, record: Mapping[str, Any]) -> None:
        self._add(step, [self._histogram(f"histograms/{name}", found) for name, found in record["histograms"].items()])

    def alert(self, step: int, data: Mapping[str, Any]) -> None:
        alert = Alert.from_json(data)
        plugin = self._summary.SummaryMetadata.PluginData(plugin_name="text")
        text = self._tensor(dtype=self._string, string_val=[alert_line(alert).encode()])
        text.tensor_shape.dim.add(size=1)
        metadata = self._summary.SummaryMetadata(plugin_data=plugin)
        self._add(step, [self._summary.Summary.Value(tag=f"alerts/{alert.rule}", metadata=metadata, tensor=text)])

    def close(self, status: str) -> None:
        self._writer.close()

    def _histogram(self, tag: str, found: Mapping[str, Any]) -> Any:
        """TensorBoard wants each bucket's upper edge, and the moments; the bucket's middle stands for what is in it."""
        counts, edges = found["counts"], found["edges"]
        pairs = [(count, (low + high) / 2) for count, (low, high) in zip(counts, pairwise(edges), strict=True)]
        histogram = self._summary.HistogramProto(
            min=edges[0],
            max=edges[-1],
            num=sum(counts),
            sum=sum(count * middle for count, middle in pairs),
            sum_squares=sum(count * middle**2 for count, middle in pairs),
            bucket_limit=edges[1:],
            bucket=counts,
        )
        return self._summary.Summary.Value(tag=tag, histo=histogram)

    def _add(self, step: int, values: list[Any]) -> None:
        event = self._event(wall_time=time.time(), step=step, summary=self._summary.Summary(value=values))
        self._writer.add_event(event)
        self._writer.flush()
