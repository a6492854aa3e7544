"""The mean of the latent process: a constant, or a regression on covariates.

A mean is linear in its coefficients: ``mean = design @ coefficients``, with one column of ones for the constant (called
``mean``) and one column or several for each feature (called ``mean.NAME``). What of it has a Gaussian prior a filter
integrates out.
"""

from __future__ import annotations

import abc
import functools
from collections.abc import Callable, Iterable, Mapping, Sequence

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from jaxtyping import Array, Float

from seqgp.base.errors import DataError, ModelError
from seqgp.base.priors import (
    FromDistribution,
    Kept,
    Parameter,
    Parameters,
    Prior,
    Slot,
    as_entry,
    as_slot,
    inverse_softplus,
)
from seqgp.base.snapshot import Context, Snapshot
from seqgp.linalg.types import ArrayLike
from seqgp.means.features import Feature, FromContext

__all__ = ["Linear", "inverse_softplus"]


FeatureLike = str | Feature | FromContext | Callable[[float, np.ndarray], ArrayLike]
"""A column of a mean: the name of an entry of the context, a feature, or a function of ``(t, x)``."""


class Mean(eqx.Module):
    """A mean that is linear in its coefficients."""

    @abc.abstractmethod
    def slots(self) -> dict[str, Kept]:
        """The coefficients by name, in the order of the columns: numbers and priors."""

    @abc.abstractmethod
    def design(self, t: float, x: Float[np.ndarray, "N D"], context: Context) -> Float[np.ndarray, "N q"]:
        """The columns at inputs, the constant's first: checked, and finite."""

    @property
    def names(self) -> list[str]:
        """The names of the columns: ``mean``, ``mean.elevation``, ``mean.season[0]``."""
        found = []
        for name, slot in self.slots().items():
            found += [f"{name}[{i}]" for i in range(len(slot))] if isinstance(slot, tuple) else [name]
        return found

    @property
    def from_context(self) -> list[str]:
        """The entries of the context that it needs."""
        return []

    @property
    def covariates(self) -> bool:
        """Whether there is more than a constant."""
        return len(self.names) > 1

    def coefficients(self, parameters: Parameters) -> Float[Array, " q"]:
        """The coefficients from all parameters of a model."""
        return jnp.concatenate([jnp.atleast_1d(parameters[name]) for name in self.slots()])

    def value(self, parameters: Parameters, design: Float[ArrayLike, "N q"]) -> Float[Array, " N"]:
        """The mean at inputs."""
        return jnp.asarray(design) @ self.coefficients(parameters)

    def columns(self, t: float, x: Float[np.ndarray, "N D"], context: Context) -> dict[str, Float[np.ndarray, "N w"]]:
        """The columns of the covariates alone, by the names of their weights; none for a constant."""
        design, found, first = self.design(t, x, context), {}, 1
        for name, slot in list(self.slots().items())[1:]:
            width = len(slot) if isinstance(slot, tuple) else 1
            found[name] = design[:, first : first + width]
            first += width
        return found

    def check_varying(self, snapshots: Sequence[Snapshot]) -> None:
        """Raise if a covariate is the same at all data, beside a constant that is inferred: only their sum is seen."""
        slots = self.slots()
        if not self.covariates or not isinstance(slots["mean"], Prior):
            return
        design = np.concatenate([self.design(one.t, one.x, one.context) for one in snapshots])
        for name, entry, column in list(zip(self.names, self._entries(), design.T))[1:]:
            inferred = isinstance(entry, Prior)
            if column[0] != 0 and (column == column[0]).all() and inferred:
                raise DataError(
                    f"covariate {name.removeprefix('mean.')!r} is {column[0]:g} at all {len(column)} data: its weight "
                    "cannot be told from the intercept; leave it out, or give intercept=0.0"
                )

    def gaussian(self) -> list[tuple[float, float] | None]:
        """For each column the mean and sd of its coefficient's prior where that is Gaussian, otherwise ``None``."""
        return [_normal_moments(entry) for entry in self._entries()]

    def _entries(self) -> list[float | Prior]:
        """The coefficient of each column: a number, or a prior."""
        found: list[float | Prior] = []
        for slot in self.slots().values():
            found += slot if isinstance(slot, tuple) else (slot,)
        return found


def _normal_moments(entry: float | Prior) -> tuple[float, float] | None:
    if isinstance(entry, FromDistribution) and type(entry.distribution) is dist.Normal:
        return float(np.asarray(entry.distribution.loc)), float(np.asarray(entry.distribution.scale))
    return None


def covariate_effect(columns: Mapping[str, ArrayLike], parameters: Parameters) -> Float[Array, " N"] | float:
    """What the covariates add to ``f``, from columns by the names of their weights; 0 where there are none."""
    terms = [jnp.asarray(values) @ jnp.atleast_1d(parameters[name]) for name, values in columns.items()]
    return functools.reduce(jnp.add, terms) if terms else 0.0


class ConstantMean(Mean):
    """The same everywhere: a number or a prior."""

    mean: Kept

    def slots(self):
        return {"mean": self.mean}

    def design(self, t, x, context):
        return np.ones((len(x), 1))


class Linear(Mean):
    """``intercept + Σ weight · feature``: a mean with covariates.

    Args:
        features: names of the snapshot's context, functions of ``(t, x)``, or ``seqgp.means.Feature``
            (``seqgp.means.harmonics`` is one).
        weights: a number or prior for all, a list with one for each feature, or a dictionary by the feature's name.
        intercept: the mean where all features are zero, the parameter ``mean``.
    """

    features: tuple[Feature | FromContext, ...]
    weights: dict[str, Kept]
    intercept: Kept

    def __init__(self, features: Sequence[FeatureLike], weights: Slot | Mapping[str, Slot], intercept: Parameter = 0.0):
        if isinstance(features, str) or not isinstance(features, Iterable):
            got = repr(features) if isinstance(features, str) else type(features).__name__
            raise ModelError(f"Linear: features = {got}: expected a list of features, of one as well: ['elevation']")
        self.features = tuple(_as_feature(feature) for feature in features)
        names = [feature.name for feature in self.features]
        if not names:
            raise ModelError("Linear: features is empty; for a constant alone give mean=prior")
        for name in names:
            if names.count(name) > 1:
                raise ModelError(
                    f"Linear: two features are called {name!r}; name one by seqgp.means.Feature(…, name=…)"
                )
        given = _by_name(weights, names)
        self.weights = {f.name: _weights_of(given[f.name], f) for f in self.features}
        self.intercept = as_entry(intercept, "Linear: intercept")

    @property
    def from_context(self) -> list[str]:  # noqa: D102
        return [feature.name for feature in self.features if isinstance(feature, FromContext)]

    def slots(self):  # noqa: D102
        # In the order of the columns: JAX sorts a dictionary when it takes a model apart.
        return {"mean": self.intercept} | {f"mean.{one.name}": self.weights[one.name] for one in self.features}

    def design(self, t, x, context):  # noqa: D102
        columns = [np.ones((len(x), 1))]
        for feature in self.features:
            values = feature.columns(t, x, context)
            bad = ~np.isfinite(values).all(axis=1)
            if bad.any():
                raise DataError(
                    f"covariate {feature.name!r}: {bad.sum()} of {len(x)} values at t = {t:g} are not finite (first at "
                    f"index {int(np.argmax(bad))}); every covariate must be known"
                )
            columns.append(values)
        return np.concatenate(columns, axis=1)


def _as_feature(feature: FeatureLike) -> Feature | FromContext:
    if isinstance(feature, str):
        if not feature or "[" in feature:
            raise ModelError(f"Linear: {feature!r} is no name of a covariate")
        return FromContext(feature)
    if isinstance(feature, (Feature, FromContext)):
        return feature
    if callable(feature):
        return Feature(feature)
    raise ModelError(
        f"Linear: expected names of the context or functions of (t, x) as features, got {type(feature).__name__}"
    )


def _by_name(weights: Slot | Mapping[str, Slot], names: list[str]) -> dict[str, Slot]:
    if isinstance(weights, Mapping):
        if set(weights) != set(names):
            wrong = sorted(set(weights) ^ set(names))[0]
            what = "has no weight" if wrong in names else "is no feature"
            raise ModelError(f"Linear: {wrong!r} {what}; features are {', '.join(names)}")
        return dict(weights)
    if isinstance(weights, (list, tuple)):
        if len(weights) != len(names):
            raise ModelError(f"Linear: {len(weights)} weights for {len(names)} features; give one, or one for each")
        return dict(zip(names, weights))
    return dict.fromkeys(names, weights)


def _weights_of(value: Slot, feature: Feature | FromContext) -> Kept:
    """One entry for each column of a feature."""
    slot = as_slot(value, f"Linear: weight of {feature.name}")
    if feature.width == 1:
        return slot[0] if isinstance(slot, tuple) and len(slot) == 1 else as_entry(slot, f"weight of {feature.name}")
    entries = slot if isinstance(slot, tuple) else (slot,) * feature.width
    if len(entries) != feature.width:
        raise ModelError(f"Linear: {len(entries)} weights for the {feature.width} columns of {feature.name!r}")
    return entries


def as_mean(mean: object) -> float | Prior | Mean:
    """What a model keeps as its mean: a number, a prior, or a mean with covariates."""
    return mean if isinstance(mean, Mean) else as_entry(mean, "Model: mean")
