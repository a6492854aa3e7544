"""Ready-made likelihoods of counts, labels and categories."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Literal

import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist

from seqgp.base.bound import Bound
from seqgp.base.errors import DataError, ModelError
from seqgp.base.priors import Parameter, Prior, as_slot
from seqgp.base.snapshot import Context
from seqgp.likelihoods.base import Likelihood
from seqgp.likelihoods.context import Amount, Requirement, amount_of, check_amount_given
from seqgp.likelihoods.distributions import LogitCounts, LogitLabels, OrderedCategories, ProbitLabels
from seqgp.likelihoods.families import check_counts, check_positive_parameters, refuse_values

__all__ = ["Bernoulli", "Binomial", "NegativeBinomial", "Ordinal", "Poisson"]


def _default_exposure(context: Context) -> str | None:
    return "exposure" if isinstance(context, Mapping) and "exposure" in context else None


def _poisson(f, context):
    name = _default_exposure(context)
    return dist.Poisson((1.0 if name is None else context[name]) * jnp.exp(f))


def _poisson_exposed(f, context, *, exposure: Amount):
    return dist.Poisson(amount_of(exposure, context) * jnp.exp(f))


class Poisson(Likelihood):
    """Counts with rate ``exp(f)`` times an exposure.

    By default the exposure is ``context["exposure"]`` if there is one, and 1 otherwise.

    Args:
        exposure: a factor of the rate, a number or the name of an entry of the context.

    Example:
        ``likelihoods.Poisson(exposure="area")``
    """

    bell_shaped = True

    def __init__(self, exposure: Amount = None):
        if exposure is not None:
            check_amount_given("Poisson", "exposure", exposure)
        function = _poisson if exposure is None else Bound(_poisson_exposed, exposure=exposure)
        super().__init__(function, pointwise=True)

    @property
    def _exposure(self) -> Amount:
        return getattr(self.function, "keywords", {}).get("exposure")

    def optional_covariates(self):  # noqa: D102
        return () if self._exposure else ("exposure",)

    def needs(self, context):  # noqa: D102
        exposure = self._exposure or _default_exposure(context)
        return () if exposure is None else (Requirement("exposure", exposure),)

    def check_data(self, y, context):  # noqa: D102
        check_counts("Poisson", y)
        super().check_data(y, context)


def _bernoulli(f, context):
    return LogitLabels(f)


def _bernoulli_probit(f, context):
    return ProbitLabels(f)


class Bernoulli(Likelihood):
    """Zeros and ones with log odds ``f``, or with probability ``Phi(f)``.

    Args:
        link: log odds, or the normal distribution function.

    Example:
        ``likelihoods.Bernoulli(link="probit")``
    """

    bell_shaped = True

    def __init__(self, link: Literal["logit", "probit"] = "logit"):
        if link not in ("logit", "probit"):
            raise ModelError(f"Bernoulli: link = {link!r}: expected 'logit' or 'probit'")
        super().__init__(_bernoulli if link == "logit" else _bernoulli_probit, pointwise=True)

    def arguments(self):  # noqa: D102
        return {"link": "probit" if self.function is _bernoulli_probit else "logit"}

    def check_data(self, y, context):  # noqa: D102
        refuse_values("Bernoulli", y, (y != 0) & (y != 1), "labels outside {0, 1}")


def _binomial(f, context, *, trials: Amount):
    # The data have been checked; NumPyro would ask for the values of trials, which are traced.
    total = jnp.asarray(amount_of(trials, context)).astype(int)
    return LogitCounts(f, total, validate_args=False)


class Binomial(Likelihood):
    """Successes among ``trials`` with log odds ``f``.

    Args:
        trials: a number, or the name of an entry of the context.

    Example:
        ``likelihoods.Binomial(trials="trials")``
    """

    bell_shaped = True

    def __init__(self, trials: float | str = "trials"):
        check_amount_given("Binomial", "trials", trials)
        super().__init__(Bound(_binomial, trials=trials), pointwise=True)

    def needs(self, context):  # noqa: D102
        return (Requirement("trials", self.arguments()["trials"]),)

    def check_data(self, y, context):  # noqa: D102
        check_counts("Binomial", y)
        super().check_data(y, context)
        refuse_values("Binomial", y, y > self._trials(context), "above their number of trials")

    def check_context(self, wanted, context):  # noqa: D102
        super().check_context(wanted, context)
        most = np.broadcast_to(self._trials(context), wanted.shape)[wanted]
        if (most != np.floor(most)).any():
            raise DataError(f"Binomial: trials must be whole numbers, got {most[most != np.floor(most)].flat[0]:g}")

    def _trials(self, context: Context) -> np.ndarray:
        return np.asarray(amount_of(self.needs(context)[0].amount, context), dtype=float)


def _negative_binomial(f, context, dispersion, *, exposure: Amount):
    scale = 1.0 if exposure is None else amount_of(exposure, context)
    return dist.NegativeBinomial2(scale * jnp.exp(f), dispersion)


class NegativeBinomial(Likelihood):
    """Counts with mean ``m = exposure · exp(f)`` and variance ``m + m² / dispersion``: more spread than Poisson.

    Args:
        dispersion: the smaller, the more spread.
        exposure: a factor of the rate, a number or the name of an entry of the context.
    """

    bell_shaped = True

    def __init__(self, dispersion: Parameter, exposure: Amount = None):
        check_positive_parameters("NegativeBinomial", dispersion=dispersion)
        if exposure is not None:
            check_amount_given("NegativeBinomial", "exposure", exposure)
        function = Bound(_negative_binomial, exposure=exposure)
        super().__init__(function, pointwise=True, dispersion=dispersion)

    def needs(self, context):  # noqa: D102
        exposure = self.arguments().get("exposure")
        return () if exposure is None else (Requirement("exposure", exposure),)

    def check_data(self, y, context):  # noqa: D102
        check_counts("NegativeBinomial", y)
        super().check_data(y, context)


def _ordinal(f, context, cutpoints):
    return OrderedCategories(f, jnp.broadcast_to(cutpoints, (*f.shape, cutpoints.shape[0])))


class Ordinal(Likelihood):
    """Ordered categories ``0, 1, …``: a logistic variable around ``f``, cut at increasing numbers.

    The mean shifts all cutpoints and the scale stretches them: if both are inferred, fix two cutpoints.

    Args:
        cutpoints: increasing numbers, or priors that do not overlap.

    Example:
        ``likelihoods.Ordinal(cutpoints=[-1.0, prior, 1.0])``
    """

    bell_shaped = True

    def __init__(self, cutpoints: Sequence[Parameter]):
        given = as_slot(cutpoints, "Ordinal: cutpoints")
        cuts = given if isinstance(given, tuple) else (given,)
        ends = [cut.ends() if isinstance(cut, Prior) else (cut, cut) for cut in cuts]
        for i, ((_, high), (low, _)) in enumerate(itertools.pairwise(ends)):
            if not high < low:
                what = f"[{i}] reaches {high:.3g}, and [{i + 1}] begins at {low:.3g}; take priors that do not overlap"
                raise ModelError(f"Ordinal: cutpoints must be increasing numbers: {what}")
        super().__init__(_ordinal, pointwise=True, cutpoints=cuts)

    def check_data(self, y, context):  # noqa: D102
        last = len(self.arguments()["cutpoints"])
        refuse_values("Ordinal", y, (y < 0) | (y > last) | (y != np.floor(y)), f"no category of 0, 1, …, {last}")
