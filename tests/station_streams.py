"""A small network with a fault, and its covariance by hand."""

import numpy as np

import seqgp

SCALE, TIME, SPACE, NOISE, MEAN = 2.0, 3.0, 0.6, 0.4, 5.0
BROKEN, SINCE = 2, 6


def known_model(noise=NOISE):
    """All parameters known, so that every result has a closed form."""
    kernel = seqgp.Separable(seqgp.kernels.Matern12(TIME), seqgp.kernels.Matern32(SPACE), SCALE)
    return seqgp.Model(kernel, seqgp.likelihoods.Gaussian(noise), mean=MEAN)


def places(stations=8, seed=0):
    return np.random.default_rng(seed).random((stations, 2))


def covariance(t, x):
    """Of the latent at rows of times and places."""
    distance = np.sqrt(3) * np.linalg.norm(x[:, None] - x[None], axis=-1) / SPACE
    lag = np.abs(t[:, None] - t[None]) / TIME
    return SCALE**2 * np.exp(-lag) * (1 + distance) * np.exp(-distance)


def readings(days=16, stations=8, seed=0, missing=0.0):
    """Data of the model, ``(days, stations)``, without a fault."""
    rng, x = np.random.default_rng(seed + 1), places(stations)
    t, rows = np.repeat(np.arange(days), stations).astype(float), np.tile(x, (days, 1))
    root = np.linalg.cholesky(covariance(t, rows) + 1e-10 * np.eye(len(t)))
    y = MEAN + (root @ rng.normal(size=len(t))).reshape(days, stations) + NOISE * rng.normal(size=(days, stations))
    y[rng.random(y.shape) < missing] = np.nan
    return y


def snapshots(y, stations=None):
    x = places(y.shape[1] if stations is None else stations)
    return [seqgp.Snapshot(float(t), x, row) for t, row in enumerate(y)]


def shifted(y, by=7.0, since=SINCE):
    y = y.copy()
    y[since:, BROKEN] += by
    return y
