"""The figure of docs/performance.md from the record of a benchmark: how the cost of a step grows.

python -m benchmarks.figure [out/bench.json]
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from matplotlib.figure import Figure

OUT = Path("docs/growth.svg")


def figure_of(record: dict) -> Figure:
    """Milliseconds a proposal against the number of points, and against the window."""
    fitted = [line for line in record["lines"] if line["curve"]]
    curves = {line["name"].split(":")[0] + (" tau" if "tau" in line["name"] else ""): line for line in fitted}
    figure = Figure(figsize=(8, 3.2), layout="constrained")
    points, window = figure.subplots(1, 2, width_ratios=[3, 2])
    for name, marker in (("dense", "o"), ("knots", "s")):
        line = curves[name]
        n, seconds = zip(*line["curve"])
        points.loglog(n, [1e3 * s for s in seconds], marker=marker, label=f"{name}: exponent {line['value']:.2f}")
    points.set(xlabel="points a snapshot", ylabel="ms a proposal", title="one core, plain updates, window of 1")
    points.legend(frameon=False)
    line = curves["dense tau"]
    tau, seconds = zip(*line["curve"])
    window.plot(tau, [1e3 * s for s in seconds], "o-", label=f"dense: exponent {line['value']:.2f}")
    window.set(xlabel="tau", xticks=tau, ylim=(0, None), title="200 points")
    window.legend(frameon=False)
    return figure


def main() -> None:
    path = Path(sys.argv[1] if len(sys.argv) > 1 else "out/bench.json")
    figure_of(json.loads(path.read_text())).savefig(OUT, metadata={"Date": None})
    print(f"written to {OUT}")


if __name__ == "__main__":
    main()
