"""The table that `make bench` prints: a row for each workload. Knows the figures, and not where they come from."""

from __future__ import annotations

from collections.abc import Sequence

from rich.table import Table
from rich.text import Text

from .measuring import CONTROL, Measured, Quartiles
from .ways import PLAIN, VIRGL

NEAR, WEBSOCKET = "near", "websocket"


def table(rows: Sequence[Measured], far: Sequence[str]) -> Table:
    """All workloads; `far` names the ways over distant lines."""
    shown = Table(caption="ratios are to plain's total of the same round: the median, and in brackets the quartiles")
    shown.add_column("workload")
    for name in ("plain s", CONTROL, VIRGL, NEAR, WEBSOCKET, "process s", "near's"):
        shown.add_column(name, justify="right", no_wrap=True)
    for name in ("MB up", "MB down", "waits", "reads", "buffers", "commands"):
        shown.add_column(name, justify="right")
    for name in far:
        shown.add_column(name, justify="right")
    for row in rows:
        shown.add_row(*_cells(row, far))
    return shown


def _cells(row: Measured, far: Sequence[str]) -> list[Text]:
    cells = [Text(row.name), Text(f"{row.median(PLAIN.name, lambda run: run.total_s):.3f}")]
    cells += [_ratio(row, name) for name in (CONTROL, VIRGL, NEAR, WEBSOCKET)]
    cells.append(Text(f"{row.median(PLAIN.name, lambda run: run.process_s):.2f}"))
    near = row.ratios(NEAR, lambda run: run.process_s) if NEAR in row.runs else None
    cells.append(Text("-" if near is None else f"{near[1]:.2f}"))
    cells += _traffic(row)
    return cells + [_far(row, name) for name in far]


def _ratio(row: Measured, name: str) -> Text:
    if name in row.failures:
        return Text("failed", style="red")
    if name not in row.runs:
        return Text("-")
    return Text(brackets(row.ratios(name)), style="red" if row.differs(name) else "")


def brackets(found: Quartiles) -> str:
    """The median, and the quartiles in brackets."""
    lower, middle, upper = found
    return f"{middle:.2f} [{lower:.2f} {upper:.2f}]"


def _traffic(row: Measured) -> list[Text]:
    """Of the last run over the websocket, where no byte goes another way."""
    if WEBSOCKET not in row.runs:
        return [Text("-")] * 6
    run = row.runs[WEBSOCKET][-1]
    traffic = run.traffic
    megabytes = [f"{count / 1e6:.2f}" for count in (traffic.bytes_up, traffic.bytes_down)]
    counts = [f"{count:,}" for count in (traffic.waits, run.reads, traffic.buffers, traffic.commands)]
    return [Text(text) for text in megabytes + counts]


def _far(row: Measured, name: str) -> Text:
    """Seconds, and waits."""
    if name in row.failures:
        return Text("failed", style="red")
    if name not in row.runs:
        return Text("-")
    seconds, waits = row.median(name, lambda run: run.total_s), row.median(name, lambda run: run.traffic.waits)
    return Text(f"{seconds:.2f} s, {waits:,.0f}", style="red" if row.differs(name) else "")
