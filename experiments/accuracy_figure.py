"""The figures of ``docs/accuracy.md``, from the tables on the page: how near each sampler is to the exact posterior.

python -m experiments.accuracy_figure [--page docs/accuracy.md] [--out build/docs]
"""

from __future__ import annotations

import argparse
import re
from pathlib import Path
from typing import NamedTuple

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure

IMAGE = re.compile(r"\]\((accuracy_\w+\.png)\)")
COLOURS = {"sequential": "#b2182b", "online": "#1b7837"}
STYLES = {1: "-", 2: "--", 3: ":"}


class Curve(NamedTuple):
    """A column of the table for one sampler and window: means and standard errors over data sets, at each time."""

    t: np.ndarray
    mean: np.ndarray
    error: np.ndarray


def figures(page: str) -> dict[str, Figure]:
    """The figure of each section, by the name of the file that the page shows."""
    found = {}
    for section in page.split("\n## ")[1:]:
        shown = IMAGE.search(section)
        if shown is not None:
            found[shown.group(1)] = figure(_rows(section, first="sampler"))
    return found


def figure(rows: list[dict[str, str]]) -> Figure:
    """``R_t`` and bias against ``t``."""
    picture, (left, right) = plt.subplots(1, 2, figsize=(9.5, 3.6), layout="constrained")
    for axis, column in ((left, "R_t"), (right, "bias, sds")):
        for (who, tau), curve in _curves(rows, column).items():
            name = who if who == "online" else f"{who}, a window of {tau}"
            style = {"color": COLOURS[who], "linestyle": STYLES[tau], "label": name}
            axis.errorbar(curve.t, curve.mean, curve.error, marker="o", markersize=3.5, capsize=2, **style)
        axis.set_xlabel("t")
    left.axhline(1, color="black", linewidth=0.8)
    left.set(yscale="log", title="variance of the latent, over the exact one")
    left.set_yticks([1, 2, 5, 10], ["1", "2", "5", "10"], minor=False)
    left.minorticks_off()
    right.set(title="bias of the latent, in exact sds", ylim=(0, None))
    picture.legend(*left.get_legend_handles_labels(), loc="outside lower center", ncols=5, frameon=False)
    return picture


def _curves(rows: list[dict[str, str]], column: str) -> dict[tuple[str, int], Curve]:
    """By sampler and window, in the order of the legend."""
    keys = sorted(
        {(row["sampler"], int(row["tau"])) for row in rows}, key=lambda key: ([*COLOURS].index(key[0]), key[1])
    )
    found = {}
    for who, tau in keys:
        mine = [row for row in rows if (row["sampler"], int(row["tau"])) == (who, tau)]
        numbers = np.array([_mean_and_error(row[column]) for row in mine])
        found[who, tau] = Curve(np.array([float(row["t"]) for row in mine]), *numbers.T)
    return found


def _mean_and_error(cell: str) -> tuple[float, float]:
    """Of ``1.03 ± 0.02 (1.03)``; of one data set there is no error."""
    numbers = [float(number) for number in re.findall(r"-?[\d.]+", cell.split("(")[0])]
    return numbers[0], numbers[1] if len(numbers) > 1 else 0.0


def _rows(text: str, first: str) -> list[dict[str, str]]:
    """The rows of the first table whose first column has this name."""
    lines = text.splitlines()
    begin = next((i for i, line in enumerate(lines) if line.startswith(f"| {first} |")), None)
    if begin is None:
        return []
    header, found = _cells(lines[begin]), []
    for line in lines[begin + 2 :]:
        if not line.startswith("|"):
            break
        found.append(dict(reversed([*zip(header, _cells(line))])))
    return found


def _cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip().strip("|").split("|")]


def main() -> None:
    """Draw the figures of a page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--page", type=Path, default=Path("docs/accuracy.md"))
    parser.add_argument("--out", type=Path, default=Path("build/docs"))
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    for name, picture in figures(args.page.read_text()).items():
        picture.savefig(args.out / name, dpi=110)
        print(args.out / name)


if __name__ == "__main__":
    main()
