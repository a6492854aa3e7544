"""A snapshot as the compiled code sees it: padded, with missing values filled, and the way from sites to data."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float, PyTree

from seqgp.base.errors import ModelError
from seqgp.base.snapshot import Snapshot
from seqgp.fields.sites import Observe, pad_rows
from seqgp.kernels.base import Parameters
from seqgp.likelihoods.base import Likelihood, Plane, Sums, fill_missing
from seqgp.linalg.types import Array, ArrayLike
from seqgp.means.base import covariate_effect
from seqgp.model import Model


class Observed(NamedTuple):
    """The data of one snapshot, as arrays."""

    observe: Observe
    y: Float[ArrayLike, "*data"]
    missing: Bool[ArrayLike, "*data"]
    context: PyTree
    sums: Sums | None  # sufficient statistics, which then take the place of the data
    columns: Mapping[str, Float[ArrayLike, "N w"]]  # of the covariates of the mean, by the names of their weights

    def f(self, sites: Float[Array, " S"], parameters: Parameters) -> Float[Array, " N"]:
        """The latent function at the data, its mean included."""
        return self.observe(sites) + parameters["mean"] + covariate_effect(self.columns, parameters)

    def columns_at_sites(self, name: str, sites: int) -> Float[Array, "S w"]:
        """The columns of a covariate where its data lie among the sites; zero elsewhere."""
        values, index = jnp.asarray(self.columns[name]), self.observe.index
        return values if index is None else jnp.zeros((sites, values.shape[1])).at[index].set(values)

    def log_likelihood(
        self, likelihood: Likelihood, sites: Float[Array, " S"], parameters: Parameters
    ) -> Float[Array, ""]:
        """The log density of the data given the zero-mean part of ``f`` at the sites."""
        if self.sums is not None:
            return self.sums.log_likelihood(sites, parameters["mean"], parameters)
        f = self.f(sites, parameters)
        return likelihood.log_prob(f, self.y, self.missing, self.context, parameters)

    def on_planes(
        self,
        likelihood: Likelihood,
        middle: Float[Array, " S"],
        columns: Float[Array, "S k"],
        parameters: Parameters,
    ) -> Plane:
        """The log likelihood on a plane of a span: ``(u, v)`` to a function of ``(c, s)``.

        The sites are ``middle + columns @ (c u + s v)``.
        """
        if self.sums is not None:
            return self.sums.on_planes(middle, columns, parameters["mean"], parameters)
        f, seen = self.f(middle, parameters), self.observe(columns)
        return likelihood.on_planes(f, seen, self.y, self.missing, self.context, parameters)


def observed_from(model: Model, snapshot: Snapshot, observe: Observe, size: int) -> Observed:
    """The arrays of a snapshot, padded with missing data to ``size`` points."""
    n = len(snapshot.x)
    y, context = snapshot.y, model.likelihood.context_at(snapshot.t, snapshot.context)
    if size > n:
        y = np.concatenate([y, np.full((size - n, *y.shape[1:]), np.nan)])
        context = jax.tree.map(lambda leaf: pad_rows(leaf, n, size), context)
        if observe.weights is not None:
            observe = observe._replace(weights=pad_rows(observe.weights, n, size))
    columns = model.mean_function.columns(snapshot.t, snapshot.x, snapshot.context)
    if columns and observe.weights is not None:
        raise ModelError(
            "Knots: a mean with covariates is known at the data, not at the knots; use latent=seqgp.Dense() or Grid()"
        )
    columns = {name: pad_rows(values, n, size) for name, values in columns.items()}
    filled, missing = fill_missing(y)
    sums = None if observe.weights is None else model.likelihood.sums(observe.weights, filled, missing, context)
    if sums is not None:
        observe, filled, missing = Observe(), filled[:0], missing[:0]
    return Observed(observe, filled, missing, context, sums, columns)
