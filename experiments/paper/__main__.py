"""``python -m experiments.paper [--quick] [--only PART …]``: run the parts one by one, then write the page.

The numbers of a part that is not run again are those of its last run in the same folder.
"""

from __future__ import annotations

import shutil

import jax
import matplotlib
import matplotlib.pyplot as plt

import seqgp
from experiments.paper.page import page
from experiments.paper.parts import PARTS, parse, say
from experiments.paper.sizes import PAPER, QUICK
from seqgp.runtime import engine


def main(argv: list[str] | None = None) -> None:
    arguments = parse(argv)
    seqgp.enable_x64()
    matplotlib.use("agg")
    sizes = QUICK if arguments.quick else PAPER
    arguments.out.mkdir(parents=True, exist_ok=True)
    for number, name in enumerate(arguments.only, 1):
        say(f"part {number} of {len(arguments.only)}: {name}")
        PARTS[name](sizes, arguments.out)
        engine.forget()
        jax.clear_caches()
        plt.close("all")
    arguments.page.parent.mkdir(parents=True, exist_ok=True)
    arguments.page.write_text(page(arguments.out, sizes))
    if arguments.page.parent != arguments.out:
        for figure in sorted(arguments.out.glob("paper_figure*.png")):
            shutil.copy(figure, arguments.page.parent / figure.name)
    say(f"the page: {arguments.page}")


if __name__ == "__main__":
    main()
