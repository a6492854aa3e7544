"""What the window costs, apart from draws and parameters: the paper's comparison with all parameters known.

python -m experiments.known_parameters [--datasets 10] [--tau 1 2 3] [--quick]

With known parameters both the exact posterior and the joint carry's are closed forms: no draws, so nothing is lost but
what a window of ``tau`` snapshots does not tell about the present. The squared exponential in time is not Markov of any
order, and this is the least bias that a window of ``tau`` snapshots can have.
"""

from __future__ import annotations

import argparse

import numpy as np

from experiments.comparison import JITTER, DataSet, markdown, simulate

TIMES = (2, 3, 5, 7, 10)


class Prior:
    """The latent of a data set, with the parameters that it was simulated from."""

    def __init__(self, data: DataSet):
        self.mean, self.noise = float(data.parameters["mean"]), float(data.parameters["noise"])
        self.scale = float(data.parameters["scale"])
        self.lengthscales = np.append(data.parameters["space.lengthscale"], data.parameters["time.lengthscale"])

    def points(self, snapshot) -> np.ndarray:
        """The inputs in space and time, in lengthscales."""
        return np.column_stack([snapshot.x, np.full(len(snapshot.x), snapshot.t)]) / self.lengthscales

    def covariance(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        return self.scale**2 * np.exp(-0.5 * ((a[:, None] - b) ** 2).sum(axis=-1))


def moments(data: DataSet, tau: int | None, times: tuple[int, ...]) -> list[tuple[np.ndarray, np.ndarray]]:
    """Mean and variance of the level at some times, filtered with a window of ``tau`` snapshots, or of all of them."""
    prior, found = Prior(data), []
    window, mean, covariance = np.zeros((0, 3)), np.zeros(0), np.zeros((0, 0))
    for t in range(1, max(times) + 1):
        snapshot = data.snapshots[t - 1]
        present, n = prior.points(snapshot), len(snapshot.y)
        cross = prior.covariance(window, present)
        gain = np.linalg.solve(prior.covariance(window, window) + JITTER * np.eye(len(window)), cross).T
        ahead = gain @ covariance
        now = prior.covariance(present, present) + JITTER * np.eye(n) - gain @ cross + ahead @ gain.T
        mean = np.append(mean, gain @ mean)
        covariance = np.block([[covariance, ahead.T], [ahead, now]])
        seen = covariance[:, -n:]
        update = np.linalg.solve(seen[-n:] + prior.noise**2 * np.eye(n), seen.T).T
        mean = mean + update @ (snapshot.y - prior.mean - mean[-n:])
        covariance = covariance - update @ seen.T
        if t in times:
            found.append((prior.mean + mean[-n:], np.diag(covariance)[-n:]))
        keep = n * (t if tau is None else min(tau, t))
        window = np.concatenate([window, present])[-keep:]
        mean, covariance = mean[-keep:], covariance[-keep:, -keep:]
    return found


def distances(data: DataSet, tau: int, times: tuple[int, ...]) -> list[tuple[float, float]]:
    """``R_t`` and the bias in exact sds, at each of some times."""
    pairs = zip(moments(data, tau, times), moments(data, None, times))
    return [
        (float(np.mean(variance / exact)), float(np.sqrt(np.mean((mean - middle) ** 2 / exact))))
        for (mean, variance), (middle, exact) in pairs
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--datasets", type=int, default=10)
    parser.add_argument("--tau", nargs="+", type=int, default=[1, 2, 3])
    parser.add_argument("--quick", action="store_true", help="a small version that only shows that it runs")
    args = parser.parse_args()
    n, steps, times = (12, 3, (2, 3)) if args.quick else (100, 10, TIMES)
    body = []
    for tau in args.tau:
        runs = [distances(simulate(seed, n, steps), tau, times) for seed in range(args.datasets)]
        ratios, biases = np.moveaxis(np.median(runs, axis=0), -1, 0)
        body.append([str(tau), *(f"{r:.2f}, {b:.2f}" for r, b in zip(ratios, biases))])
    print(f"Medians over {args.datasets} data sets of R_t and of the bias in exact sds, all parameters known:\n")
    print(markdown(["tau", *(f"t = {t}" for t in times)], body))


if __name__ == "__main__":
    main()
