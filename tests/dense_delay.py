"""Dense algebra to compare with: kernels with a delay, written out for any set of points."""

import jax.numpy as jnp
import numpy as np

from seqgp.statespace.delay_window import DelayedField, station_delays


def matern(order, u):
    """Correlation of a Matérn kernel with smoothness ``order − ½`` at distance ``u`` over lengthscale."""
    r = np.sqrt(2 * order - 1) * np.abs(u)
    return np.exp(-r) * {1: 1.0 + 0 * r, 2: 1 + r, 3: 1 + r + r**2 / 3}[order]


def transition(order, lengthscale):
    """``A(u)`` of the same, by the matrix exponential of its drift."""
    from scipy.linalg import expm

    rate = np.sqrt(2 * order - 1)
    drift = np.diag(np.ones(order - 1), 1)
    drift[-1] = [-{1: [1], 2: [1, 2], 3: [1, 3, 3]}[order][k] * rate ** (order - k) for k in range(order)]
    nilpotent = drift + rate * np.eye(order)
    assert np.allclose(expm(drift), np.exp(-rate) * expm(nilpotent))

    def move(u):
        v = u / lengthscale
        powers = [jnp.eye(order), nilpotent * v, nilpotent @ nilpotent * v**2 / 2][:order]
        return jnp.exp(-rate * v) * sum(powers[1:], powers[0])

    return move


def stationary(order):
    """``P``: covariances of the process and its derivatives, from those of the kernel at 0."""
    if order == 1:
        return np.eye(1)
    if order == 2:
        return np.diag([1.0, 3.0])
    return np.array([[1.0, 0, -5 / 3], [0, 5 / 3, 0], [-5 / 3, 0, 25.0]])


class Term:
    """``scale² k_t(|u − s·h|) k_x(h)``, with a Matérn kernel of time and an exponential one of space."""

    def __init__(self, order, length_t, length_x, scale, slowness):
        self.order, self.length_t, self.length_x, self.scale = order, length_t, length_x, scale
        self.slowness = np.asarray(slowness, float)

    def space(self, x, z):
        distance = np.linalg.norm(x[:, None] - z[None, :], axis=-1)
        return self.scale**2 * np.exp(-distance / self.length_x)

    def cov(self, t, x, u, z):
        gap = (t[:, None] - u[None, :]) - (x[:, None] - z[None, :]) @ self.slowness
        return matern(self.order, gap / self.length_t) * self.space(x, z)

    def arrays(self, x):
        """What depends on the stations: covariances in space, and delays."""
        return self.space(x, x), station_delays(self.slowness, x)

    def field(self, x):
        return self.field_of(*self.arrays(x))

    def field_of(self, space, delay):
        h = np.eye(self.order)[0]
        return DelayedField(transition(self.order, self.length_t), stationary(self.order), h, space, delay)


def total(terms, t, x, u, z):
    return sum(term.cov(t, x, u, z) for term in terms)


def posterior(cov_data, noise, y, cross, prior):
    """Mean and covariance of what has covariances ``cross`` with the data, and the data's log density."""
    whole = cov_data + noise
    solved = np.linalg.solve(whole, cross.T).T
    _, logdet = np.linalg.slogdet(whole)
    log_prob = -0.5 * (y @ np.linalg.solve(whole, y) + logdet + len(y) * np.log(2 * np.pi))
    return solved @ y, prior - solved @ cross.T, log_prob
