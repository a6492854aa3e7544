"""Ready-made likelihoods: each a thin function from the level to a NumPyro distribution, with a check of the data."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Mapping
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from jax.scipy.special import ndtr
from jax.scipy.stats import norm

from seqgp.models.amounts import Amount, Needed, amount_of, check_amount_given, positive_parameter
from seqgp.models.errors import DataError, ModelError
from seqgp.models.likelihoods import Likelihood
from seqgp.models.priors import Prior, Slot, as_slot


def _positive(who: str, **slots: Slot) -> None:
    for name, slot in slots.items():
        positive_parameter(as_slot(slot, f"{who}: {name}"), f"{who}: {name}")


def _complain(who: str, y: np.ndarray, bad: np.ndarray, what: str) -> None:
    """Raise if any value of the data is not what the family takes; NaN is missing, and passes."""
    bad = bad & ~np.isnan(y)
    if bad.any():
        first = int(np.argmax(bad.ravel()))
        raise DataError(
            f"{who}: {bad.sum()} of {y.size} values of y are {what} (first at index {first}: {y.ravel()[first]:g})"
        )


def _check_counts(who: str, y: np.ndarray) -> None:
    _complain(who, y, y < 0, "negative, and counts are not")
    _complain(who, y, y != np.floor(y), "not whole, and counts are")


def _student(f, context, noise, df):
    return dist.StudentT(df, f, noise)


class StudentT(Likelihood):
    """``y ~ f + noise · t(df)`` at each input: Gaussian noise with outliers."""

    in_units_of_data = True

    def __init__(self, noise: Slot, df: Slot = 4.0):
        _positive("StudentT", noise=noise, df=df)
        super().__init__(_student, pointwise=True, noise=noise, df=df)


def _default_exposure(context: Any) -> str | None:
    return "exposure" if isinstance(context, Mapping) and "exposure" in context else None


def _poisson(f, context):
    name = _default_exposure(context)
    return dist.Poisson((1.0 if name is None else context[name]) * jnp.exp(f))


def _poisson_exposed(f, context, *, exposure: Amount):
    return dist.Poisson(amount_of(exposure, context) * jnp.exp(f))


class Poisson(Likelihood):
    """Counts with rate ``exp(f)`` times an exposure.

    Args:
        exposure: a number, or the name of an entry of the context; by default ``context["exposure"]`` where there is
            one, otherwise 1.
    """

    bell_shaped = True

    def __init__(self, exposure: Amount = None):
        if exposure is not None:
            check_amount_given("Poisson", "exposure", exposure)
        function = _poisson if exposure is None else functools.partial(_poisson_exposed, exposure=exposure)
        super().__init__(function, pointwise=True)

    def needs(self, context):  # noqa: D102
        exposure = getattr(self.function, "keywords", {}).get("exposure", _default_exposure(context))
        return () if exposure is None else (Needed("exposure", exposure),)

    def check_data(self, y, context):  # noqa: D102
        _check_counts("Poisson", y)
        super().check_data(y, context)


def _bernoulli(f, context):
    return dist.Bernoulli(logits=f)


def _bernoulli_probit(f, context):
    return dist.Bernoulli(probs=ndtr(f))


class Bernoulli(Likelihood):
    """Zeros and ones with log odds ``f``, or with probability ``Phi(f)`` (``link="probit"``)."""

    bell_shaped = True

    def __init__(self, link: Literal["logit", "probit"] = "logit"):
        if link not in ("logit", "probit"):
            raise ModelError(f"Bernoulli: link = {link!r}: expected 'logit' or 'probit'")
        super().__init__(_bernoulli if link == "logit" else _bernoulli_probit, pointwise=True)

    def check_data(self, y, context):  # noqa: D102
        _complain("Bernoulli", y, (y != 0) & (y != 1), "labels outside {0, 1}")


def _binomial(f, context, *, trials: Amount):
    # The data have been checked; NumPyro would ask for the values of trials, which are traced.
    total = jnp.asarray(amount_of(trials, context)).astype(int)
    return dist.Binomial(total_count=total, logits=f, validate_args=False)


class Binomial(Likelihood):
    """Successes among ``trials`` with log odds ``f``; trials are a number, or the name of an entry of the context."""

    bell_shaped = True

    def __init__(self, trials: float | str = "trials"):
        check_amount_given("Binomial", "trials", trials)
        super().__init__(functools.partial(_binomial, trials=trials), pointwise=True)

    def needs(self, context):  # noqa: D102
        return (Needed("trials", self.function.keywords["trials"]),)  # pyright: ignore[reportFunctionMemberAccess]

    def check_data(self, y, context):  # noqa: D102
        _check_counts("Binomial", y)
        super().check_data(y, context)
        _complain("Binomial", y, y > self._trials(context), "above their number of trials")

    def check_context(self, wanted, context):  # noqa: D102
        super().check_context(wanted, context)
        most = np.broadcast_to(self._trials(context), wanted.shape)[wanted]
        if (most != np.floor(most)).any():
            raise DataError(f"Binomial: trials must be whole numbers, got {most[most != np.floor(most)].flat[0]:g}")

    def _trials(self, context: Any) -> np.ndarray:
        return np.asarray(amount_of(self.needs(context)[0].amount, context), dtype=float)


def _negative_binomial(f, context, dispersion, *, exposure: Amount):
    scale = 1.0 if exposure is None else amount_of(exposure, context)
    return dist.NegativeBinomial2(scale * jnp.exp(f), dispersion)


class NegativeBinomial(Likelihood):
    """Counts with mean ``m = exposure · exp(f)`` and variance ``m + m² / dispersion``: more spread than Poisson."""

    bell_shaped = True

    def __init__(self, dispersion: Slot, exposure: Amount = None):
        _positive("NegativeBinomial", dispersion=dispersion)
        if exposure is not None:
            check_amount_given("NegativeBinomial", "exposure", exposure)
        function = functools.partial(_negative_binomial, exposure=exposure)
        super().__init__(function, pointwise=True, dispersion=dispersion)

    def needs(self, context):  # noqa: D102
        exposure = self.function.keywords["exposure"]  # pyright: ignore[reportFunctionMemberAccess]
        return () if exposure is None else (Needed("exposure", exposure),)

    def check_data(self, y, context):  # noqa: D102
        _check_counts("NegativeBinomial", y)
        super().check_data(y, context)


def _log_normal(f, context, noise):
    return dist.LogNormal(f, noise)


class LogNormal(Likelihood):
    """``log y ~ N(f, noise²)``: positive data with a relative error."""

    bell_shaped = True

    def __init__(self, noise: Slot):
        _positive("LogNormal", noise=noise)
        super().__init__(_log_normal, pointwise=True, noise=noise)

    def check_data(self, y, context):  # noqa: D102
        _complain("LogNormal", y, y <= 0, "not positive")


def _gamma(f, context, shape):
    return dist.Gamma(shape, shape * jnp.exp(-f))


class Gamma(Likelihood):
    """Positive data with mean ``exp(f)`` and relative variance ``1 / shape``: waiting times, amounts of rain."""

    bell_shaped = True

    def __init__(self, shape: Slot):
        _positive("Gamma", shape=shape)
        super().__init__(_gamma, pointwise=True, shape=shape)

    def check_data(self, y, context):  # noqa: D102
        _complain("Gamma", y, y <= 0, "not positive")


def _beta(f, context, precision):
    mean = jax.nn.sigmoid(f)
    return dist.Beta(mean * precision, (1 - mean) * precision)


class Beta(Likelihood):
    """Shares between 0 and 1 with mean ``sigmoid(f)``, the closer to it the larger the ``precision``."""

    bell_shaped = True

    def __init__(self, precision: Slot):
        _positive("Beta", precision=precision)
        super().__init__(_beta, pointwise=True, precision=precision)

    def check_data(self, y, context):  # noqa: D102
        _complain("Beta", y, (y <= 0) | (y >= 1), "not between 0 and 1")


class OrderedCategories(dist.OrderedLogistic):
    """NumPyro's, with the mean and variance of the category's number: what a surrogate is found from."""

    def log_prob(self, value):  # noqa: D102
        return super().log_prob(jnp.asarray(value).astype(int))

    @property
    def mean(self):  # noqa: D102
        return self._power(1)

    @property
    def variance(self):  # noqa: D102
        return self._power(2) - self._power(1) ** 2

    def _power(self, power: int):
        probabilities = jnp.asarray(self.probs)
        return probabilities @ jnp.arange(probabilities.shape[-1], dtype=probabilities.dtype) ** power


def _ordinal(f, context, cutpoints):
    return OrderedCategories(f, jnp.broadcast_to(cutpoints, (*f.shape, cutpoints.shape[0])))


class Ordinal(Likelihood):
    """Ordered categories ``0, 1, …``: a logistic variable around ``f``, cut at increasing numbers.

    Mean and scale of the latent move and stretch all cutpoints: where both are inferred, two of these should be known.

    Args:
        cutpoints: numbers, or priors each of which lies above the one before, ``[-1.0, ScaledSigmoid(-1, 1), 1.0]``.
    """

    bell_shaped = True

    def __init__(self, cutpoints: Slot):
        given = as_slot(cutpoints, "Ordinal: cutpoints")
        cuts = given if isinstance(given, tuple) else (given,)
        ends = [cut.ends() if isinstance(cut, Prior) else (cut, cut) for cut in cuts]
        for i, ((_, high), (low, _)) in enumerate(itertools.pairwise(ends)):
            if not high < low:
                what = f"[{i}] reaches {high:.3g}, and [{i + 1}] begins at {low:.3g}; take priors that do not overlap"
                raise ModelError(f"Ordinal: cutpoints must be increasing numbers: {what}")
        super().__init__(_ordinal, pointwise=True, cutpoints=cuts)

    def check_data(self, y, context):  # noqa: D102
        last = len(self.priors["cutpoints"])
        _complain("Ordinal", y, (y < 0) | (y > last) | (y != np.floor(y)), f"no category of 0, 1, …, {last}")


class CensoredNormal(dist.Normal):
    """A normal variable that is recorded as ``limit`` wherever it is below it."""

    limit: Any

    def __init__(self, loc, scale, limit):
        super().__init__(loc, scale)
        self.limit = limit

    def log_prob(self, value):  # noqa: D102
        below = norm.logcdf((self.limit - self.loc) / self.scale)
        return jnp.where(value <= self.limit, below, super().log_prob(value))

    def sample(self, key, sample_shape=()):  # noqa: D102
        return jnp.maximum(super().sample(key, sample_shape), self.limit)


def _censored(f, context, noise, *, limit: Amount):
    return CensoredNormal(f, noise, amount_of(limit, context))


class Censored(Likelihood):
    """Gaussian data below a detection limit: ``y`` at or below it says only that the truth is.

    Args:
        noise: the standard deviation of the data.
        limit: the detection limit, a number or the name of an entry of the context.
    """

    in_units_of_data = True

    def __init__(self, noise: Slot, limit: float | str):
        _positive("Censored", noise=noise)
        check_amount_given("Censored", "limit", limit, positive=False)
        super().__init__(functools.partial(_censored, limit=limit), pointwise=True, noise=noise)

    def needs(self, context):  # noqa: D102
        limit = self.function.keywords["limit"]  # pyright: ignore[reportFunctionMemberAccess]
        return (Needed("limit", limit, positive=False),)
