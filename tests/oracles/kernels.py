"""Covariances of points in time and space, from their formulas."""

from __future__ import annotations

import numpy as np


def squared_distance(kernel, a, b):
    """``Σ_d ((a_d − b_d) / lengthscale_d)²`` for rows ``a (n, D)`` and ``b (m, D)``."""
    lengthscale = np.broadcast_to(np.asarray(kernel["lengthscale"], a.dtype), a.shape[1:])
    return (((a[:, None, :] - b[None, :, :]) / lengthscale) ** 2).sum(-1)


def profile(kernel, squared):
    """A stationary correlation as a function of the squared scaled distance."""
    kind, r = kernel["kind"], np.sqrt(squared)
    if kind == "SquaredExponential":
        return np.exp(-squared / 2)
    if kind == "Matern12":
        return np.exp(-r)
    if kind == "Matern32":
        s = np.sqrt(squared.dtype.type(3)) * r
        return (1 + s) * np.exp(-s)
    if kind == "Matern52":
        s = np.sqrt(squared.dtype.type(5)) * r
        return (1 + s + s**2 / 3) * np.exp(-s)
    if kind == "RationalQuadratic":
        alpha = squared.dtype.type(kernel["alpha"])
        return np.exp(-alpha * np.log1p(squared / (2 * alpha)))
    raise ValueError(kind)


def covariance(kernel, a, b):
    """The covariance matrix of rows ``a (n, D)`` with rows ``b (m, D)``."""
    kind = kernel["kind"]
    if kind in ("Sum", "Times"):
        parts = [covariance(part, a, b) for part in kernel["parts"]]
        return sum(parts) if kind == "Sum" else np.prod(parts, axis=0)
    if kind == "Product":  # a factor for each column
        return np.prod([covariance(part, a[:, [d]], b[:, [d]]) for d, part in enumerate(kernel["parts"])], axis=0)
    if kind == "Constant":
        return np.full((len(a), len(b)), a.dtype.type(kernel["scale"])) ** 2
    if kind == "WhiteNoise":
        same = (a[:, None, :] == b[None, :, :]).all(-1)
        return same * a.dtype.type(kernel["scale"]) ** 2
    if kind == "Periodic":
        turn = np.arccos(a.dtype.type(-1)) * (a[:, 0, None] - b[None, :, 0]) / kernel["period"]
        return np.exp(-2 * (np.sin(turn) / kernel["lengthscale"]) ** 2)
    if kind == "LinearKernel":
        scale, centre = (np.asarray(kernel[name], a.dtype) for name in ("scale", "centre"))
        return ((a - centre) * scale**2) @ (b - centre).T
    if kind == "Rotated":
        cos, sin = np.cos(kernel["angle"]), np.sin(kernel["angle"])
        turn = np.array([[cos, -sin], [sin, cos]])
        return covariance(kernel["kernel"], a @ turn, b @ turn)
    if kind == "GreatCircle":
        return on_globe(kernel, a, b)
    if kind == "Coregionalised":
        weights = np.reshape(np.asarray(kernel["weights"], a.dtype), (kernel["outputs"], kernel["rank"]))
        between = weights @ weights.T + np.diag(np.asarray(kernel["own"], a.dtype) ** 2)
        seen = between[a[:, 0].astype(int)][:, b[:, 0].astype(int)]
        return seen if kernel["kernel"] is None else seen * covariance(kernel["kernel"], a[:, 1:], b[:, 1:])
    return profile(kernel, squared_distance(kernel, a, b))


def on_globe(kernel, a, b):
    """Matern12 of the great circle's length; the smoother kernels of the chord through the globe."""

    def vectors(points):
        longitude, latitude = np.deg2rad(points).T
        ring = np.cos(latitude)
        return np.stack([ring * np.cos(longitude), ring * np.sin(longitude), np.sin(latitude)], 1)

    chord = np.sqrt(((vectors(a)[:, None] - vectors(b)[None]) ** 2).sum(-1))
    inner = kernel["kernel"]
    length = 2 * np.arcsin(np.minimum(chord / 2, 1)) if inner["kind"] == "Matern12" else chord
    return profile(inner, (kernel["radius"] * length / inner["lengthscale"]) ** 2)


def amplitude(season, t):
    """By what a standard deviation with a season of one harmonic, ``{"period", "weights": [a, b]}``, is multiplied."""
    if season is None:
        return np.ones(len(t))
    angle, (a, b) = 2 * np.pi * np.asarray(t) / season["period"], season["weights"]
    return np.exp(a * np.cos(angle) + b * np.sin(angle))


def latent_covariance(terms, at, other):
    """Of the zero-mean part of the latent, ``Σ scale(t) scale(t') time(t, t') space(x, x')``, at times and inputs."""
    (t, x), (s, z) = at, other
    return sum(
        x.dtype.type(term["scale"]) ** 2
        * np.outer(amplitude(term.get("season"), t), amplitude(term.get("season"), s))
        * covariance(term["time"], t[:, None], s[:, None])
        * covariance(term["space"], x, z)
        for term in terms
    )
