"""Short sequences of snapshots and samplers of few draws, for tests of init and step."""

import numpy as np

import seqgp
import small
from seqgp.sequential import engine

TIME, SPACE, SCALE, MEAN, NOISE = 1.3, 0.7, 1.2, 0.4, 0.8

KNOWN = seqgp.Model(
    kernel=seqgp.Separable(time=seqgp.Matern12(TIME), space=seqgp.SquaredExponential(SPACE), scale=SCALE),
    mean=MEAN,
    likelihood=seqgp.Gaussian(NOISE),
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
        "carry": "paper",
    }
    return seqgp.SequentialSampler(model, **(settings | changes))


def compilations() -> set:
    """What has been compiled so far."""
    return set(engine._CACHE)
