"""Every name of seqgp that the fuzzer uses: models as text, which is evaluated, and printed in a finding.

A slot of a model is a number (known), ``("narrow", v)`` for a prior so narrow that the oracle takes it for a number, or
a prior of :mod:`tests.oracles.importance`. The parameters of priors are arrays, so that models of one shape share what
is compiled.
"""

from __future__ import annotations

import contextlib
import io
import json
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist

import seqgp

NOW = {"LinearKernel": "DotProduct", "Product": "PerColumn"}  # kernels of the oracle by their names in seqgp
KERNELS, LIKELIHOODS, MEANS = "seqgp.kernels", "seqgp.likelihoods", "seqgp.means"  # where the parts of models live
WIDTH = 1e-12  # of a narrow prior, relative
INTERVAL = 1e-9  # the same for an interval, whose ends must differ by many digits


def absolute(a, b, width):
    """A kernel of one's own: ``exp(−Σ |a_d − b_d| / width)``."""
    return jnp.exp(-jnp.sum(jnp.abs(a - b)) / width)


def first_column(t, x):
    """A feature of one's own."""
    return x[:, 0]


NAMESPACE = {
    "seqgp": seqgp, "np": np, "jnp": jnp, "dist": dist, "absolute": absolute, "first_column": first_column,
}  # fmt: skip
HEADER = """import jax, jax.numpy as jnp, numpy as np, numpyro.distributions as dist, seqgp
seqgp.enable_x64()
nan = np.nan
def absolute(a, b, width): return jnp.exp(-jnp.sum(jnp.abs(a - b)) / width)
def first_column(t, x): return x[:, 0]
"""


def slot(value: Any, bounded: bool = False) -> str:
    """A number or a prior as text; narrow ones on an interval where they must be bounded."""
    if isinstance(value, (list, np.ndarray)):
        return "[" + ", ".join(slot(one, bounded) for one in value) + "]"
    if not isinstance(value, tuple):
        return repr(float(value))
    name, *given = value
    a = [f"np.array({float(one)!r})" for one in given]
    if name == "narrow":
        if given[0] > 0 and not bounded:
            return f"dist.LogNormal(np.array({float(np.log(given[0]))!r}), np.array({WIDTH!r}))"
        width = INTERVAL * max(abs(given[0]), 1e-3)
        return f"dist.Uniform(np.array({given[0] - width!r}), np.array({given[0] + width!r}))"
    if name == "sigmoid":
        return f"seqgp.ScaledSigmoid({', '.join(repr(float(one)) for one in given)})"
    names = {
        "lognormal": "LogNormal", "normal": "Normal", "uniform": "Uniform", "gamma": "Gamma", "halfnormal": "HalfNormal"
    }  # fmt: skip
    return f"dist.{names[name]}({', '.join(a)})"


def kernel(one: dict) -> str:
    """A kernel of time or space as text."""
    kind = one["kind"]
    if kind in ("Sum", "Times"):
        return "(" + (" + " if kind == "Sum" else " * ").join(kernel(part) for part in one["parts"]) + ")"
    if kind == "Product":
        return f"{KERNELS}.{NOW[kind]}([{', '.join(kernel(part) for part in one['parts'])}])"
    if kind == "Absolute":
        return f"{KERNELS}.Covariance(absolute, width={slot(one['width'])})"
    if kind in ("Rotated", "GreatCircle"):
        more = f"angle={slot(one['angle'])}" if kind == "Rotated" else f"radius={one['radius']!r}"
        return f"{KERNELS}.{kind}({kernel(one['kernel'])}, {more})"
    if kind == "Coregionalised":
        inner = "None" if one["kernel"] is None else kernel(one["kernel"])
        given = f"weights={slot(one['weights'])}, own={slot(one['own'])}"
        return f"{KERNELS}.Coregionalised({one['outputs']}, {one['rank']}, {inner}, {given})"
    given = ", ".join(f"{name}={slot(value)}" for name, value in one.items() if name != "kind")
    return f"{KERNELS}.{NOW.get(kind, kind)}({given})"


def mean(one: dict) -> str:
    """A mean as text."""
    if not one["features"]:
        return slot(one["intercept"])
    features = []
    for feature in one["features"]:
        if feature.get("period") is not None:
            features.append(f"{MEANS}.harmonics({feature['period']!r}, {feature['order']}, {feature['name']!r})")
        elif feature.get("column") is not None:
            features.append("first_column")
        else:
            features.append(repr(feature["name"]))
    weights = ", ".join(slot(feature["weight"]) for feature in one["features"])
    return f"{MEANS}.Linear([{', '.join(features)}], [{weights}], intercept={slot(one['intercept'])})"


def modulated(value: Any, season: dict | None) -> str:
    """A standard deviation, with a season where there is one, as text."""
    if season is None:
        return slot(value)
    by, weights = f"{MEANS}.harmonics({season['period']!r})", slot(season["weights"])
    return f"{MEANS}.Modulated({slot(value)}, {by}, weights={weights})"


def likelihood(one: dict) -> str:
    """A likelihood as text."""
    given, one = [], dict(one)
    season = one.pop("season", None)
    for name, value in one.items():
        if name in ("family", "ratios") or value is None:
            continue
        if name == "noise" and season is not None:
            given.append(f"noise={modulated(value, season)}")
            continue
        given.append(f"{name}={value!r}" if isinstance(value, str) else f"{name}={slot(value)}")
    return f"{LIKELIHOODS}.{one['family']}({', '.join(given)})"


def model_text(model: dict) -> str:
    """A model as text."""
    scales = [modulated(term["scale"], term.get("season")) for term in model["terms"]]
    terms = [
        f"seqgp.Separable({kernel(term['time'])}, {kernel(term['space'])}, {scale})"
        for term, scale in zip(model["terms"], scales)
    ]
    more = "" if "jitter" not in model else f", jitter={model['jitter']!r}"
    whole = " + ".join(terms)
    if "slowness" in model:
        whole = f"seqgp.Delayed({whole}, {slot(model['slowness'], bounded=True)})"
    return f"seqgp.Model({whole}, {likelihood(model['likelihood'])}, mean={mean(model['mean'])}{more})"


def build(model: dict) -> Any:
    """The model."""
    return eval(model_text(model), NAMESPACE)


def sampler_text(settings: dict) -> str:
    """An online sampler as text."""
    given = [f"{name}={value}" for name, value in settings.items() if value is not None]
    return f"seqgp.OnlineSampler({', '.join(['model', *given])})"


def sampler(model: Any, settings: dict) -> Any:
    """An online sampler."""
    return eval(sampler_text(settings), {**NAMESPACE, "model": model})


def snapshot(one: tuple) -> Any:
    """From ``(t, x, y, context)``."""
    return seqgp.Snapshot(*one)


def snapshots_text(many: list[tuple]) -> str:
    """Snapshots as text."""
    lines = []
    for t, x, y, context in many:
        more = ""
        if context:
            more = ", {" + ", ".join(f"{name!r}: {_array(values)}" for name, values in context.items()) + "}"
        lines.append(f"    seqgp.Snapshot({float(t)!r}, {_array(x)}, {_array(y)}{more}),")
    return "snapshots = [\n" + "\n".join(lines) + "\n]"


def _array(values: Any) -> str:
    return f"np.array({json.dumps(np.asarray(values, float).tolist()).replace('NaN', 'nan')})"


def run(sampler: Any, snapshots: list[tuple], key: int = 0, **more: Any) -> Any:
    """``seqgp.run`` without forecasts, unless they are asked for."""
    return seqgp.run(
        sampler, [snapshot(one) for one in snapshots], key=jax.random.key(key), **{"forecast": False, **more}
    )


def predict(model: Any, state: Any, asked: Any, key: int = 1) -> Any:
    """``seqgp.predict`` for a question with ``x``, ``t``, ``context`` and ``joint``."""
    more = {} if asked.joint else {"joint": False}
    return seqgp.predict(jax.random.key(key), model, state, asked.x, t=asked.t, context=asked.context or None, **more)


def smooth(sampler: Any, state: Any, times: list[float], draws: int, key: int = 2, **more: Any) -> Any:
    """``seqgp.smooth``."""
    return seqgp.smooth(jax.random.key(key), sampler, state, times, draws=draws, **more)


def revise(sampler: Any, state: Any, snapshots: list[tuple], key: int = 3) -> Any:
    """``OnlineSampler.revise``."""
    return sampler.revise(jax.random.key(key), state, [snapshot(one) for one in snapshots])


def refresh(sampler: Any, state: Any, key: int = 4) -> Any:
    """``OnlineSampler.refresh``."""
    return sampler.refresh(jax.random.key(key), state)


def sample_all(model: Any, snapshots: list[tuple], draws: int, key: int = 5) -> Any:
    """``FullSampler``: all times at once."""
    return seqgp.FullSampler(model, draws=draws).sample(jax.random.key(key), [snapshot(one) for one in snapshots])


def stored(path: Any) -> Any:
    """``seqgp.Store``."""
    return seqgp.Store(path)


def compare(runs: dict) -> Any:
    """``seqgp.compare``."""
    return seqgp.compare(runs)


def effective(info: Any) -> float:
    """The effective number of particles."""
    return float(info.ess)


def command(*arguments: Any) -> tuple[int, str]:
    """A command of the command line, in this process: its exit code and what it said."""
    from seqgp.cli import main

    out, err, code = io.StringIO(), io.StringIO(), 0
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            main([str(one) for one in arguments])
        except SystemExit as ended:
            code = int(ended.code or 0)
    return code, out.getvalue() + err.getvalue()


def read_snapshots(path: Any, inputs: list[str], covariates: list[str]) -> list[Any]:
    """The snapshots of a table with columns ``t``, inputs, ``y`` and covariates."""
    from seqgp.io.tables import Columns, snapshots_from

    return snapshots_from(path, Columns("t", inputs, "y", covariates={name: name for name in covariates}))


class CommandError(Exception):
    """A command that ended with an error: what it said."""


Refused = (seqgp.SeqgpError, CommandError)
