"""The model of the tests, whose parts can be others, and the target of a step of it, for tests of single updates."""

import jax.numpy as jnp
import numpy as np

import seqgp
from seqgp.fields.dense import Dense
from seqgp.fields.sites import Observe
from seqgp.mcmc.charts import whitened_at
from seqgp.mcmc.observed import Observed
from seqgp.mcmc.problem import Problem, target_of
from seqgp.mcmc.target import position_at

X = np.array([[0.0], [0.4], [1.1]])
TIMES = np.array([0.0, 0.5])
WINDOW = np.array([[1.0, 0.4, -0.6]])  # the latent at the time before

# The moments of z after a step are neither centred nor independent.
MEAN = np.array([0.6, -0.5, 0.3, 0.8, -0.4])
_HALF = np.array(
    [
        [1.0, 0.0, 0.0, 0.0, 0.0],
        [0.5, 0.9, 0.0, 0.0, 0.0],
        [-0.4, 0.3, 0.8, 0.0, 0.0],
        [0.6, -0.3, 0.2, 0.7, 0.0],
        [-0.5, 0.4, 0.3, 0.2, 0.6],
    ]
)
COVARIANCE = _HALF @ _HALF.T


def model(**changes) -> seqgp.Model:
    """Five parameters, all inferred; ``time``, ``space``, ``scale`` and what a ``Model`` takes can be others."""
    parts = {
        "time": seqgp.kernels.SquaredExponential(seqgp.ScaledSigmoid(0.2, 3)),
        "space": seqgp.kernels.SquaredExponential(seqgp.ScaledSigmoid(0.2, 2)),
        "scale": seqgp.ScaledSigmoid(0.3, 2),
        "mean": seqgp.ScaledSigmoid(-1, 2),
        "likelihood": seqgp.likelihoods.Gaussian(seqgp.ScaledSigmoid(0.2, 0.9)),
    } | changes
    separable = seqgp.Separable(*(parts.pop(name) for name in ("time", "space", "scale")))
    return seqgp.Model(**({"kernel": separable} | parts))


MODEL = model()
BLOCKS = MODEL.layout()


def target(y, of: seqgp.Model = MODEL, missing=None, window=WINDOW, mean=MEAN, covariance=COVARIANCE):
    """The target of a step with one time before it."""
    y = jnp.asarray(y)
    missing = np.zeros(y.shape, bool) if missing is None else missing
    blocks = len(window) + 1
    problem = Problem(
        mean=mean,
        covariance=covariance,
        times=TIMES[-blocks:],
        x=np.stack([X] * blocks),
        mask=np.ones((blocks, len(X)), bool),
        observed=(Observed(Observe(), y, missing, None, None, {}),),
        representation=Dense(),
    )
    return target_of(of, problem).given_window(jnp.asarray(window))


class Changed:
    """A target with some of its functions replaced: for mutants."""

    def __init__(self, true, **changes):
        self._true = true
        vars(self).update(changes)

    def __getattr__(self, name):
        return getattr(self._true, name)


def position(of, z, nu):
    """The position at ``(z, nu)`` in whitened coordinates."""
    return position_at(of, z, nu, whitened_at(of, z))
