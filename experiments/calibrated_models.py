"""Every ready-made likelihood, kernel and mean in a small model, with priors for all of its parameters."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist

import seqgp
from seqgp.base.options import options_of
from seqgp.evaluate.simulate import default_design
from seqgp.kernels import Kernel
from seqgp.likelihoods import Likelihood

N = 8  # data of a snapshot


class Piece(NamedTuple):
    """A model to be calibrated, and the data that it takes."""

    model: seqgp.Model
    context: dict[str, np.ndarray] | None = None
    x: np.ndarray | None = None  # where they are, if not anywhere in the unit cube

    def design(self, steps: int) -> list[seqgp.Snapshot]:
        """Where and when the data of the first ``steps`` snapshots are."""
        snapshots = default_design(self.model, n=N, steps=steps) if self.x is None else at(self.x, steps)
        return [seqgp.Snapshot(one.t, one.x, one.y, self.context) for one in snapshots]


def with_priors(parts: dict[str, type], among: list[Any]) -> dict[str, Any]:
    """Each class that none of some objects is of, with a prior for each of its parameters."""
    return {
        name: part(**{key: between(0.3, 2) for key, one in options_of(part).items() if one.inferable})
        for name, part in parts.items()
        if not any(type(one) is part for one in among)
    }


def at(x: np.ndarray, steps: int) -> list[seqgp.Snapshot]:
    """The same inputs at times a quarter apart."""
    return [seqgp.Snapshot(0.25 * i, x, np.zeros(len(x))) for i in range(steps)]


def between(low: float, high: float) -> Any:
    return seqgp.ScaledSigmoid(low, high)


def model(likelihood=None, time=None, space=None, mean=None) -> seqgp.Model:
    """The piece in question among others that are plain."""
    return seqgp.Model(
        seqgp.Separable(
            time=time or seqgp.kernels.SquaredExponential(between(0.1, 3)),
            space=space or seqgp.kernels.SquaredExponential(between(0.1, 2)),
            scale=between(0.1, 2),
        ),
        likelihood or seqgp.likelihoods.Gaussian(between(0.05, 1)),
        mean=between(-1, 1) if mean is None else mean,
        jitter=1e-6,
    )


ERRORS = {"se": np.linspace(0.5, 1.5, N)}
AREA = {"area": np.linspace(1.0, 4.0, N)}
SEASON = seqgp.means.harmonics(1.0)
CELLS = seqgp.likelihoods.LogGaussianCox([(0.0, 1.0)], N)
LIKELIHOODS = {
    "Gaussian errors": Piece(model(seqgp.likelihoods.Gaussian(between(0.05, 1), "se")), ERRORS),
    "Gaussian squares": Piece(model(seqgp.likelihoods.Gaussian(between(0.05, 1), "se", combine="squares")), ERRORS),
    "Gaussian trend": Piece(model(seqgp.likelihoods.Gaussian(between(0.05, 1), trend=between(-2, 2)))),
    "Gaussian season": Piece(
        model(seqgp.likelihoods.Gaussian(seqgp.means.Modulated(between(0.05, 1), SEASON, dist.Normal(0.0, 0.5))))
    ),
    "StudentT": Piece(model(seqgp.likelihoods.StudentT(between(0.05, 1), df=4.0))),
    "Bernoulli": Piece(model(seqgp.likelihoods.Bernoulli())),
    "Bernoulli probit": Piece(model(seqgp.likelihoods.Bernoulli(link="probit"))),
    "Binomial": Piece(model(seqgp.likelihoods.Binomial()), {"trials": np.arange(3.0, 3.0 + N)}),
    "Poisson": Piece(model(seqgp.likelihoods.Poisson("area")), AREA),
    "LogGaussianCox": Piece(model(CELLS), CELLS.context(duration=20.0)),
    "NegativeBinomial": Piece(model(seqgp.likelihoods.NegativeBinomial(between(0.5, 5), "area")), AREA),
    "LogNormal": Piece(model(seqgp.likelihoods.LogNormal(between(0.05, 1)))),
    "Gamma": Piece(model(seqgp.likelihoods.Gamma(between(0.5, 8)))),
    "Beta": Piece(model(seqgp.likelihoods.Beta(between(2, 20)))),
    "Ordinal": Piece(model(seqgp.likelihoods.Ordinal([-1.0, 0.0, 1.0]))),
    "Censored": Piece(model(seqgp.likelihoods.Censored(between(0.05, 1), limit=0.0))),
}

_others = with_priors(
    seqgp.likelihoods.catalogue.classes(Likelihood), [piece.model.likelihood for piece in LIKELIHOODS.values()]
)
LIKELIHOODS |= {name: Piece(model(likelihood)) for name, likelihood in _others.items()}

OF_TIME = {
    "Matern12": seqgp.kernels.Matern12(between(0.1, 3)),
    "Matern32": seqgp.kernels.Matern32(between(0.1, 3)),
    "Matern52": seqgp.kernels.Matern52(between(0.1, 3)),
    "SquaredExponential": seqgp.kernels.SquaredExponential(between(0.1, 3)),
    "RationalQuadratic": seqgp.kernels.RationalQuadratic(between(0.1, 3), alpha=1.5),
    "Periodic": seqgp.kernels.Periodic(between(0.6, 2), period=between(0.6, 2)),
    "Constant": seqgp.kernels.Constant(scale=between(0.2, 2)),
    "WhiteNoise": seqgp.kernels.WhiteNoise(between(0.2, 2)),
    "Sum": seqgp.kernels.Matern32(between(0.1, 3))
    + seqgp.kernels.Constant(scale=between(0.2, 2)) * seqgp.kernels.Matern12(between(1, 9)),
    "Times": seqgp.kernels.Periodic(between(0.6, 2), period=1.0) * seqgp.kernels.Matern52(between(0.5, 4)),
}

GLOBE = np.column_stack([np.linspace(-170, 170, N), 70 * np.sin(np.arange(N))])
OUTPUTS = np.column_stack([np.arange(N) % 2, np.linspace(0, 1, N)])
OF_SPACE = {
    "Matern12": seqgp.kernels.Matern12(between(0.1, 2)),
    "Matern32": seqgp.kernels.Matern32(between(0.1, 2)),
    "Matern52": seqgp.kernels.Matern52([between(0.1, 2), between(0.1, 2)]),
    "SquaredExponential": seqgp.kernels.SquaredExponential([between(0.1, 2), between(0.1, 2)]),
    "RationalQuadratic": seqgp.kernels.RationalQuadratic(between(0.1, 2), alpha=between(0.5, 4)),
    "Periodic": seqgp.kernels.Periodic(between(0.5, 2), period=between(0.3, 1.5)),
    "Constant": seqgp.kernels.Constant(scale=between(0.2, 2)),
    "WhiteNoise": seqgp.kernels.WhiteNoise(between(0.2, 2)),
    "LinearKernel": seqgp.kernels.DotProduct(between(0.2, 2), centre=0.2),
    "Sum": seqgp.kernels.Matern32(between(0.1, 2)) + seqgp.kernels.WhiteNoise(between(0.05, 1)),
    "Times": seqgp.kernels.Constant(scale=between(0.2, 2)) * seqgp.kernels.Matern52(between(0.1, 2)),
    "Product": seqgp.kernels.PerColumn(
        [seqgp.kernels.Matern12(between(0.1, 2)), seqgp.kernels.SquaredExponential(between(0.1, 2))]
    ),
    "Rotated": seqgp.kernels.Rotated(seqgp.kernels.Matern32([between(0.1, 0.5), between(0.5, 2)]), between(-1.5, 1.5)),
    "Covariance": seqgp.kernels.Covariance(
        lambda a, b, reach: jnp.maximum(1 - abs(a[0] - b[0]) / reach, 0.0), reach=between(0.2, 2)
    ),
    "GreatCircle": seqgp.kernels.GreatCircle(seqgp.kernels.Matern32(between(500, 9000))),
    "Coregionalised": seqgp.kernels.Coregionalised(2, 1, seqgp.kernels.Matern32(between(0.1, 2))),
}

NAMED = {name: one for name, one in seqgp.kernels.catalogue.classes(Kernel).items() if one.in_files}
_others = with_priors(NAMED, [*OF_TIME.values(), *OF_SPACE.values()])
OF_TIME |= {name: one for name, one in _others.items() if one.stationary}
OF_SPACE |= _others
PLACES = {"GreatCircle": GLOBE, "Coregionalised": OUTPUTS}

SUMS = {
    "Separable + Separable": Piece(
        seqgp.Model(
            seqgp.Separable(
                seqgp.kernels.Matern32(between(0.1, 3)), seqgp.kernels.Matern32(between(0.1, 2)), between(0.1, 2)
            )
            + seqgp.Separable(seqgp.kernels.Constant(scale=1.0), seqgp.kernels.WhiteNoise(1.0), between(0.1, 2)),
            seqgp.likelihoods.Gaussian(between(0.05, 1)),
            mean=between(-1, 1),
            jitter=1e-6,
        )
    )
}

STAY = np.column_stack([np.linspace(0, 1, N), 0.5 + 0.4 * np.sin(3.0 * np.arange(N))])


def delayed(bound: float) -> Piece:
    """A delay between stations that stay, beside a term without one; snapshots are a quarter apart."""
    moving = seqgp.Separable(
        seqgp.kernels.Matern32(between(0.1, 3)), seqgp.kernels.Matern12(between(0.1, 2)), between(0.1, 2)
    )
    still = seqgp.Separable(seqgp.kernels.Matern12(1.0), seqgp.kernels.Matern12(0.5), between(0.1, 1))
    kernel = seqgp.Delayed(moving, [between(-bound, bound)] * 2) + still
    return Piece(seqgp.Model(kernel, seqgp.likelihoods.Gaussian(between(0.05, 1)), mean=between(-1, 1)), x=STAY)


MOVING = {"Delayed": delayed(0.1), "Delayed, by more than a step": delayed(0.4)}

# Of place as well as of time: at a single time a season is a constant, as the intercept is.
FEATURES = ["elevation", seqgp.means.Feature(lambda t, x: np.cos(4 * x[:, 0] + 7 * t), "wave")]
ELEVATION = {"elevation": np.cos(np.arange(float(N)))}
MEANS = {
    "number": Piece(model(mean=0.5)),
    "Gaussian": Piece(model(mean=dist.Normal(0.5, 1.0))),
    "Linear, Gaussian weights": Piece(
        model(mean=seqgp.means.Linear(FEATURES, dist.Normal(0.0, 1.0), intercept=dist.Normal(0.5, 1.0))), ELEVATION
    ),
    "Linear, other weights": Piece(
        model(mean=seqgp.means.Linear(FEATURES, between(-2, 2), intercept=between(-1, 1))), ELEVATION
    ),
}

SEASONS = {
    "scale": Piece(
        seqgp.Model(
            seqgp.Separable(
                seqgp.kernels.Matern32(between(0.1, 3)),
                seqgp.kernels.Matern32(between(0.1, 2)),
                seqgp.means.Modulated(between(0.1, 2), SEASON, dist.Normal(0.0, 0.5)),
            ),
            seqgp.likelihoods.Gaussian(between(0.05, 1)),
            mean=between(-1, 1),
            jitter=1e-6,
        )
    )
}

STATIONS = {"Gaussian": Piece(model(seqgp.likelihoods.Gaussian(between(0.05, 1), by="station")))}

PIECES = {
    "likelihood": LIKELIHOODS,
    "kernel of time": {name: Piece(model(time=kernel)) for name, kernel in OF_TIME.items()},
    "kernel of space": {name: Piece(model(space=kernel), x=PLACES.get(name)) for name, kernel in OF_SPACE.items()},
    "sum of latents": SUMS,
    "moving kernel": MOVING,
    "season": SEASONS,
    "noise by station": STATIONS,
    "mean": MEANS,
}
