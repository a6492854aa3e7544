"""Log probabilities of data that the latent all but excludes: against SciPy, wherever it is."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from experiments.one_datum import CASES

F = np.array([-300.0, -45.0, -9.0, -0.5, 0.0, 2.0, 12.0, 45.0, 300.0])


@pytest.mark.parametrize(
    "name, values",
    [
        ("Bernoulli()", (0.0, 1.0)),
        ("Binomial(20)", (0.0, 7.0, 20.0)),
        ("Bernoulli(probit)", (0.0, 1.0)),
        ("Ordinal([-1, 0, 1.5])", (0.0, 1.0, 2.0, 3.0)),
        ("Beta(20)", (0.02, 0.7)),
    ],
)
def test_they_keep_their_digits(name, values):
    case = CASES[name]
    parameters = {key: jnp.asarray(slot) for key, slot in case.likelihood.priors.items()}
    for y in values:
        log_prob = lambda f, y=y: case.likelihood.distribution(f, None, parameters).log_prob(jnp.full(len(F), y))  # noqa: E731
        np.testing.assert_allclose(log_prob(jnp.asarray(F)), case.log_density(y, F), rtol=1e-9, atol=1e-12)
        slope = jax.jvp(log_prob, (jnp.asarray(F),), (jnp.ones(len(F)),))[1]
        assert np.isfinite(slope).all()


@pytest.mark.parametrize("name", CASES)
def test_the_slope_is_right_where_the_latent_is_zero(name):
    """As it is at first under a mean of zero. A kink at zero, as of ``max(f, 0)``, would give another one there."""
    case, h = CASES[name], 1e-6
    parameters = {key: jnp.asarray(slot) for key, slot in case.likelihood.priors.items()}
    for latent in (-1.3, 0.9):
        y = case.datum(latent)

        def log_prob(f, y=y):
            return case.likelihood.distribution(f, case.context, parameters).log_prob(jnp.full(1, y))[0]

        slope = jax.grad(log_prob)(jnp.zeros(1))[0]
        up, down = (case.log_density(y, np.array([f]))[0] for f in (h, -h))
        np.testing.assert_allclose(slope, (up - down) / (2 * h), rtol=1e-4, atol=1e-4)
