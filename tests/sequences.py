"""Short sequences of snapshots and samplers of few draws, for tests of init and step."""

import numpy as np

import seqgp
import small
from seqgp.runtime import engine

TIME, SPACE, SCALE, MEAN, NOISE = 1.3, 0.7, 1.2, 0.4, 0.8

KNOWN = seqgp.Model(
    kernel=seqgp.Separable(
        time=seqgp.kernels.Matern12(TIME), space=seqgp.kernels.SquaredExponential(SPACE), scale=SCALE
    ),
    mean=MEAN,
    likelihood=seqgp.likelihoods.Gaussian(NOISE),
)


def snapshots(sizes, times=None, dimension=1, seed=0):
    """Snapshots at inputs that change, with data of the right size."""
    rng = np.random.default_rng(seed)
    times = np.cumsum(rng.uniform(0.3, 0.9, len(sizes))) if times is None else times
    return [
        seqgp.Snapshot(t, rng.uniform(-1, 1, (n, dimension)), MEAN + SCALE * rng.normal(size=n))
        for t, n in zip(times, sizes)
    ]


def sampler(model=small.MODEL, **changes):
    """The paper's algorithm with few draws: for what does not depend on their number."""
    settings = {
        "draws": 40,
        "chains": 2,
        "warmup": 20,
        "thin": 1,
        "latent": seqgp.Dense(),
        "updates": seqgp.Plain(sweeps=(1, 1, 1)),
    }
    return seqgp.SequentialSampler(model, **(settings | changes))


def covariance(s, x, t, other):
    distance = ((x[:, None] - other[None]) ** 2).sum(-1)
    return SCALE**2 * np.exp(-abs(s - t) / TIME - distance / (2 * SPACE**2))


def matrix_scores(before, after, snapshot):
    """z-scores of a step's mean and covariance, given the draws of the window before it."""
    window, mask = before.window, np.asarray(before.window.mask)
    known = [(window.times[b], window.x[b, s]) for b, s in np.argwhere(mask)]
    present = [(snapshot.t, x) for x in snapshot.x]

    def kernel(rows, columns):
        return np.array([[covariance(s, x[None], t, o[None])[0, 0] for t, o in columns] for s, x in rows])

    cross = kernel(present, known)
    regression = np.linalg.solve(kernel(known, known) + 1e-8 * SCALE**2 * np.eye(len(known)), cross.T).T
    prior = kernel(present, present) - regression @ cross.T
    gain = prior @ np.linalg.inv(prior + NOISE**2 * np.eye(len(prior)))
    keep = (np.eye(len(prior)) - gain) @ regression
    past = np.asarray(window.f)[:, mask]
    mean = keep @ past.mean(0) + gain @ (snapshot.y - MEAN)
    inner = prior - gain @ prior
    total = inner + keep @ np.cov(past, rowvar=False, ddof=0) @ keep.T
    found = np.asarray(after.latent) - MEAN
    first = (found.mean(0) - mean) / np.sqrt(np.diag(inner) / len(found))
    spread = np.sqrt((np.outer(np.diag(total), np.diag(total)) + total**2) / len(found))
    second = (np.cov(found, rowvar=False) - total) / spread
    return np.abs(np.append(first, second))


def compilations() -> set:
    """What has been compiled so far; beside it, the cache has what only shapes decide."""
    return set(engine._CACHE)
