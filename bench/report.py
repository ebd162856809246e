"""The report of a benchmark, as data, a page and a plot."""

from __future__ import annotations

import json
import statistics
from pathlib import Path
from typing import Any

from bench import machine

PHASES = ("produce", "consume")
COLOURS = {"Tailrace": "#1b6ca8", "Apache Kafka": "#c05746", "loopback copy": "#6b6b6b"}


def write_throughput(result: dict[str, Any], folder: Path) -> None:
    """Write throughput.json, throughput.md and throughput.png."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "throughput.json").write_text(json.dumps(result, indent=2) + "\n")
    (folder / "throughput.md").write_text(_throughput_page(result))
    _plot(result, folder / "throughput.png")


def _throughput_page(result: dict[str, Any]) -> str:
    ceiling = result["ceiling"]
    others = [value for row in result["results"] for value in row["other_cores"]["rounds"]]
    left_out = "".join(f"\n{sentence}\n" for sentence in result["missing"])
    return f"""# Throughput

Written by `{result["command"]}`; the figures of every round are in `throughput.json`.

One confluent-kafka client on the same machine produces records of random bytes to one
partition (acks=all, no compression, linger 5 ms) and then reads them all back by assignment.
Every broker has one process, default settings and an empty data folder. The targets take
turns in {result["rounds"]} rounds after one that is not counted; a phase ends at {result["mb_max"]} MB or
{result["seconds_max"]:g} s. Medians. A megabyte is a million bytes of payload. Client and broker share the
cores, so the client's own CPU is part of what bounds these figures. Everything else on the
machine, the kernel's own work included, kept {statistics.median(others):.2f} cores busy in the median phase and
{max(others):.2f} in the worst one; well above zero means that the run was disturbed.
{left_out}
{_throughput_table(result["results"])}
The ceiling, a bare copy of the same bytes between two processes over loopback:
{ceiling["mb_per_s"]["median"]:,.0f} MB/s at {ceiling["receiver_cpu_s_per_gb"]["median"]:.2f} CPU seconds per GB \
in the receiver.

![Produce and consume throughput](throughput.png)

## The machine

{machine.table(result["conditions"])}"""


def _throughput_table(results: list[dict[str, Any]]) -> str:
    head = (
        "| | record | target | MB/s | records/s | broker CPU s/GB | client CPU s/GB |\n"
        "| --- | ---: | --- | ---: | ---: | ---: | ---: |\n"
    )
    ordered = sorted(results, key=lambda row: (PHASES.index(row["phase"]), row["record_bytes"], row["target"]))
    return head + "".join(
        f"| {row['phase']} | {row['record_bytes']} B | {row['target']} | {row['mb_per_s']['median']:,.1f}"
        f" | {row['records_per_s']['median']:,.0f} | {row['broker_cpu_s_per_gb']['median']:.2f}"
        f" | {row['client_cpu_s_per_gb']['median']:.2f} |\n"
        for row in ordered
    )


def _plot(result: dict[str, Any], path: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot, ticker

    figure, axes = pyplot.subplots(1, 2, figsize=(11, 3.6), layout="constrained")
    rows = sorted(
        result["results"],
        key=lambda row: (PHASES.index(row["phase"]), row["record_bytes"], row["target"]),
        reverse=True,
    )
    for axis, name, title in (
        (axes[0], "mb_per_s", "Throughput, MB/s (more is better)"),
        (axes[1], "broker_cpu_s_per_gb", "Broker CPU, seconds per GB (less is better)"),
    ):
        for height, row in enumerate(rows):
            _dot(axis, height, row[name], _colour(row["target"]))
        axis.set_xscale("log")
        axis.xaxis.set_major_locator(ticker.LogLocator(subs=(1, 2, 5)))
        axis.xaxis.set_major_formatter("{x:g}")
        axis.xaxis.set_minor_formatter(ticker.NullFormatter())
        axis.set_title(title, fontsize=10, loc="left")
        axis.grid(axis="x", color="#e6e6e6", linewidth=0.6)
        axis.set_axisbelow(True)
        axis.spines[["top", "right", "left"]].set_visible(False)
        axis.tick_params(which="both", length=0, labelsize=8)
    axes[0].set_yticks(
        range(len(rows)), [f"{r['phase']} {r['record_bytes']} B · {r['target']}" for r in rows], fontsize=8
    )
    axes[1].set_yticks(range(len(rows)), [])
    _mark_ceiling(axes[0], result["ceiling"]["mb_per_s"]["median"])
    _mark_ceiling(axes[1], result["ceiling"]["receiver_cpu_s_per_gb"]["median"])
    figure.savefig(path, dpi=130)
    pyplot.close(figure)


def _dot(axis: Any, height: int, spread: dict[str, Any], colour: str) -> None:
    """Draw the median as a dot with its number, and the rounds as a thin line from minimum to maximum."""
    axis.plot([min(spread["rounds"]), max(spread["rounds"])], [height, height], color=colour, linewidth=1.5, alpha=0.5)
    axis.plot(spread["median"], height, "o", color=colour, markersize=6)
    axis.annotate(
        f"{spread['median']:,.3g}" if spread["median"] < 100 else f"{spread['median']:,.0f}",
        (spread["median"], height),
        xytext=(0, 5),
        textcoords="offset points",
        ha="center",
        fontsize=7,
        color="#333333",
    )


def _mark_ceiling(axis: Any, value: float) -> None:
    axis.axvline(value, color=COLOURS["loopback copy"], linestyle="--", linewidth=1)
    axis.annotate(
        "loopback copy",
        (value, 1),
        xycoords=("data", "axes fraction"),
        xytext=(-3, -4),
        textcoords="offset points",
        rotation=90,
        va="top",
        ha="right",
        fontsize=7,
        color=COLOURS["loopback copy"],
    )


def _colour(target: str) -> str:
    return next(colour for name, colour in COLOURS.items() if target.startswith(name))
