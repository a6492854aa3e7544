"""One datum of every likelihood against quadrature: ``python -m experiments.one_datum`` writes the page.

The latent has the prior ``N(0, sd²)`` with ``sd`` from 0.1 to 30, and the datum is the typical one of a latent that is
0 to 8 prior standard deviations away. The posterior mean and sd and the log evidence of the filter's update are
compared with composite Gauss-Legendre quadrature of densities written with SciPy alone.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from scipy import optimize, stats
from scipy.special import betaln, expit, gammaln, log_expit, log_ndtr, roots_legendre

import seqgp
from seqgp import likelihoods
from seqgp.statespace.observation import Observation, SiteOperator
from seqgp.statespace.snapshot_ep import FAULTS
from seqgp.statespace.update import Update, approximate_update, gaussian_update

PAGE = Path(__file__).parents[1] / "docs" / "validation_one_datum.md"
PRIOR_SDS = (0.1, 0.3, 1.0, 3.0, 10.0, 30.0)
AWAY = (-8.0, -4.0, -2.0, -1.0, 0.0, 1.0, 2.0, 4.0, 8.0)
WITHIN = {"mean": 0.1, "sd": 0.1, "log evidence": 0.05}
HIGHEST = 16.0  # log of the largest rate: counts to 10⁷
POINTS, WEIGHTS = roots_legendre(12)


class Case(NamedTuple):
    """A likelihood, its density by SciPy as a function of ``y`` and ``f``, and the typical datum of a latent."""

    likelihood: likelihoods.Likelihood
    log_density: Callable[[float, np.ndarray], np.ndarray]
    datum: Callable[[float], float]
    context: dict[str, np.ndarray] | None = None


class Answer(NamedTuple):
    """Of one datum; NaN where it is refused."""

    mean: Any
    sd: Any
    log_evidence: Any


def poisson(exposure: float):
    return lambda y, f: y * (f + np.log(exposure)) - exposure * np.exp(np.minimum(f, 700.0)) - gammaln(y + 1)


def binomial(trials: float):
    choose = lambda y: gammaln(trials + 1) - gammaln(y + 1) - gammaln(trials - y + 1)  # noqa: E731
    return lambda y, f: choose(y) + y * log_expit(f) + (trials - y) * log_expit(-f)


def _negative_binomial(y, f, r=3.0):
    total = np.logaddexp(np.log(r), f)
    return gammaln(y + r) - gammaln(r) - gammaln(y + 1) + y * (f - total) + r * (np.log(r) - total)


def _gamma(shape: float):
    constant = shape * np.log(shape) - gammaln(shape)
    return lambda y, f: constant - shape * f + (shape - 1) * np.log(y) - shape * y * np.exp(np.minimum(-f, 700.0))


def _beta(y, f, precision=20.0):
    a, b = np.maximum(precision * expit(f), 1e-300), np.maximum(precision * expit(-f), 1e-300)
    return (a - 1) * np.log(y) + (b - 1) * np.log1p(-y) - betaln(a, b)


CUTS = (-1.0, 0.0, 1.5)


def _ordinal(y, f):
    cuts, k = (-np.inf, *CUTS, np.inf), int(y)
    gap = 0.0 if k in (0, len(CUTS)) else np.log(-np.expm1(cuts[k] - cuts[k + 1]))
    return gap + log_expit(cuts[k + 1] - f) + log_expit(f - cuts[k])


def _censored(y, f, noise=0.1, limit=-0.5):
    return log_ndtr((limit - f) / noise) if y <= limit else stats.norm.logpdf(y, f, noise)


def _count(exposure: float = 1.0):
    return lambda f: float(np.floor(exposure * np.exp(min(f, HIGHEST))))


def _share(f):
    return float(expit(np.clip(f, -12, 12)))


def _cauchy(f, context):
    return dist.Cauchy(f, 0.3)


CASES = {
    "Gaussian(0.1)": Case(likelihoods.Gaussian(0.1), lambda y, f: stats.norm.logpdf(y, f, 0.1), float),
    "StudentT(0.1, df=4)": Case(likelihoods.StudentT(0.1, 4.0), lambda y, f: stats.t.logpdf(y, 4, f, 0.1), float),
    "StudentT(1, df=1)": Case(likelihoods.StudentT(1.0, 1.0), lambda y, f: stats.t.logpdf(y, 1, f, 1.0), float),
    "Censored(0.1, limit=-0.5)": Case(likelihoods.Censored(0.1, limit=-0.5), _censored, lambda f: float(max(f, -0.5))),
    "Poisson()": Case(likelihoods.Poisson(), poisson(1.0), _count()),
    "Poisson(exposure=50)": Case(likelihoods.Poisson(50.0), poisson(50.0), _count(50.0)),
    "LogGaussianCox()": Case(likelihoods.LogGaussianCox(), poisson(0.2), _count(0.2), {"exposure": np.full(1, 0.2)}),
    "NegativeBinomial(3)": Case(likelihoods.NegativeBinomial(3.0), _negative_binomial, _count()),
    "Bernoulli()": Case(likelihoods.Bernoulli(), lambda y, f: log_expit(f if y else -f), lambda f: float(f > 0)),
    "Bernoulli(probit)": Case(
        likelihoods.Bernoulli("probit"), lambda y, f: log_ndtr(f if y else -f), lambda f: float(f > 0)
    ),
    "Binomial(20)": Case(likelihoods.Binomial(20), binomial(20), lambda f: float(np.round(20 * expit(f)))),
    "Binomial(100000)": Case(
        likelihoods.Binomial(100_000), binomial(100_000), lambda f: float(np.round(1e5 * expit(f)))
    ),
    "LogNormal(0.2)": Case(
        likelihoods.LogNormal(0.2),
        lambda y, f: stats.norm.logpdf(np.log(y), f, 0.2) - np.log(y),
        lambda f: float(np.exp(f)),
    ),
    "Exponential()": Case(likelihoods.Exponential(), _gamma(1.0), lambda f: float(np.exp(f))),
    "Gamma(2)": Case(likelihoods.Gamma(2.0), _gamma(2.0), lambda f: float(np.exp(f))),
    "Gamma(1000)": Case(likelihoods.Gamma(1000.0), _gamma(1000.0), lambda f: float(np.exp(f))),
    "Beta(20)": Case(likelihoods.Beta(20.0), _beta, _share),
    "Ordinal([-1, 0, 1.5])": Case(likelihoods.Ordinal(CUTS), _ordinal, lambda f: float(np.searchsorted(CUTS, f))),
    "Likelihood(Cauchy)": Case(
        likelihoods.Likelihood(_cauchy, pointwise=True), lambda y, f: stats.cauchy.logpdf(y, f, 0.3), float
    ),
}


def by_quadrature(log_density: Callable[[np.ndarray], np.ndarray], mean: float, sd: float) -> tuple[float, ...]:
    """Mean, sd and log evidence: panels that get narrower towards the prior, the likelihood's peak and the mode."""
    log_tilted = lambda f: log_density(f) + stats.norm.logpdf(f, mean, sd)  # noqa: E731
    low, high = mean - 40 * sd - 40, mean + 40 * sd + 40
    scan = np.linspace(low, high, 20_001)
    step, centres = scan[1] - scan[0], [mean]
    for density in (log_density, log_tilted):
        with np.errstate(all="ignore"):
            best = scan[np.nanargmax(density(scan))]
            negative = lambda f: -np.nan_to_num(density(np.array([f]))[0], nan=-1e300, neginf=-1e300)  # noqa: B023, E731
            found: Any = optimize.minimize_scalar(negative, bounds=(best - step, best + step), method="bounded")
        centres += [best, float(found.x)]
    distances = np.concatenate([[0.0], np.geomspace(1e-7, high - low, 300)])
    ends = np.concatenate([centre + sign * distances for centre in centres for sign in (-1, 1)])
    ends = np.unique(np.concatenate([np.linspace(mean - 12 * sd, mean + 12 * sd, 400), ends]))
    ends = ends[(ends >= low) & (ends <= high)]
    middle, half = 0.5 * (ends[1:] + ends[:-1]), 0.5 * np.diff(ends)
    f = (middle[:, None] + half[:, None] * POINTS).ravel()
    with np.errstate(all="ignore"):
        logs = np.nan_to_num(log_tilted(f), nan=-np.inf, neginf=-np.inf) + np.log((half[:, None] * WEIGHTS).ravel())
    most = logs.max()
    mass = np.exp(logs - most)
    centre = mass @ f / mass.sum()
    return centre, np.sqrt(mass @ (f - centre) ** 2 / mass.sum()), most + np.log(mass.sum())


def updates(case: Case, mean: np.ndarray, sd: np.ndarray, y: np.ndarray) -> tuple[Answer, np.ndarray]:
    """The filter's update by each datum alone, and what is wrong with it, as an index of ``FAULTS``."""
    likelihood = case.likelihood
    parameters = {name: jnp.asarray(slot) for name, slot in likelihood.priors.items()}

    def one(mean, sd, y):
        none, spread = jnp.zeros(()), sd[None, None] ** 2
        data = Observation(none, SiteOperator(index=jnp.arange(1)), y[None], jnp.ones(1, bool), jnp.zeros((1, 0)),
                           jnp.ones((1, 1)), none, none, case.context)  # fmt: skip
        if likelihood.conjugate:
            update = gaussian_update(likelihood.noise(case.context, parameters) ** 2, data, mean[None], spread)
        else:
            update = approximate_update(likelihood, parameters, data, mean[None], spread)
        fault = jnp.zeros(1, int) if update.fault is None else update.fault
        return _answer(update, mean, spread), fault[0]

    answer, fault = jax.jit(jax.vmap(one))(*(jnp.asarray(part, float) for part in (mean, sd, y)))
    return Answer(*(np.where(fault > 0, np.nan, part) for part in answer)), np.asarray(fault)


def _answer(update: Update, mean, spread) -> Answer:
    kept = update.scale[0] / update.root[0, 0]
    growth = 0.0 if update.growth is None else update.growth[0, 0] ** 2
    variance = spread[0, 0] * (1 - kept**2 * spread[0, 0] + growth * spread[0, 0])
    return Answer(mean + spread[0, 0] * update.slope[0], jnp.sqrt(variance), update.log_evidence)


class Row(NamedTuple):
    """The largest errors of one likelihood."""

    name: str
    cells: int
    refused: int
    errors: dict[str, float]
    worst: str


def errors_of(case: Case, mean, sd, y) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Of the mean in posterior sds, of the sd relative to it, and of the log evidence; and the faults."""
    answer, fault = updates(case, mean, sd, y)
    truth = Answer(*np.array([by_quadrature(lambda f, y=y: case.log_density(y, f), m, s)
                              for m, s, y in zip(mean, sd, y)]).T)  # fmt: skip
    return {
        "mean": np.abs(answer.mean - truth.mean) / truth.sd,
        "sd": np.abs(answer.sd / truth.sd - 1),
        "log evidence": np.abs(answer.log_evidence - truth.log_evidence),
    }, fault


def grid(case: Case, prior_sds=PRIOR_SDS, away=AWAY) -> tuple[np.ndarray, ...]:
    """Prior means (zero), prior sds and data."""
    sd, far = (part.ravel() for part in np.meshgrid(prior_sds, away, indexing="ij"))
    return np.zeros_like(sd), sd, np.array([case.datum(one) for one in sd * far])


def row_of(name: str, case: Case) -> Row:
    """One likelihood over the grid."""
    mean, sd, y = grid(case)
    errors, fault = errors_of(case, mean, sd, y)
    size = np.max([np.where(fault > 0, 0.0, errors[what] / WITHIN[what]) for what in WITHIN], axis=0)
    at = int(np.argmax(np.where(np.isnan(size), np.inf, size)))
    for i in np.flatnonzero((size > 1) | np.isnan(size) | (fault > 0)):
        print(f"{name}: sd {sd[i]:g}, y {y[i]:g}: {[float(e[i]) for e in errors.values()]} {FAULTS[fault[i]]}")
    print(f"{name}: {len(sd)} data, {(fault > 0).sum()} refused")
    largest = {what: float(np.nanmax(np.where(fault > 0, 0.0, part))) for what, part in errors.items()}
    return Row(name, len(sd), int((fault > 0).sum()), largest, f"sd {sd[at]:g}, y = {y[at]:.3g}")


def page(rows: list[Row]) -> str:
    """The table, in Markdown."""
    lines = [
        "# One datum of every likelihood",
        "",
        "`python -m experiments.one_datum` writes this page. The latent has the prior N(0, sd²), with sd "
        f"{', '.join(f'{sd:g}' for sd in PRIOR_SDS)}; the datum is the typical one of a latent that is 0, 1, 2, 4 or 8",
        "prior sds above or below zero (counts up to 10⁷). The table compares the filter's update with quadrature: the",
        "largest error of the posterior mean in posterior sds, of the posterior sd relative to it, and of the log",
        f"evidence. They should be below {WITHIN['mean']}, {WITHIN['sd']:.0%} and {WITHIN['log evidence']}.",
        "",
        "| likelihood | data | refused | mean | sd | log evidence | worst at prior |",
        "|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        mean, sd, evidence = (row.errors[what] for what in WITHIN)
        lines.append(
            f"| `{row.name}` | {row.cells} | {row.refused} | {mean:.1g} | {sd:.1%} | {evidence:.1g} | {row.worst} |"
        )
    left = [f"`{name}`" for name in CASES if name not in {row.name for row in rows}]
    lines += ["", f"Not run: {', '.join(left)}."] if left else []
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    seqgp.enable_x64()
    rows: list[Row] = []
    for name, case in CASES.items():
        rows.append(row_of(name, case))
        PAGE.write_text(page(rows))
