"""What the window costs, apart from what the parameters cost: the paper's comparison with all parameters known.

python -m experiments.known_parameters [--datasets 5] [--tau 1 2 3] [--quick]

With known parameters the exact posterior is a closed form, and the joint carry loses nothing but what a window of
``tau`` snapshots does not tell about the present: the squared exponential in time is not Markov of any order.
"""

from __future__ import annotations

import argparse

import jax
import numpy as np

import seqgp
from experiments.comparison import DataSet, markdown, simulate

TIMES = (2, 3, 5, 7, 10)


def known_model(data: DataSet) -> seqgp.Model:
    """The model that the data were simulated from, with its parameters known."""
    truth = data.parameters
    kernel = seqgp.Separable(
        time=seqgp.SquaredExponential(float(truth["time.lengthscale"])),
        space=seqgp.SquaredExponential([float(value) for value in truth["space.lengthscale"]]),
        scale=float(truth["scale"]),
    )
    return seqgp.Model(kernel, seqgp.Gaussian(float(truth["noise"])), mean=float(truth["mean"]))


def exact_moments(data: DataSet, t: int) -> tuple[np.ndarray, np.ndarray]:
    """Mean and variance of the level at the ``t``-th snapshot given the first ``t``."""
    truth, seen = data.parameters, data.snapshots[:t]
    scales = np.append(truth["space.lengthscale"], truth["time.lengthscale"])
    points = np.concatenate([np.column_stack([s.x, np.full(len(s.x), s.t)]) for s in seen]) / scales
    y = np.concatenate([s.y for s in seen]) - truth["mean"]
    prior = truth["scale"] ** 2 * np.exp(-0.5 * ((points[:, None] - points) ** 2).sum(axis=-1))
    cross = prior[-len(seen[-1].x) :]
    gain = np.linalg.solve(prior + truth["noise"] ** 2 * np.eye(len(y)), cross.T).T
    return truth["mean"] + gain @ y, np.diag(cross[:, -len(cross) :] - gain @ cross.T)


def distances(data: DataSet, tau: int, times: tuple[int, ...], draws: int) -> list[tuple[float, float]]:
    """``R_t`` and the bias in exact sds, at each of some times."""
    sampler = seqgp.SequentialSampler(known_model(data), draws, tau, carry="joint", updates="informed")
    found = []
    for number, (state, _) in enumerate(
        seqgp.steps(sampler, data.snapshots[: max(times)], key=jax.random.key(0), progress=False), start=1
    ):
        if number in times:
            mean, variance = exact_moments(data, number)
            level = np.asarray(state.latent)
            bias = np.sqrt(np.mean((level.mean(axis=0) - mean) ** 2 / variance))
            found.append((float(np.mean(level.var(axis=0) / variance)), float(bias)))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--datasets", type=int, default=5)
    parser.add_argument("--tau", nargs="+", type=int, default=[1, 2, 3])
    parser.add_argument("--quick", action="store_true", help="a small version that only shows that it runs")
    args = parser.parse_args()
    jax.config.update("jax_enable_x64", True)
    n, steps, draws, times = (12, 3, 100, (2, 3)) if args.quick else (100, 10, 1000, TIMES)
    body = []
    for tau in args.tau:
        runs = [distances(simulate(seed, n, steps), tau, times, draws) for seed in range(args.datasets)]
        ratios, biases = np.moveaxis(np.median(runs, axis=0), -1, 0)
        body.append([str(tau), *(f"{r:.2f}, {b:.2f}" for r, b in zip(ratios, biases))])
    print(f"Medians over {args.datasets} data sets of R_t and of the bias in exact sds, all parameters known:\n")
    print(markdown(["tau", *(f"t = {t}" for t in times)], body))


if __name__ == "__main__":
    main()
