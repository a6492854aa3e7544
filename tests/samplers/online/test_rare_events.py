"""A stream of rare events (about 5 of 1000 at five stations) with an unknown scale: against importance sampling."""

import jax
import numpy as np
from scipy import stats
from scipy.special import expit, gammaln, log_expit, logsumexp

import seqgp

X = np.linspace(0, 1, 5)[:, None]
TIMES = np.array([0.0, 0.3])
Y = np.array([[5.0, 4.0, 7.0, 6.0, 3.0], [6.0, 2.0, 5.0, 8.0, 4.0]])
SCALES = 5 * expit(1.5 * stats.norm.ppf((np.arange(25) + 0.5) / 25))  # the prior's: 5 / (1 + exp(-z)), z ~ N(0, 1.5²)


def log_likelihood(f):
    y = Y.ravel()
    choose = gammaln(1001) - gammaln(y + 1) - gammaln(1001 - y)
    return np.sum(choose + y * log_expit(f) + (1000 - y) * log_expit(-f), axis=-1)


def importance(scale, correlation, rng, draws=4000):
    """Log evidence and weighted draws of the latent at the last time, from Student's t at the mode."""
    cov, y, f = scale**2 * correlation, Y.ravel(), np.full(10, -5.0)
    for _ in range(200):  # Newton's method, damped
        p = expit(f)
        weight = 1000 * p * (1 - p)
        target = cov @ np.linalg.solve(np.diag(1 / weight) + cov, f + (y - 1000 * p) / weight)
        f = f + 0.5 * (target - f)
    p = expit(f)
    posterior = np.linalg.inv(np.linalg.inv(cov) + np.diag(1000 * p * (1 - p)))
    proposal = stats.multivariate_t(f, posterior, df=8, seed=rng)
    drawn = proposal.rvs(draws)
    log_weights = log_likelihood(drawn) + stats.multivariate_normal(np.zeros(10), cov).logpdf(drawn)
    log_weights = log_weights - proposal.logpdf(drawn)
    return logsumexp(log_weights) - np.log(draws), drawn[:, 5:], log_weights - np.log(draws)


def exact():
    """Log evidence, and mean and sd of the latent at each station at the last time."""
    rng = np.random.default_rng(0)
    dt, dx = np.abs(TIMES[:, None] - TIMES[None, :]), np.abs(X - X.T)
    correlation = np.kron(np.exp(-dt), np.exp(-dx))
    found = [importance(scale, correlation, rng) for scale in SCALES]
    log_evidence = logsumexp([one[0] for one in found]) - np.log(len(SCALES))
    share = np.concatenate([one[2] for one in found])
    share, drawn = np.exp(share - logsumexp(share)), np.concatenate([one[1] for one in found])
    mean = share @ drawn
    return log_evidence, mean, np.sqrt(share @ (drawn - mean) ** 2)


def test_the_latent_of_rare_events_is_where_they_say():
    """Errors of 0.15 sd are five standard errors of 256 particles' mean; the latent of a diverged EP is 0 ± 0."""
    matern = seqgp.kernels.Matern12(1.0)
    kernel = seqgp.Separable(time=matern, space=matern, scale=seqgp.ScaledSigmoid(0, 5))
    model = seqgp.Model(kernel, seqgp.likelihoods.Binomial(1000), mean=0.0)
    sampler = seqgp.OnlineSampler(model, particles=256, draws=2000, paths=0)
    state, _ = sampler.init(jax.random.key(0), seqgp.Snapshot(TIMES[0], X, Y[0]))
    state, info = sampler.step(jax.random.key(1), state, seqgp.Snapshot(TIMES[1], X, Y[1]))
    log_evidence, mean, sd = exact()
    latent = np.asarray(state.latent)
    np.testing.assert_array_less(np.abs(latent.mean(axis=0) - mean), 0.15 * sd)
    np.testing.assert_allclose(latent.std(axis=0), sd, rtol=0.1)
    assert abs(info.log_evidence - log_evidence) < 0.15
