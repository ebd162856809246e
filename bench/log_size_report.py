"""The report of the log size benchmark, as data, a page and a plot."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from bench import machine

NAMES = {
    "append": "append",
    "read_in_order": "read, one batch after the other",
    "read_at_random": "read at a random offset",
    "bare_read": "two reads of the kernel alone, at random",
    "find_time": "find a random time",
    "produce": "Produce",
    "fetch_at_random": "Fetch at a random offset",
    "list_offsets_by_time": "ListOffsets by a random time",
}
COLOURS = ("#1b6ca8", "#c05746", "#5b8c5a", "#9a9a9a", "#8a6bb8")


def write_report(result: dict[str, Any], folder: Path) -> None:
    """Write log_size.json, log_size.md and log_size.png."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "log_size.json").write_text(json.dumps(result, indent=2) + "\n")
    (folder / "log_size.md").write_text(_page(result))
    _plot(result, folder / "log_size.png")


def _page(result: dict[str, Any]) -> str:
    return f"""# Cost by the size of a log

Written by `{result["command"]}`; every round is in `log_size.json`.

Partitions of each size with default settings (segments of 1 GiB). CPU time, user and system,
for one operation on a batch of {result["batch_bytes"]:,} bytes; medians of {_round_count(result)} rounds
in which the sizes took turns, with the least and the most in brackets. The files are in the page cache as far as it
reaches. A log that does not fit into the processor's caches, or into the memory, costs the kernel
more to read at random; the row of the kernel alone shows how much: it reads as many bytes as a read
at a random offset does, without a lookup. What is above it is Tailrace's.

## Storage alone, µs

{_table(result["results"], "storage")}
## Through a broker, µs of the broker

{_table(result["results"], "broker")}
What grows with the size is small and not the log's doing: a log of one segment is searched in arrays,
one of many in mapped files (3 to 4 µs more), and pages that no processor cache holds cost the kernel
and Python more to touch. In storage alone the medians of reads still rise from size to size; through the broker
the difference is within the noise of the rounds.

![CPU time for one operation by the size of the log](log_size.png)

## The machine

{machine.table(result["conditions"])}"""


def _round_count(result: dict[str, Any]) -> int:
    return len(result["results"][0]["storage"]["cpu_us"]["append"]["rounds"])


def _table(rows: list[dict[str, Any]], side: str) -> str:
    head = "| | " + " | ".join(_size(row["megabytes"]) for row in rows) + " |\n"
    head += "| --- |" + " ---: |" * len(rows) + "\n"
    lines = []
    for name in rows[0][side]["cpu_us"]:
        cells = [_cell(row[side]["cpu_us"][name]) for row in rows]
        lines.append(f"| {NAMES[name]} | " + " | ".join(cells) + " |\n")
    return head + "".join(lines)


def _cell(spread: dict[str, Any]) -> str:
    return f"{spread['median']:.1f} ({min(spread['rounds']):.1f} to {max(spread['rounds']):.1f})"


def _size(megabytes: int) -> str:
    return f"{megabytes // 1000} GB" if megabytes >= 1000 else f"{megabytes} MB"


def _plot(result: dict[str, Any], path: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    rows = result["results"]
    sizes = [row["megabytes"] for row in rows]
    figure, axes = pyplot.subplots(1, 2, figsize=(10, 3.8), layout="constrained")
    for axis, side, title in ((axes[0], "storage", "Storage alone"), (axes[1], "broker", "Through a broker")):
        for colour, name in zip(COLOURS, rows[0][side]["cpu_us"], strict=False):
            spreads = [row[side]["cpu_us"][name] for row in rows]
            axis.plot(sizes, [spread["median"] for spread in spreads], "o-", color=colour, label=NAMES[name])
            axis.vlines(
                sizes,
                [min(spread["rounds"]) for spread in spreads],
                [max(spread["rounds"]) for spread in spreads],
                color=colour,
                alpha=0.4,
            )
        axis.set_xscale("log")
        axis.set_xticks(sizes, [_size(size) for size in sizes])
        axis.minorticks_off()
        axis.set_ylim(bottom=0)
        axis.set_title(f"{title}: CPU µs for one operation", fontsize=10, loc="left")
        axis.legend(fontsize=8, frameon=False)
        axis.grid(axis="y", color="#e6e6e6", linewidth=0.6)
        axis.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=130)
    pyplot.close(figure)
