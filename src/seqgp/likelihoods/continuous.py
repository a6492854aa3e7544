"""Ready-made likelihoods of data on a continuous scale."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpyro.distributions as dist

from seqgp.base.bound import Bound
from seqgp.base.priors import Parameter
from seqgp.likelihoods.base import Likelihood
from seqgp.likelihoods.context import Amount, Requirement, amount_of, check_amount_given
from seqgp.likelihoods.distributions import CensoredNormal
from seqgp.likelihoods.families import check_positive_parameters, refuse_values

__all__ = ["Beta", "Censored", "Exponential", "Gamma", "LogNormal", "StudentT"]


def _student(f, context, noise, df):
    return dist.StudentT(df, f, noise)


class StudentT(Likelihood):
    """``y ~ f + noise · t(df)`` at each input: Gaussian noise with outliers.

    Args:
        noise: a standard deviation.
        df: degrees of freedom.
    """

    in_units_of_data = True

    def __init__(self, noise: Parameter, df: Parameter = 4.0):
        check_positive_parameters("StudentT", noise=noise, df=df)
        super().__init__(_student, pointwise=True, noise=noise, df=df)


def _censored(f, context, noise, *, limit: Amount):
    return CensoredNormal(f, noise, amount_of(limit, context))


class Censored(Likelihood):
    """Gaussian data with a detection limit: a ``y`` at or below it is left-censored.

    Args:
        noise: a standard deviation.
        limit: the detection limit, a number or the name of an entry of the context.

    Example:
        ``likelihoods.Censored(noise=prior, limit=0.1)``
    """

    in_units_of_data = True

    def __init__(self, noise: Parameter, limit: float | str):
        check_positive_parameters("Censored", noise=noise)
        check_amount_given("Censored", "limit", limit, positive=False)
        super().__init__(Bound(_censored, limit=limit), pointwise=True, noise=noise)

    def needs(self, context):  # noqa: D102
        return (Requirement("limit", self.arguments()["limit"], positive=False),)


def _log_normal(f, context, noise):
    return dist.LogNormal(f, noise)


class LogNormal(Likelihood):
    """``log y ~ N(f, noise²)``: positive data with a relative error.

    Args:
        noise: a standard deviation.
    """

    bell_shaped = True

    def __init__(self, noise: Parameter):
        check_positive_parameters("LogNormal", noise=noise)
        super().__init__(_log_normal, pointwise=True, noise=noise)

    def check_data(self, y, context):  # noqa: D102
        refuse_values("LogNormal", y, y <= 0, "not positive")


def _exponential(f, context):
    return dist.Exponential(jnp.exp(-f))


class Exponential(Likelihood):
    """Waiting times without memory: ``y ≥ 0`` with mean ``exp(f)`` and density ``exp(−y / mean) / mean``."""

    bell_shaped = True

    def __init__(self):
        super().__init__(_exponential, pointwise=True)

    def check_data(self, y, context):  # noqa: D102
        refuse_values("Exponential", y, y < 0, "negative")


def _gamma(f, context, shape):
    return dist.Gamma(shape, shape * jnp.exp(-f))


class Gamma(Likelihood):
    """Positive data with mean ``exp(f)`` and relative variance ``1 / shape``: waiting times, amounts of rain.

    Args:
        shape: one over the relative variance.
    """

    bell_shaped = True

    def __init__(self, shape: Parameter):
        check_positive_parameters("Gamma", shape=shape)
        super().__init__(_gamma, pointwise=True, shape=shape)

    def check_data(self, y, context):  # noqa: D102
        refuse_values("Gamma", y, y <= 0, "not positive")


def _beta(f, context, precision):
    return dist.Beta(jax.nn.sigmoid(f) * precision, jax.nn.sigmoid(-f) * precision)


class Beta(Likelihood):
    """Proportions between 0 and 1 with mean ``sigmoid(f)``.

    Args:
        precision: the larger, the nearer to the mean.
    """

    bell_shaped = True

    def __init__(self, precision: Parameter):
        check_positive_parameters("Beta", precision=precision)
        super().__init__(_beta, pointwise=True, precision=precision)

    def check_data(self, y, context):  # noqa: D102
        refuse_values("Beta", y, (y <= 0) | (y >= 1), "not between 0 and 1")
