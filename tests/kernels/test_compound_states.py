"""States of sums, products, cycles, constants and white noise: their covariance is the kernel's."""

import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import ive

import seqgp
from seqgp.kernels.compound_states import bessel_coefficients
from states import by_kernel, by_state

WEATHER, CYCLE, SHAPE = seqgp.kernels.Matern32(0.8), seqgp.kernels.Periodic(1.4, 1.5), seqgp.kernels.Matern52(2.5)
EXACT = {
    "sum": seqgp.kernels.Matern12(0.4) + WEATHER,
    "product": seqgp.kernels.Matern12(0.4) * SHAPE,
    "scaled": seqgp.kernels.Constant(scale=0.3) * WEATHER + seqgp.kernels.Constant(scale=2.0),
    "white": WEATHER + seqgp.kernels.WhiteNoise(0.5),
    "a product of sums": (WEATHER + seqgp.kernels.Constant(scale=0.5)) * (SHAPE + seqgp.kernels.Matern12(0.2)),
}


def parameters(kernel):
    return {name: jnp.asarray(slot) for name, slot in kernel.slots().items()}


@pytest.mark.parametrize("name", EXACT)
def test_the_covariance_of_the_state_is_the_kernel(name):
    kernel = EXACT[name]
    state, values = kernel.state(), parameters(kernel)
    assert state.error == 0
    np.testing.assert_allclose(by_state(state, values), by_kernel(kernel, values), atol=1e-10)
    assert state.stationary(values).shape == (state.order, state.order)


@pytest.mark.parametrize("kernel", [CYCLE, WEATHER + CYCLE * SHAPE], ids=["cycle", "a season whose shape drifts"])
def test_a_cycle_is_a_state(kernel):
    """At this lengthscale the harmonics fall off so fast that few are needed."""
    state, values = kernel.state(9), parameters(kernel)
    np.testing.assert_allclose(by_state(state, values), by_kernel(kernel, values), atol=2e-7)
    assert state.error < 1.1e-7


@pytest.mark.parametrize(("lengthscale", "harmonics"), [(0.6, 3), (0.6, 6), (1.0, 3)])
def test_the_error_of_a_cycle_is_told(lengthscale, harmonics):
    kernel = seqgp.kernels.Periodic(lengthscale, 1.5)
    state = kernel.state(harmonics)
    assert state.order == 2 * harmonics + 1
    found = np.abs(by_state(state, parameters(kernel)) - by_kernel(kernel, parameters(kernel))).max()
    assert 0.2 * state.error < found < 2 * state.error


def test_a_cycle_of_unknown_lengthscale_tells_its_error_where_the_prior_is():
    unknown = seqgp.kernels.Periodic(seqgp.ScaledSigmoid(0.5, 2.0), 1.0).state(6)
    assert (
        seqgp.kernels.Periodic(2.0, 1.0).state(6).error
        < unknown.error
        < seqgp.kernels.Periodic(0.5, 1.0).state(6).error
    )


def test_few_harmonics_where_the_cycle_is_nearly_a_sine():
    assert seqgp.kernels.Periodic(20.0, 1.0).state().harmonics < seqgp.kernels.Periodic(2.0, 1.0).state().harmonics < 7


@pytest.mark.parametrize("lengthscale", [0.3, 1.0, 5.0])
def test_coefficients_are_bessel_functions(lengthscale):
    expected = ive(np.arange(9), lengthscale**-2.0) * np.array([1] + [2] * 8)
    np.testing.assert_allclose(bessel_coefficients(jnp.asarray(lengthscale), 8), expected, rtol=1e-10, atol=1e-300)


@pytest.mark.parametrize("kernel", [CYCLE * SHAPE, EXACT["a product of sums"]], ids=["season", "products"])
def test_a_state_moves_by_a_semigroup_and_its_noise_is_a_covariance(kernel):
    state, values = kernel.state(), parameters(kernel)
    a, b = state.transition(values, jnp.asarray(0.3)), state.transition(values, jnp.asarray(0.9))
    np.testing.assert_allclose(state.transition(values, jnp.asarray(1.2)), b @ a, atol=1e-10)
    stationary = state.stationary(values)
    for dt in (1e-3, 0.1, 2.0):
        transition = state.transition(values, jnp.asarray(dt))
        assert np.linalg.eigvalsh(stationary - transition @ stationary @ transition.T).min() > -1e-12
