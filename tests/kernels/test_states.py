"""Time kernels as states: their covariance is the kernel's."""

import jax.numpy as jnp
import numpy as np
import pytest

import seqgp
from seqgp.kernels.rational import rational_state
from states import by_kernel, by_state

LENGTHSCALE = 0.7
EXACT = [seqgp.kernels.Matern12, seqgp.kernels.Matern32, seqgp.kernels.Matern52]


def parameters(**others):
    return {"lengthscale": jnp.asarray(LENGTHSCALE)} | {name: jnp.asarray(value) for name, value in others.items()}


@pytest.mark.parametrize("kernel", EXACT)
def test_matern_is_a_state(kernel):
    state = kernel(LENGTHSCALE).state()
    assert state.error == 0
    assert by_state(state, parameters()) == pytest.approx(by_kernel(kernel(1.0), parameters()), abs=1e-12)


@pytest.mark.parametrize("kernel", [*EXACT, seqgp.kernels.SquaredExponential])
def test_a_state_moves_by_a_semigroup_and_its_noise_is_a_covariance(kernel):
    state, values = kernel(LENGTHSCALE).state(), parameters()
    a, b = state.transition(values, jnp.asarray(0.3)), state.transition(values, jnp.asarray(0.9))
    assert np.array(state.transition(values, jnp.asarray(1.2))) == pytest.approx(np.array(b @ a), abs=1e-10)
    stationary = state.stationary(values)
    for dt in (1e-3, 0.1, 2.0):
        transition = state.transition(values, jnp.asarray(dt))
        assert np.linalg.eigvalsh(stationary - transition @ stationary @ transition.T).min() > -1e-12


@pytest.mark.parametrize("order, bound", [(4, 2e-3), (6, 3e-5)])
def test_the_error_of_an_approximate_state_is_told(order, bound):
    kernel = seqgp.kernels.SquaredExponential(LENGTHSCALE)
    state = kernel.state(order)
    found = np.abs(by_state(state, parameters()) - by_kernel(kernel, parameters())).max()
    assert found == pytest.approx(state.error, rel=0.3)
    assert found < bound


def test_a_rational_quadratic_of_known_shape_is_a_state():
    kernel = seqgp.kernels.RationalQuadratic(LENGTHSCALE, alpha=2.0)
    state = kernel.state()
    values = parameters(alpha=2.0)
    assert np.abs(by_state(state, values) - by_kernel(kernel, values)).max() < 3e-4


def test_a_kernel_that_is_no_state_is_named():
    with pytest.raises(seqgp.ModelError, match=r"Covariance in time is not known as a state.*SequentialSampler"):
        seqgp.kernels.Covariance(lambda a, b: 1.0).state()
    with pytest.raises(seqgp.ModelError, match="order = 40"):
        rational_state(lambda u: np.exp(-(u**2)), 40, 5.0)
