"""Densities of one datum given the latent, from their formulas, in SciPy."""

from __future__ import annotations

import numpy as np
from scipy import special, stats

from .kernels import amplitude


def noise_of(likelihood, rows):
    """The sd of each Gaussian datum: with known errors, a trend, a season, or precision ratios of stations."""
    noise = float(likelihood["noise"]) * amplitude(likelihood.get("season"), rows["t"])
    if likelihood.get("ratios") is not None:
        noise = noise / np.sqrt(np.asarray(likelihood["ratios"], float))[np.asarray(rows["station"], int)]
    if likelihood.get("trend") is not None:
        noise = noise * np.exp(likelihood["trend"] * (np.asarray(rows["t"], float) - likelihood.get("since", 0.0)))
    if likelihood.get("errors") is None:
        return noise
    errors = np.asarray(rows[likelihood["errors"]], float)
    return noise * errors if likelihood.get("combine", "times") == "times" else np.sqrt(noise**2 + errors**2)


def amount(value, rows):
    """A number, or the entry of the context with that name."""
    return np.asarray(rows[value] if isinstance(value, str) else value, float)


def log_density(likelihood, f, y, rows):
    """``log p(y_i | f_i)`` elementwise; ``f`` may have leading axes, its last is that of the data."""
    family = likelihood["family"]
    if family == "Gaussian":
        return stats.norm.logpdf(y, f, noise_of(likelihood, rows))
    if family == "StudentT":
        return stats.t.logpdf(y, likelihood["df"], f, likelihood["noise"])
    if family == "LogNormal":
        return stats.norm.logpdf(np.log(y), f, likelihood["noise"]) - np.log(y)
    if family == "Censored":
        limit, noise = amount(likelihood["limit"], rows), likelihood["noise"]
        return np.where(y <= limit, special.log_ndtr((limit - f) / noise), stats.norm.logpdf(y, f, noise))
    if family == "Poisson":
        log_rate = f + np.log(amount(likelihood.get("exposure") or 1.0, rows))
        return y * log_rate - np.exp(log_rate) - special.gammaln(y + 1)
    if family == "NegativeBinomial":
        size, log_mean = likelihood["dispersion"], f + np.log(amount(likelihood.get("exposure") or 1.0, rows))
        choose = special.gammaln(y + size) - special.gammaln(size) - special.gammaln(y + 1)
        total = np.logaddexp(log_mean, np.log(size))
        return choose + y * (log_mean - total) + size * (np.log(size) - total)
    if family == "Bernoulli":
        sign = np.where(y == 1, 1.0, -1.0)
        return special.log_ndtr(sign * f) if likelihood.get("link") == "probit" else special.log_expit(sign * f)
    if family == "Binomial":
        trials = amount(likelihood["trials"], rows)
        choose = special.gammaln(trials + 1) - special.gammaln(y + 1) - special.gammaln(trials - y + 1)
        return choose + y * special.log_expit(f) + (trials - y) * special.log_expit(-f)
    if family in ("Gamma", "Exponential"):
        shape = likelihood.get("shape", 1.0)
        rate = np.log(shape) - f
        return shape * rate + (shape - 1) * np.log(y) - y * np.exp(rate) - special.gammaln(shape)
    if family == "Beta":
        a, b = likelihood["precision"] * special.expit(f), likelihood["precision"] * special.expit(-f)
        return (a - 1) * np.log(y) + (b - 1) * np.log1p(-y) - special.betaln(a, b)
    if family == "Ordinal":
        cuts = np.concatenate([[-np.inf], likelihood["cutpoints"], [np.inf]])
        index = np.asarray(y, int)
        return log_between(cuts[index] - f, cuts[index + 1] - f)
    raise ValueError(family)


def log_between(low, high):
    """``log(expit(high) − expit(low))``: the larger of the two arguments is mirrored below zero first."""
    mirrored = low > 0
    low, high = np.where(mirrored, -high, low), np.where(mirrored, -low, high)
    with np.errstate(divide="ignore", invalid="ignore"):
        small = np.where(np.isneginf(low), -np.inf, special.log_expit(low) - special.log_expit(high))
        return special.log_expit(high) + np.log(-np.expm1(np.minimum(small, -1e-300)))


def sample(likelihood, f, rows, rng):
    """A datum for each latent."""
    family = likelihood["family"]
    if family == "Gaussian":
        return rng.normal(f, noise_of(likelihood, rows))
    if family == "StudentT":
        return f + likelihood["noise"] * rng.standard_t(likelihood["df"], np.shape(f))
    if family == "LogNormal":
        return np.exp(rng.normal(f, likelihood["noise"]))
    if family == "Censored":
        return np.maximum(rng.normal(f, likelihood["noise"]), amount(likelihood["limit"], rows))
    if family in ("Poisson", "NegativeBinomial"):
        rate = amount(likelihood.get("exposure") or 1.0, rows) * np.exp(np.minimum(f, 30.0))
        if family == "NegativeBinomial":
            rate = rate * rng.gamma(likelihood["dispersion"], 1 / likelihood["dispersion"], np.shape(f))
        return rng.poisson(np.minimum(rate, 1e8)).astype(float)
    if family == "Bernoulli":
        share = special.ndtr(f) if likelihood.get("link") == "probit" else special.expit(f)
        return (rng.random(np.shape(f)) < share).astype(float)
    if family == "Binomial":
        return rng.binomial(amount(likelihood["trials"], rows).astype(int), special.expit(f)).astype(float)
    if family in ("Gamma", "Exponential"):
        return np.exp(f) * rng.standard_gamma(likelihood.get("shape", 1.0), np.shape(f)) / likelihood.get("shape", 1.0)
    if family == "Beta":
        return rng.beta(likelihood["precision"] * special.expit(f), likelihood["precision"] * special.expit(-f))
    if family == "Ordinal":
        return ((f + rng.logistic(size=np.shape(f)))[..., None] > likelihood["cutpoints"]).sum(-1).astype(float)
    raise ValueError(family)
