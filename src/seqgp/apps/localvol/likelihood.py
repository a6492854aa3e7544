"""The likelihood: prices of a day's quotes under local volatility at knots, with noise.

The surface is known at knots of a coordinate `u`. A day reads it at `u = y + s m`, where `y = log(K/F)`, `m` is how far
the log of the spot has moved since the reference day, and `s` is the stickiness:

- `s = 0`: the surface keeps its place in moneyness ("sticky moneyness");
- `s = 1/2`: implied volatilities keep theirs at a fixed strike, to first order ("sticky strike");
- `s = 1`: local volatilities keep theirs at a fixed strike ("sticky local volatility").
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpyro.distributions as dist
from jaxtyping import Array, Float

import seqgp
from seqgp.apps.localvol.grid import Mesh
from seqgp.apps.localvol.solver import PricingPlan, quote_prices
from seqgp.apps.localvol.surface import knot_weights

DEGREES = 4.0  # of freedom, of robust noise


def make_likelihood(robust: bool, noise: Any, stickiness: Any) -> seqgp.likelihoods.Likelihood:
    """Gaussian or Student-t noise, with numbers or priors for its scale and for the stickiness."""
    return seqgp.likelihoods.Likelihood(_student if robust else _gaussian, noise=noise, stickiness=stickiness)


def as_tree(plan: PricingPlan) -> dict[str, Any]:
    """A plan as a tree of arrays, which a run on disk can hold."""
    fields = dict(vars(plan))
    return fields | {"grid": dict(vars(plan.grid))}


def from_tree(tree: dict[str, Any]) -> PricingPlan:
    """The plan again."""
    fields: dict[str, Any] = {**tree, "grid": Mesh(**tree["grid"])}
    return PricingPlan(**fields)


def model_prices(
    f: Float[Array, " n"], context: dict[str, Any], stickiness: Float[Array, ""]
) -> Float[Array, " quotes"]:
    """Prices of the quotes of a snapshot's context, from the latent function `f` at the knots."""
    plan, knots = from_tree(context["plan"]), jnp.asarray(context["knots"])
    in_strike = knot_weights(knots, jnp.asarray(plan.grid.y) + stickiness * context["move"])
    log_sigma = jnp.log(jax.nn.softplus(f)).reshape(plan.in_time.shape[1], len(knots))
    return quote_prices(plan, jnp.exp(plan.in_time @ log_sigma @ in_strike.T))


def _gaussian(f, context, noise, stickiness):
    return dist.Normal(model_prices(f, context, stickiness), noise * context["unit"])


def _student(f, context, noise, stickiness):
    return dist.StudentT(DEGREES, model_prices(f, context, stickiness), noise * context["unit"])
