"""Model choice: streams drawn from one of two models, and which of them the evidence names.

python -m experiments.choice [--cases 20] [--n 8] [--steps 25] [--particles 64] [--quick]

Parameters are drawn from their priors, and data from the model with a rough (``Matern12``) or a smooth (``Matern32``)
kernel of time, in turn. Both models run over each stream, and ``seqgp.compare`` says which. Writes a figure of the
evidence as the streams go on, and the table, to ``out/choice``.
"""

from __future__ import annotations

import argparse
import functools
from pathlib import Path
from typing import NamedTuple

import jax
import matplotlib
import matplotlib.pyplot as plt
import numpy as np
import numpyro.distributions as dist

import seqgp
from experiments.comparison import markdown
from seqgp.evaluate.compare import Comparison

OUT = Path("out/choice")
KERNELS = {"Matern12": seqgp.kernels.Matern12, "Matern32": seqgp.kernels.Matern32}


class Case(NamedTuple):
    """One stream: which model it was drawn from, and what was said of it."""

    truth: str
    comparison: Comparison
    gained: np.ndarray  # log evidence of the true model over the other's, after each snapshot

    @property
    def found(self) -> bool:
        return self.comparison.best == self.truth

    @property
    def weight(self) -> float:
        """The posterior probability of the true model."""
        return next(one.weight for one in self.comparison.candidates if one.name == self.truth)


@functools.cache
def model(name: str) -> seqgp.Model:
    """Fields that change over some steps, with little noise."""
    return seqgp.Model(
        kernel=seqgp.Separable(
            KERNELS[name](dist.LogNormal(2.0, 0.5)),
            seqgp.kernels.Matern32(dist.LogNormal(-0.7, 0.5)),
            dist.LogNormal(0.0, 0.5),
        ),
        mean=dist.Normal(0.0, 1.0),
        likelihood=seqgp.likelihoods.Gaussian(dist.LogNormal(-2.0, 0.5)),
    )


def stream(name: str, seed: int, n: int, steps: int) -> tuple[seqgp.Snapshot, ...]:
    """Parameters, field and data drawn from a model."""
    x = np.random.default_rng(seed).random((n, 2))
    design = [seqgp.Snapshot(float(t), x, np.zeros(n)) for t in range(steps)]
    return seqgp.simulate(jax.random.key(seed), model(name), design).snapshots


def case(seed: int, args: argparse.Namespace) -> Case:
    """Streams of the two models in turn."""
    truth = list(KERNELS)[seed % 2]
    snapshots, runs = stream(truth, seed, args.n, args.steps), {}
    for name in KERNELS:
        sampler = seqgp.OnlineSampler(model(name), particles=args.particles, draws=100)
        key = jax.random.fold_in(jax.random.key(seed), len(runs))
        runs[name] = seqgp.run(sampler, snapshots, key, forecast=False)
    other = next(name for name in KERNELS if name != truth)
    evidence = {name: np.array([info.log_evidence for info in run.infos]) for name, run in runs.items()}
    return Case(truth, seqgp.compare(runs), evidence[truth] - evidence[other])


def table(cases: list[Case]) -> str:
    """How often the true model is found, and how sure the evidence is."""
    rows = []
    for truth in KERNELS:
        of = [one for one in cases if one.truth == truth]
        if of:
            rows.append(
                [
                    truth,
                    f"{sum(one.found for one in of)} of {len(of)}",
                    f"{np.mean([one.weight for one in of]):.3f}",
                    f"{np.median([one.gained[-1] for one in of]):.1f}",
                ]
            )
    head = ["drawn from", "found", "its probability, on average", "log evidence over the other's, median"]
    return markdown(head, rows)


def figure(cases: list[Case]) -> plt.Figure:
    """The evidence for the true model as the streams go on."""
    picture, axis = plt.subplots(figsize=(7, 4), constrained_layout=True)
    for colour, truth in zip(("C0", "C3"), KERNELS):
        for one in [one for one in cases if one.truth == truth]:
            axis.plot(one.gained, color=colour, alpha=0.6, lw=1, label=f"drawn from {truth}")
    axis.axhline(0, color="k", lw=1)
    handles, labels = axis.get_legend_handles_labels()
    axis.legend(*zip(*{label: (handle, label) for handle, label in zip(handles, labels)}.values()), frameon=False)
    axis.set(xlabel="snapshot", ylabel="log evidence for the true model")
    return picture


def parse(argv: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=int, default=20)
    parser.add_argument("--n", type=int, default=8, help="stations")
    parser.add_argument("--steps", type=int, default=25)
    parser.add_argument("--particles", type=int, default=64)
    parser.add_argument("--out", type=Path, default=OUT)
    parser.add_argument("--quick", action="store_true", help="a small version that only shows that it runs")
    args = parser.parse_args(argv)
    if args.quick:
        args.cases, args.n, args.steps, args.particles = 1, 3, 3, 16
    return args


def main(argv: list[str] | None = None) -> list[Case]:
    args = parse(argv)
    seqgp.enable_x64()
    matplotlib.use("agg")
    args.out.mkdir(parents=True, exist_ok=True)
    cases = []
    for seed in range(args.cases):
        cases.append(case(seed, args))
        print(f"{seed}: drawn from {cases[-1].truth}, found {cases[-1].comparison.best}", flush=True)
    found = sum(one.found for one in cases)
    text = f"The true model has the higher evidence in {found} of {len(cases)} cases.\n\n{table(cases)}\n"
    (args.out / "tables.md").write_text(text)
    print("\n" + text)
    figure(cases).savefig(args.out / "choice.png", dpi=100)
    return cases


if __name__ == "__main__":
    main()
