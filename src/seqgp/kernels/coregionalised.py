"""Several outputs at once: the intrinsic model of coregionalisation, a kernel over ``(output, x)``."""

from __future__ import annotations

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from jaxtyping import Array, Float

from seqgp.base.errors import DataError, ModelError
from seqgp.base.priors import FromDistribution, Parameter, Prior, Slot, as_slot, check_positive
from seqgp.base.validation import is_whole
from seqgp.kernels.base import Kernel, Parameters, within

__all__ = ["Coregionalised"]


class Coregionalised(Kernel):
    """``B[i, j] · kernel(x, x')`` between output ``i`` at ``x`` and output ``j`` at ``x'``: two pollutants, say.

    The first column of the inputs is the number of the output, ``0, 1, …``; the other columns are ``x``. With
    ``B = W W' + diag(own²)`` the outputs share ``rank`` processes with weights ``W``, and each has one of its own, all
    with the same kernel. Leave the scale of ``seqgp.Separable`` at 1: ``B`` has the variances.

    Args:
        outputs: the number of outputs, 2 or more; the first input is the number of the output.
        rank: the number of processes that the outputs share.
        kernel: the kernel of the other inputs; leave it out if there are none.
        weights: the entries of ``W``, row by row (those of output 0 first), or one for all; inferred by default,
            standard normal below the diagonal, half normal on it and zero above, so that no two ``W`` are the same
            model.
        own: the standard deviation of each output's own process, or one for all; inferred by default, half normal.

    Example:
        ``kernels.Coregionalised(outputs=2, rank=1, kernel=kernels.Matern32(prior))``
    """

    kernel: Kernel | None
    weights: tuple[float | Prior, ...]
    own: tuple[float | Prior, ...]
    outputs: int = eqx.field(static=True)
    rank: int = eqx.field(static=True)

    def __init__(
        self,
        outputs: int,
        rank: int = 1,
        kernel: Kernel | None = None,
        weights: Slot | None = None,
        own: Slot | None = None,
    ):
        if not is_whole(outputs, least=2):
            raise ModelError(f"Coregionalised: outputs = {outputs!r}: expected a whole number, 2 or more")
        if not is_whole(rank) or rank > outputs:
            raise ModelError(f"Coregionalised: rank = {rank!r}: expected a whole number from 1 to outputs = {outputs}")
        if kernel is not None and not isinstance(kernel, Kernel):
            raise ModelError(f"Coregionalised: expected a kernel of x such as Matern32, got {type(kernel).__name__}")
        self.outputs, self.rank, self.kernel = int(outputs), int(rank), kernel
        given = _default_weights(self.outputs, self.rank) if weights is None else weights
        self.weights = _entries(given, outputs * rank, "weights", "outputs · rank")
        self.own = _entries(dist.HalfNormal(1.0) if own is None else own, outputs, "own", "outputs")
        check_positive(self.own, "Coregionalised: own")

    def slots(self):
        """The parameters by name, each a number or a prior."""
        inner = {} if self.kernel is None else {f"x.{name}": slot for name, slot in self.kernel.slots().items()}
        return inner | {"weights": self.weights, "own": self.own}

    def between_outputs(self, parameters: Parameters) -> Float[Array, "outputs outputs"]:
        """``B``: the covariance of the outputs at one point of a kernel of unit variance."""
        weights = jnp.reshape(parameters["weights"], (self.outputs, self.rank))
        return weights @ weights.T + jnp.diag(jnp.square(parameters["own"]))

    def prepare(self, x, other):
        """What the covariance needs of the inputs, whatever the parameters."""
        rows, columns = (jnp.asarray(points)[:, 0].astype(int) for points in (x, other))
        inner = None if self.kernel is None else self.kernel.prepare(x[:, 1:], other[:, 1:])
        return rows, columns, inner

    def covariance(self, prepared, parameters):
        """The covariance matrix, from what ``prepare`` gave and the parameters."""
        rows, columns, inner = prepared
        between = self.between_outputs(parameters)[rows[:, None], columns[None, :]]
        return between if self.kernel is None else between * self.kernel.covariance(inner, within(parameters, "x"))

    def check_inputs(self, x):
        """Raise unless the first column has numbers of outputs."""
        super().check_inputs(x)
        bad = ~np.isin(x[:, 0], np.arange(self.outputs))
        if bad.any():
            raise DataError(
                f"Coregionalised: the first column of x is the number of an output, 0 to {self.outputs - 1}, and "
                f"{bad.sum()} of {len(x)} rows have another (row {int(np.argmax(bad))}: {x[np.argmax(bad), 0]:g})"
            )

    def check_dimension(self, dimension):
        """Raise unless inputs of this dimension fit."""
        if self.kernel is None and dimension != 1:
            raise ModelError(
                f"Coregionalised has no kernel of x, but x has {dimension} columns, the output's number and "
                f"{dimension - 1} more: give one, kernel=seqgp.kernels.Matern32(…)"
            )
        if self.kernel is not None and dimension < 2:
            raise ModelError(
                "Coregionalised: x has one column; expected the output's number, then the columns that its kernel takes"
            )
        if self.kernel is not None:
            self.kernel.check_dimension(dimension - 1)

    def along(self, axis, dimension):
        """The factor along one axis: the outputs along the first, those of the kernel of ``x`` along the others."""
        if axis == 0:
            return Coregionalised(self.outputs, self.rank, None, 1.0, 1.0), lambda parameters: {
                name: parameters[name] for name in ("weights", "own")
            }
        found = None if self.kernel is None else self.kernel.along(axis - 1, dimension - 1)
        if found is None:
            return None
        factor, choose = found
        return factor, lambda parameters: choose(within(parameters, "x"))


def _entries(slot: Slot, count: int, name: str, what: str) -> tuple[float | Prior, ...]:
    given = as_slot(slot, f"Coregionalised: {name}")
    if not isinstance(given, tuple):
        return (given,) * count
    if len(given) != count:
        raise ModelError(f"Coregionalised: {name} has {len(given)} entries, expected one, or {what} = {count}")
    return given


def _default_weights(outputs: int, rank: int) -> list[Parameter]:
    """Lower triangular with a positive diagonal: any other ``W`` with the same ``W W'`` is ``W`` turned."""
    on, below = FromDistribution(dist.HalfNormal(1.0)), FromDistribution(dist.Normal(0.0, 1.0))
    return [0.0 if j > i else on if j == i else below for i in range(outputs) for j in range(rank)]
