"""metrics.csv: the rows of metrics.jsonl for a spreadsheet. One column a metric, empty where a row has none."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from gymnast.core.files import number_to_json, write_atomic
from gymnast.metrics.rows import STEP
from gymnast.sinks.base import RunInfo
from gymnast.sinks.jsonl import LineSink, read_metrics


class CsvSink(LineSink):
    """Made again from metrics.jsonl when a run is continued, so that no row is there twice; then appended to."""

    def __init__(self, info: RunInfo) -> None:
        self._path = info.metrics_path.with_suffix(".csv")
        rows = read_metrics(info.metrics_path)
        self._columns = list(dict.fromkeys([STEP, *(name for row in rows for name in row)]))
        self._replace([self._line(row) for row in rows])

    def write(self, step: int, row: Mapping[str, float]) -> None:
        full = {STEP: float(step), **row}
        if new := [name for name in full if name not in self._columns]:
            self._file.close()
            self._columns += new
            self._replace(line + b"," * len(new) for line in self._path.read_bytes().splitlines()[1:])
        self._append(self._line(full))

    def _replace(self, lines: Iterable[bytes]) -> None:
        """The whole file under the header as it is now; a kill leaves the old one or the new one."""
        write_atomic(self._path, b"\n".join([",".join(self._columns).encode(), *lines]) + b"\n")
        self._open(self._path)

    def _line(self, row: Mapping[str, float]) -> bytes:
        cells = (str(number_to_json(row[name])) if name in row else "" for name in self._columns)
        return ",".join(cells).encode()  # numbers and catalogued names: nothing that needs quotes
