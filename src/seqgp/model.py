"""A model: kernel, mean, likelihood, and the one Gaussian vector ``z`` behind all its parameters."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from seqgp.base.errors import ModelError
from seqgp.base.identity import describe
from seqgp.base.priors import Kept, Parameter, Parameters, Prior, known_numbers
from seqgp.kernels.base import Kernel
from seqgp.kernels.separable import LatentKernel
from seqgp.likelihoods.base import Likelihood
from seqgp.linalg.types import ArrayLike
from seqgp.means.base import ConstantMean, Mean, as_mean

LARGEST_JITTER = 1e-2  # more would change what the model says, at any scale


class Layout(NamedTuple):
    """Where the entries of ``z`` belong: index arrays of the blocks."""

    kernel: np.ndarray  # kappa
    time: np.ndarray  # the part of kappa that belongs to the time kernel
    mean: np.ndarray  # mu: the constant and the weights of covariates, as far as they are inferred
    likelihood: np.ndarray  # alpha


class Model(eqx.Module):
    """A latent Gaussian process seen through a likelihood.

    Args:
        kernel: the covariance of the latent process.
        likelihood: the distribution of the data given the latent function, its mean included.
        mean: the mean of the latent function: a number, a prior, or a mean with covariates,
            ``seqgp.means.Linear``.
        jitter: what ``SequentialSampler`` and ``FullSampler`` add to the diagonal of covariance matrices, relative to
            ``scale²``. With several increasing values they try the next one if a matrix is not positive definite; with
            one they reject the proposal. The filters of ``OnlineSampler`` add none.
    """

    kernel: LatentKernel
    likelihood: Likelihood
    mean: float | Prior | Mean
    jitter: tuple[float, ...] = eqx.field(static=True)

    def __init__(
        self,
        kernel: LatentKernel,
        likelihood: Likelihood,
        mean: Parameter | Mean = 0.0,
        jitter: float | Sequence[float] = 1e-8,
    ):
        if not isinstance(kernel, LatentKernel):
            alone = "; at a single place, space=seqgp.kernels.Constant()" if isinstance(kernel, Kernel) else ""
            raise ModelError(
                "Model: kernel must be seqgp.Separable(time, space, scale) or a sum of them, got "
                f"{type(kernel).__name__}{alone}"
            )
        if not isinstance(likelihood, Likelihood):
            raise ModelError(
                f"Model: likelihood must be a seqgp.likelihoods.Likelihood, got {type(likelihood).__name__}"
            )
        self.kernel = kernel
        self.likelihood = likelihood
        self.mean = as_mean(mean)
        ladder = known_numbers(jitter, "Model: jitter")
        if min(ladder) <= 0 or list(ladder) != sorted(set(ladder)):
            raise ModelError(f"Model: jitter = {jitter} must be a positive number, or an increasing list of them")
        if max(ladder) > LARGEST_JITTER:
            raise ModelError(
                f"Model: jitter = {max(ladder):g} is relative to scale², and above {LARGEST_JITTER:g} it is noise, not "
                "rounding; take about 1e-8, and a noise in the likelihood"
            )
        self.jitter = ladder
        taken = set(kernel.slots()) | set(self.mean_function.slots())
        for name in likelihood.priors:
            if name in taken:
                raise ModelError(
                    f"Likelihood: a parameter of the model is called {name!r} already; choose another name"
                )

    def slots(self) -> dict[str, Kept]:
        """Every parameter by name, in the order of ``z``: kernel, mean, likelihood."""
        of_data = sorted(self.likelihood.priors.items())  # as JAX sorts a dictionary when it takes a model apart
        return self.kernel.slots() | self.mean_function.slots() | dict(of_data)

    @functools.cached_property
    def mean_function(self) -> Mean:
        """The mean as a function of inputs and covariates."""
        return self.mean if isinstance(self.mean, Mean) else ConstantMean(self.mean)

    def entries(self) -> list[tuple[str, Prior]]:
        """The inferred entries, one per element of ``z``, with their names (``space.lengthscale[0]``)."""
        return list(self._entries)

    @functools.cached_property  # asked for many times in each step, and taking a model apart is slow
    def _entries(self) -> list[tuple[str, Prior]]:
        found = []
        for name, slot in self.slots().items():
            if isinstance(slot, Prior):
                found.append((name, slot))
            elif isinstance(slot, tuple):
                found += [(f"{name}[{i}]", entry) for i, entry in enumerate(slot) if isinstance(entry, Prior)]
        return found

    @property
    def names(self) -> list[str]:
        """The names of the elements of ``z``."""
        return [name for name, _ in self.entries()]

    @property
    def inferred(self) -> list[str]:
        """The names of the parameters that are inferred, a vector-valued one once."""
        return list(dict.fromkeys(name.split("[")[0] for name in self.names))

    def layout(self) -> Layout:
        """The blocks of ``z``."""
        names = [name.split("[")[0] for name in self.names]
        kernel, time, mean = set(self.kernel.slots()), self.kernel.time_names(), set(self.mean_function.slots())

        def where(test) -> np.ndarray:
            return np.array([i for i, name in enumerate(names) if test(name)], dtype=int)

        return Layout(
            kernel=where(lambda name: name in kernel),
            time=where(lambda name: name in time),
            mean=where(lambda name: name in mean),
            likelihood=where(lambda name: name in self.likelihood.priors),
        )

    def prior_of_z(self) -> tuple[np.ndarray, np.ndarray]:
        """Mean and covariance of ``z`` before any data."""
        priors = [prior for _, prior in self.entries()]
        return np.array([p.loc for p in priors], dtype=float), np.diag(
            np.array([p.scale**2 for p in priors], dtype=float)
        )

    def parameters(self, z: Float[ArrayLike, " d"]) -> Parameters:
        """All parameters in natural units, the known ones included, at one ``z``."""
        position = 0
        values: Parameters = {}

        def take(entry):
            nonlocal position
            if not isinstance(entry, Prior):
                return jnp.asarray(entry)
            position += 1
            return entry.value(z[position - 1])

        for name, slot in self.slots().items():
            values[name] = jnp.stack([take(entry) for entry in slot]) if isinstance(slot, tuple) else take(slot)
        return values

    def natural(self, z: Float[ArrayLike, "draws d"]) -> dict[str, Array]:
        """The inferred parameters in natural units for many draws."""
        values = jax.vmap(self.parameters)(z)
        return {name: values[name] for name in self.inferred}

    def means(self, z: Float[ArrayLike, "draws d"]) -> Float[Array, " draws"]:
        """The constant part of the mean, known or inferred, in each of many draws; covariates add to it."""
        return jax.vmap(lambda one: self.parameters(one)["mean"])(z)

    def fingerprint(self) -> dict[str, str]:
        """What identifies the model, part by part: equal for equal models, also in another process or Python."""
        return dict(self._fingerprint)

    @functools.cached_property  # what an object in a likelihood counts or remembers while it is used is not the model
    def _fingerprint(self) -> dict[str, str]:
        return self.fingerprint_in_version(3)

    def fingerprint_in_version(self, version: int) -> dict[str, str]:
        """The fingerprint that a version of seqgp (0.2, 0.3) computes."""
        return {
            "kernel": describe(self.kernel, version),
            "mean": describe(self.mean, version),
            "likelihood": describe(self.likelihood, version),
            "jitter": repr(self.jitter),
        }
