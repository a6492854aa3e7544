"""Gaussian data: evidence and posterior at any points and times, by conditioning one joint normal distribution."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .kernels import latent_covariance
from .likelihoods import noise_of

WIDE = np.longdouble  # 80 bits where the machine has them: covariances of nearly equal points keep their digits


class Rows(NamedTuple):
    """Points in time and space, a row each: data, or where the latent is wanted (then ``y`` says nothing)."""

    t: np.ndarray  # (n,)
    x: np.ndarray  # (n, D)
    y: np.ndarray  # (n,), NaN where missing
    context: dict[str, np.ndarray]  # each (n,)

    @classmethod
    def of(cls, snapshots):
        """All rows of several snapshots, each ``(t, x, y, context)``."""
        t = np.concatenate([np.full(len(x), float(t)) for t, x, _, _ in snapshots])
        names = snapshots[0][3] or {}
        context = {
            name: np.concatenate([np.broadcast_to(c[name], (len(x),)) for _, x, _, c in snapshots]) for name in names
        }
        return cls(t, np.concatenate([s[1] for s in snapshots]), np.concatenate([s[2] for s in snapshots]), context)

    def kept(self, which):
        """Some of the rows."""
        parts = {name: values[which] for name, values in self.context.items()}
        return Rows(self.t[which], self.x[which], self.y[which], parts)

    def observed(self):
        """The rows with data."""
        return self.kept(~np.isnan(self.y))

    @property
    def named(self):
        """The context, with the time."""
        return {**self.context, "t": self.t}


class Posterior(NamedTuple):
    """Mean and covariance of the latent ``f`` (its mean included) at the rows asked for, and the log evidence."""

    mean: np.ndarray
    covariance: np.ndarray
    log_evidence: float


def cholesky(matrix):
    """The lower factor, column by column, in the precision of the matrix."""
    factor = np.zeros_like(matrix)
    for j in range(len(matrix)):
        column = matrix[j:, j] - factor[j:, :j] @ factor[j, :j]
        if not column[0] > 0:
            raise np.linalg.LinAlgError(f"pivot {j} is {column[0]}")
        factor[j:, j] = column / np.sqrt(column[0])
    return factor


def solve_lower(factor, right):
    """``factor⁻¹ right``, row by row."""
    found = np.zeros_like(right)
    for i in range(len(factor)):
        found[i] = (right[i] - factor[i, :i] @ found[:i]) / factor[i, i]
    return found


def design(mean, rows):
    """The columns of the mean: ones, then the features (names of the context, or functions of ``(t, x)``)."""
    columns = [np.ones(len(rows.t))]
    for feature in mean["features"]:
        if feature.get("period") is not None:
            for k in range(1, feature["order"] + 1):
                angle = 2 * np.pi * k * rows.t / feature["period"]
                columns += [np.cos(angle), np.sin(angle)]
        elif feature.get("column") is not None:
            columns.append(rows.x[:, feature["column"]])
        else:
            columns.append(rows.context[feature["name"]])
    return np.stack(columns, 1)


def coefficients(mean):
    """The prior means and standard deviations of the coefficients, one for each column of the design."""
    found = [mean["intercept"]]
    for feature in mean["features"]:
        width = 2 * feature["order"] if feature.get("period") is not None else 1
        found += [feature["weight"]] * width
    pairs = [(one[1], one[2]) if isinstance(one, tuple) else (one, 0.0) for one in found]
    return tuple(np.array(part, float) for part in zip(*pairs))


def prior(model, rows, dtype=WIDE):
    """Mean and covariance of ``f`` at rows, coefficients of the mean with a normal prior integrated out."""
    columns, (middle, sd) = design(model["mean"], rows).astype(dtype), coefficients(model["mean"])
    x = rows.x.astype(dtype)
    at = rows.t.astype(dtype) - x @ np.asarray(model.get("slowness", np.zeros(x.shape[1])), dtype), x
    covariance = latent_covariance(model["terms"], at, at) + (columns * sd.astype(dtype) ** 2) @ columns.T
    return columns @ middle.astype(dtype), covariance


def joined(data, query):
    """The rows of both."""
    context = {name: np.concatenate([data.context[name], query.context[name]]) for name in data.context}
    return Rows(*(np.concatenate([a, b]) for a, b in zip(data[:3], query[:3])), context)


def posterior(model, data, query, dtype=WIDE):
    """``f`` at the query's rows given Gaussian data, whatever their order in time."""
    data = data.observed()
    n, (mean, covariance) = len(data.t), prior(model, joined(data, query), dtype)
    if n == 0:
        return Posterior(mean.astype(float), covariance.astype(float), 0.0)
    noise = noise_of(model["likelihood"], data.named).astype(dtype)
    factor = cholesky(covariance[:n, :n] + np.diag(noise**2))
    white = solve_lower(factor, (data.y.astype(dtype) - mean[:n])[:, None])[:, 0]
    gain = solve_lower(factor, covariance[:n, n:])
    log_evidence = -white @ white / 2 - np.log(np.diag(factor)).sum() - n * np.log(2 * dtype(np.pi)) / 2
    left = covariance[n:, n:] - gain.T @ gain
    return Posterior((mean[n:] + gain.T @ white).astype(float), left.astype(float), float(log_evidence))


def extended(model, data, query, mean, covariance):
    """Mean and covariance at the query's rows from those of ``f`` at the data, whatever gave them."""
    n = len(data.t)
    middle, whole = prior(model, joined(data, query))
    ridge = 1e-12 * np.diag(whole[:n, :n])  # the same point twice is no new one
    factor = cholesky(whole[:n, :n] + np.diag(ridge))
    half = solve_lower(factor, whole[:n, n:])
    weights = solve_lower(factor.T[::-1, ::-1], half[::-1])[::-1]  # factor' weights = half
    left = whole[n:, n:] - half.T @ half
    found = weights.T @ covariance.astype(WIDE) @ weights + left
    return (middle[n:] + weights.T @ (mean - middle[:n])).astype(float), found.astype(float)
