"""What every sampler asks of its arguments before anything is compiled."""

from __future__ import annotations

import hashlib
import json
import numbers
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist

from seqgp.models.errors import DataError, ModelError, SamplerError
from seqgp.models.identity import without_code
from seqgp.models.likelihoods import check_distribution
from seqgp.models.model import Model
from seqgp.models.snapshot import Snapshot
from seqgp.runtime.engine import cached_by_shape
from seqgp.runtime.processes import same_everywhere
from seqgp.samplers.protocol import State

NAMES = "names:"  # before a digest that knows functions by their names alone


def require_x64() -> None:
    """Raise unless JAX computes in double precision."""
    if not jax.config.read("jax_enable_x64"):
        raise SamplerError(
            "seqgp needs double precision (the Cholesky factor of a smooth kernel fails in single): call "
            "seqgp.enable_x64() before anything else"
        )


MOST = 10_000_000  # draws, sweeps, chains: more is a slip of the pen, and would be found out after hours


def positive(name: str, value: Any, least: int = 1) -> int:
    """A whole number that is large enough, and not absurdly large."""
    if isinstance(value, bool) or not isinstance(value, numbers.Integral) or value < least:
        raise SamplerError(f"{name} = {value!r} is not a whole number >= {least}")
    if int(value) > MOST:
        raise SamplerError(f"{name} = {value!r} is above {MOST}")
    return int(value)


def check_key(key: Any) -> None:
    """Raise unless it is one random key of JAX, of either kind."""
    dtype, shape = getattr(key, "dtype", None), np.shape(key) if hasattr(key, "shape") else None
    typed = dtype is not None and jnp.issubdtype(dtype, jax.dtypes.prng_key)
    if shape == () if typed else (dtype == np.uint32 and shape == (2,)):
        return
    got = f"{len(key)} of them" if typed else repr(key)[:40]
    raise SamplerError(f"key: expected one random key, jax.random.key(0) say, got {got}")


def check_together(key: Any, *trees: Any, particles: int = 0) -> None:
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
    except (TypeError, KeyError, IndexError, ValueError, AttributeError, NameError) as error:
        raise ModelError(
            f"likelihood failed on the snapshot at t = {snapshot.t}: {type(error).__name__}: {error}"
        ) from error
    check_distribution(distribution, snapshot.y)


def _distribution_without_values(model: Model, x: np.ndarray, context: Any) -> Any:
    """What the likelihood returns for a level at ``x``, of which shapes alone are asked."""
    found: list[Any] = []

    def probe(level):
        parameters = model.parameters(jnp.asarray(model.prior_of_z()[0]))
        found.append(model.likelihood.distribution(level, context, parameters))
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
        return fingerprint == digest_of_names(model.fingerprint())
    return fingerprint == model_digest(model)


def _letters(parts: dict[str, str]) -> str:
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:16]


def lacking(protocol: type, value: Any) -> str:
    """The end of an error about an object of a user's own: which members of the protocol it does not have."""
    if isinstance(value, (str, type)):
        return ""
    wanted = {
        name: None
        for base in reversed(protocol.__mro__)
        if getattr(base, "_is_protocol", False)
        for name in (*vars(base), *base.__annotations__)
        if not name.startswith("_")
    }
    missing = [name for name in wanted if not hasattr(value, name)]
    return f"; as an object of your own it lacks {', '.join(missing)}" if missing else ""
