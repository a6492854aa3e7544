"""What every sampler asks of its arguments before anything is compiled."""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from jaxtyping import PyTree

from seqgp.base.errors import DataError, ModelError, SamplerError, one_line
from seqgp.base.identity import without_code
from seqgp.base.snapshot import Context, Snapshot
from seqgp.base.validation import require_x64
from seqgp.kernels.spatial import check_globe
from seqgp.likelihoods.base import check_distribution
from seqgp.model import Model
from seqgp.runtime.engine import cached_by_shape
from seqgp.runtime.parallel import same_everywhere
from seqgp.samplers.base import State

NAMES = "names:"  # before a digest that knows functions by their names alone


def check_key(key: Any) -> None:
    """Raise unless it is one random key of JAX, of either kind."""
    dtype, shape = getattr(key, "dtype", None), np.shape(key) if hasattr(key, "shape") else None
    typed = dtype is not None and jnp.issubdtype(dtype, jax.dtypes.prng_key)
    if shape == () if typed else (dtype == np.uint32 and shape == (2,)):
        return
    got = f"{len(key)} of them" if typed else repr(key)[:40]
    raise SamplerError(f"key: expected one random key, jax.random.key(0) say, got {got}")


def check_together(key: Any, *trees: PyTree, particles: int = 0) -> None:
    """Raise unless all processes of ``jax.distributed``, where there are several, take the same step."""
    check_key(key)
    processes = jax.process_count()
    if particles % processes:
        raise SamplerError(
            f"particles = {particles} cannot be shared out evenly by {processes} processes of jax.distributed; "
            f"choose a multiple of {processes}"
        )
    if not same_everywhere(jax.random.key_data(key), *trees):
        raise SamplerError(
            f"the {processes} processes of jax.distributed are not at the same step of the same run; give all the same "
            "key, state and snapshot (of runs that were interrupted, one may have a step more: go on from the earlier)"
        )


def check_snapshot(model: Model, snapshot: Snapshot, design: bool = False) -> None:
    """Raise unless model and snapshot fit each other; nothing is compiled. Values of ``y`` of a design may be any."""
    require_x64()  # it may have been switched off since the sampler was made
    if not isinstance(snapshot, Snapshot):
        raise DataError(f"expected a seqgp.Snapshot(t, x, y), got {type(snapshot).__name__}")
    model.kernel.check_inputs(snapshot.x)
    check_globe(model.kernel, snapshot.x)
    if model.likelihood.pointwise and snapshot.y.shape != (len(snapshot.x),):
        raise DataError(
            f"Snapshot: y has shape {snapshot.y.shape}, expected ({len(snapshot.x)},), one value a row of x, "
            "NaN where it is missing"
        )
    model.mean_function.design(snapshot.t, snapshot.x, snapshot.context)
    if design:
        model.likelihood.check_context(~np.isnan(snapshot.y), snapshot.context)
    else:
        model.likelihood.check_data(snapshot.y, snapshot.context)
    context = model.likelihood.context_at(snapshot.t, snapshot.context)
    try:
        distribution = cached_by_shape(_distribution_without_values, model, snapshot.x, context)
    except Exception as error:  # whatever a function of the user's raises
        raise likelihood_error(model, snapshot.t, error) from error
    check_distribution(distribution, snapshot.y)


def likelihood_error(model: Model, t: float, error: Exception) -> ModelError:
    """What a user is told of an exception inside the likelihood, beside its own traceback."""
    return _failed(model, t, f"{type(error).__name__}: {one_line(error, 2000)}")


@contextlib.contextmanager
def naming_callbacks(model: Model, t: float) -> Iterator[None]:
    """Name the likelihood and the snapshot where a function of the user's raises that compiled code calls back."""
    try:
        yield
    except jax.errors.JaxRuntimeError as error:
        if "error calling callback" not in str(error):
            raise
        raise _failed(model, t, str(error).strip().splitlines()[-1]) from error  # the last line of its traceback


def _failed(model: Model, t: float, what: str) -> ModelError:
    function = getattr(model.likelihood.function, "func", model.likelihood.function)
    name = getattr(function, "__qualname__", type(function).__name__)
    kind = type(model.likelihood).__name__
    return ModelError(f"likelihood failed on the snapshot at t = {t}: {what} (in {kind}({name}))")


def _distribution_without_values(model: Model, x: np.ndarray, context: Context) -> Any:
    """What the likelihood returns for ``f`` at ``x``, of which shapes alone are asked."""
    found: list[Any] = []

    def probe(f):
        parameters = model.parameters(jnp.asarray(model.prior_of_z()[0]))
        found.append(model.likelihood.distribution(f, *model.likelihood.typical(len(x), context, parameters)))
        if isinstance(found[0], dist.Distribution):
            found[0].log_prob(jnp.ones(found[0].shape()))  # which a distribution of the user's may raise in as well
        return jnp.zeros(())

    jax.eval_shape(probe, jax.ShapeDtypeStruct((len(x),), float))
    return jax.tree.map(lambda _: None, found[0]) if isinstance(found[0], dist.Distribution) else found[0]


def model_digest(model: Model) -> str:
    """What tells one model from another, in a few letters."""
    return _letters(model.fingerprint())


def digest_of_names(parts: dict[str, str]) -> str:
    """The same of a fingerprint in which functions are known by their names alone: all that version 0.1 tells us."""
    return NAMES + _letters({name: without_code(text) for name, text in parts.items()})


def check_state(model: Model, state: State, where: str) -> None:
    """Raise unless a state is of this model."""
    entries, names = np.shape(state.z)[-1], model.names
    if entries == len(names) and _is_of(state.fingerprint, model):
        return
    how = "compare model.fingerprint()"
    if entries != len(names):
        how = f"it has {entries} parameters, and this one infers {len(names)}: {', '.join(names) or 'none'}"
    raise SamplerError(f"{where}: the state is of another model; use the model that it was sampled with ({how})")


def _is_of(fingerprint: str, model: Model) -> bool:
    if fingerprint.startswith(NAMES):
        return fingerprint == digest_of_names(model.fingerprint_in_version(2))
    # A state of version 0.2, which knew objects by the names of their classes, can be compared no better.
    return fingerprint in (model_digest(model), _letters(model.fingerprint_in_version(2)))


def _letters(parts: dict[str, str]) -> str:
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:16]
