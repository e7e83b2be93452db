"""How the experiments on hosts tell their figures: a word where there are none, JSON, a plot."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from namespaces import NamespacesUnavailable
from rich.console import Console

FIGURES = Path(__file__).parent.parent / "docs" / "figures"


@dataclass(frozen=True)
class Line:
    """Of a plot: what was measured, and beside it what the links allow."""

    label: str
    xs: Sequence[float]
    measured: Sequence[float]
    allowed: Sequence[float]
    colour: str


def run(
    doc: str,
    figure: str,
    measure: Callable[[], Any],
    show: Callable[[Any], dict[str, Any]],
    plot: Callable[[Any, Path], None],
) -> None:
    """The command line of an experiment.

    `measure` returns what it found, `show` prints that and returns plain data for the JSON, `plot`
    draws it into a file, by default `figure` among those of the documentation.
    """
    parser = argparse.ArgumentParser(description=doc.splitlines()[0])
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    parser.add_argument("--plot", type=Path, default=FIGURES / figure, help="and the plot to this")
    options = parser.parse_args()
    try:
        found = measure()
    except NamespacesUnavailable as missing:
        Console().print(f"skipped: {missing}", markup=False)
        found, data = None, {"skipped": str(missing)}
    else:
        data = show(found)
    if options.json:
        options.json.write_text(json.dumps(data, indent=2))
    if found is not None:
        plot(found, options.plot)


def draw(path: Path, lines: Sequence[Line], x: str, y: str, logarithmic: bool = False) -> None:
    """Plot lines to an SVG file; say so where matplotlib is not installed."""
    try:
        import matplotlib
    except ImportError:
        print("no plot without matplotlib: uv run --group bench python ...")
        return
    matplotlib.use("svg")
    matplotlib.rcParams["svg.hashsalt"] = "activebroker"  # the same figures give the same file
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(7, 4.2), layout="constrained")
    for line in lines:
        axes.plot(line.xs, line.measured, label=line.label, color=line.colour, marker="o")
        axes.plot(line.xs, line.allowed, color=line.colour, linestyle=":", marker="_")
    axes.set(xlabel=x, ylabel=y, yscale="log" if logarithmic else "linear")
    if not logarithmic:
        axes.set_ylim(bottom=0)
    axes.grid(alpha=0.3)
    axes.set_title("dotted: what the links allow", fontsize="medium")
    figure.legend(loc="outside upper center", ncols=len(lines))
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else None)
    pyplot.close(figure)


def verdict(what: str, found: float, target: float, at_most: bool = False) -> bool:
    """Print whether a figure meets its target."""
    met = found <= target if at_most else found >= target
    sign, colour = "≤" if at_most else "≥", "green" if met else "red"
    word = "met" if met else "not met"
    Console().print(
        f"{what}: {found:.2f} {sign} {target:.2f}: [{colour}]{word}[/]", highlight=False
    )
    return met
