"""What the window costs, apart from draws and parameters: the paper's comparison with all parameters known.

python -m experiments.known_parameters [--datasets 10] [--tau 1 2 3] [--time Matern52] [--quick]

With known parameters both the exact posterior and the joint carry's are closed forms: no draws, so nothing is lost but
what a window of ``tau`` snapshots does not tell about the present. The squared exponential in time is not Markov of any
order, and this is the least bias that a window of ``tau`` snapshots can have. With ``--time Matern32`` or ``Matern52``
data and model have that kernel in time: what its derivatives, carried along, could gain.
"""

from __future__ import annotations

import argparse

import jax.numpy as jnp
import numpy as np

import seqgp
from experiments.comparison import JITTER, DataSet, markdown, simulate
from seqgp.reference import gaussian_posterior, sequential_target
from seqgp.reference.marginal import Moments

HALF_INTEGER = ("Matern12", "Matern32", "Matern52")
TIMES = (2, 3, 5, 7, 10)


def known(data: DataSet, in_time: type) -> seqgp.Model:
    """The model of a data set, with the parameters that it was simulated from."""
    truth = data.parameters
    space = seqgp.kernels.SquaredExponential(truth["space.lengthscale"])
    kernel = seqgp.Separable(in_time(truth["time.lengthscale"]), space, truth["scale"])
    return seqgp.Model(kernel, seqgp.likelihoods.Gaussian(truth["noise"]), mean=truth["mean"], jitter=JITTER)


def distances(data: DataSet, in_time: type, taus: list[int], times: tuple[int, ...]) -> np.ndarray:
    """``R_t`` and the bias in exact sds, for each window at each of some times: ``(windows, times, 2)``."""
    model, snapshots = known(data, in_time), data.snapshots[: max(times)]
    exact = [gaussian_posterior(model, snapshots[:t], model.parameters(jnp.zeros(0)))[-1] for t in times]
    rows = []
    for tau in taus:
        windowed = sequential_target(model, snapshots, tau, carry="joint")
        rows.append([apart(windowed[t - 1], one) for t, one in zip(times, exact)])
    return np.array(rows)


def apart(found: Moments, exact: Moments) -> tuple[float, float]:
    """The mean ratio of variances, and the root mean square of the difference of means in exact sds."""
    variance = np.diag(exact.covariance)
    bias = np.sqrt(np.mean((found.mean - exact.mean) ** 2 / variance))
    return float(np.mean(np.diag(found.covariance) / variance)), float(bias)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--datasets", type=int, default=10)
    parser.add_argument("--tau", nargs="+", type=int, default=[1, 2, 3])
    parser.add_argument("--time", choices=("SquaredExponential", *HALF_INTEGER), default="SquaredExponential")
    parser.add_argument("--quick", action="store_true", help="a small version that only shows that it runs")
    args = parser.parse_args()
    seqgp.enable_x64()
    n, steps, times = (12, 3, (2, 3)) if args.quick else (100, 10, TIMES)
    in_time = getattr(seqgp, args.time)
    sets = (simulate(seed, n, steps, in_time=in_time) for seed in range(args.datasets))
    medians = np.median([distances(data, in_time, args.tau, times) for data in sets], axis=0)
    body = [[str(tau), *(f"{r:.2f}, {b:.2f}" for r, b in row)] for tau, row in zip(args.tau, medians)]
    print(f"Medians over {args.datasets} data sets of R_t and of the bias in exact sds, all parameters known,")
    print(f"{args.time} in time:\n")
    print(markdown(["tau", *(f"t = {t}" for t in times)], body))


if __name__ == "__main__":
    main()
