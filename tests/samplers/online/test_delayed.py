"""``seqgp.Delayed`` in the online sampler is the posterior of its kernel, by dense algebra."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
from scipy.stats import multivariate_normal

import seqgp
from dense_delay import matern
from seqgp import kernels, likelihoods
from seqgp.base.errors import DataError, ModelError, SamplerError
from seqgp.samplers.online.filters import filter_of, run_filters
from seqgp.samplers.online.history import begin
from seqgp.samplers.online.predictive import predictive_of
from seqgp.statespace.model import StateSpaceModel

TIMES = np.array([0.0, 1.1, 2.9, 4.0, 6.5, 7.6])
NOISE = 0.3
MATERNS = {1: kernels.Matern12, 2: kernels.Matern32, 3: kernels.Matern52}
# order in time and lengthscale, space lengthscale, scale, slowness
CASES = {
    "Matern12": [(1, 1.5, 2.0, 1.3, (0.2, -0.1))],
    "Matern32": [(2, 1.5, 2.0, 0.7, (0.25, 0.1))],
    "Matern52": [(3, 2.0, 1.0, 1.0, (-0.2, 0.15))],
    "sum": [(2, 1.5, 2.0, 1.0, (0.2, -0.1)), (1, 0.5, 0.6, 0.4, (-0.1, 0.2)), (3, 9.0, 3.0, 1.5, (0.0, 0.0))],
}


def kernel_of(case):
    parts = []
    for order, time, space, scale, slowness in case:
        term = seqgp.Separable(MATERNS[order](lengthscale=time), kernels.Matern12(lengthscale=space), scale)
        parts.append(seqgp.Delayed(term, slowness=list(slowness)) if any(slowness) else term)
    return sum(parts)


def covariance(case, t, x, other_t, other_x):
    """The kernel written out."""
    total = 0.0
    for order, time, space, scale, slowness in case:
        local = (t[:, None] - other_t) - (x[:, None] - other_x) @ np.array(slowness)
        distance = np.linalg.norm(x[:, None] - other_x, axis=-1) / space
        total = total + scale**2 * matern(order, local / time) * matern(1, distance)
    return total


def data(joins=None, seed=0, m=5):
    """Snapshots at irregular times with gaps; one without any data; the last two stations join later."""
    rng = np.random.default_rng(seed)
    x = rng.uniform(0, 2, (m, 2))
    snapshots = []
    for k, t in enumerate(TIMES):
        here = x if joins is None or k >= joins else x[:-2]
        y = rng.normal(size=len(here))
        y[rng.uniform(size=len(y)) < 0.3] = np.nan
        snapshots.append(seqgp.Snapshot(t=t, x=here, y=np.full_like(y, np.nan) if k == 2 else y))
    return snapshots


def flat(snapshots):
    t = np.concatenate([np.full(len(s.x), s.t) for s in snapshots])
    x, y = np.concatenate([s.x for s in snapshots]), np.concatenate([s.y for s in snapshots])
    seen = ~np.isnan(y)
    return t[seen], x[seen], y[seen]


def filtered(model, snapshots):
    """History, filters of one particle, and the log evidence of its snapshots."""
    ssm = StateSpaceModel(model)
    history = begin(ssm, "auto", snapshots[0])
    for snapshot in snapshots[1:]:
        history = history.with_snapshot(snapshot)
    filters, increments, _ = run_filters(history, np.zeros((1, len(ssm.in_particles))), len(snapshots))
    return history, filters, increments[0]


def f_at(history, filters, x, t):
    query = predictive_of(history, filters, np.zeros(1, int), np.zeros((1, 0)), x, t, None).query
    found = history.filter.predict_f(*jax.tree.map(jnp.asarray, filter_of(filters, 0)), query)
    return np.asarray(found.mean), np.asarray(found.covariance)


def check(case, snapshots, x, t):
    model = seqgp.Model(kernel_of(case), likelihoods.Gaussian(noise=NOISE))
    history, filters, increments = filtered(model, snapshots)
    data_t, data_x, y = flat(snapshots)
    cov = covariance(case, data_t, data_x, data_t, data_x) + NOISE**2 * np.eye(len(y))
    assert np.isclose(increments.sum(), multivariate_normal(np.zeros(len(y)), cov).logpdf(y), rtol=0, atol=1e-10)
    new = np.full(len(x), t)
    cross = covariance(case, new, x, data_t, data_x)
    mean, found = f_at(history, filters, x, t)
    np.testing.assert_allclose(mean, cross @ np.linalg.solve(cov, y), rtol=0, atol=1e-10)
    left = covariance(case, new, x, new, x) - cross @ np.linalg.solve(cov, cross.T)
    np.testing.assert_allclose(found, left, rtol=0, atol=1e-10)


@pytest.mark.parametrize("name", CASES)
def test_evidence_and_posterior_at_the_stations_are_those_of_the_kernel(name):
    """With gaps and irregular times; now, and soon after, within the spread of the delays."""
    snapshots = data()
    check(CASES[name], snapshots, snapshots[-1].x, TIMES[-1])
    check(CASES[name], snapshots, snapshots[-1].x, TIMES[-1] + 0.05)


@pytest.mark.parametrize("name", ["Matern32", "sum"])
def test_stations_join_and_new_places_are_asked_about(name):
    snapshots = data(joins=3)
    operator = np.random.default_rng(3).uniform(-0.3, 2.3, (4, 2))
    for ahead in (0.0, 0.1, 1.7):
        check(CASES[name], snapshots, operator, TIMES[-1] + ahead)


def test_a_new_place_after_the_first_snapshot():
    check(CASES["sum"], data()[:1], np.array([[4.0, -3.0], [-4.0, 3.0]]), 0.2)


def test_no_slowness_is_the_separable_kernel():
    case = [(2, 1.5, 2.0, 1.0, (0.0, 0.0))]
    plain = kernel_of(case)
    delayed = seqgp.Delayed(plain, slowness=[0.0, 0.0])
    snapshots = data(joins=3)
    found = [filtered(seqgp.Model(one, likelihoods.Gaussian(noise=NOISE)), snapshots) for one in (plain, delayed)]
    assert found[1][0].filter.name == "delayed"
    assert found[0][0].filter.name != "delayed"
    np.testing.assert_allclose(found[1][2], found[0][2], rtol=0, atol=1e-12)
    answers = [f_at(*one[:2], np.array([[0.3, 0.4], [1.0, 1.5]]), 8.0) for one in found]
    np.testing.assert_allclose(answers[1][0], answers[0][0], rtol=0, atol=1e-12)
    np.testing.assert_allclose(answers[1][1], answers[0][1], rtol=0, atol=1e-12)


def test_the_origin_of_x_does_not_matter():
    snapshots, shift = data(), np.array([3.0, -7.0])
    moved = [seqgp.Snapshot(t=s.t, x=s.x + shift, y=s.y) for s in snapshots]
    model = seqgp.Model(kernel_of(CASES["sum"]), likelihoods.Gaussian(noise=NOISE))
    np.testing.assert_allclose(filtered(model, moved)[2], filtered(model, snapshots)[2], rtol=0, atol=1e-10)


def test_downstream_lags_behind():
    """What upstream sees now says more about downstream a delay later than the other way round."""
    x = np.array([[0.0], [1.0]])
    term = seqgp.Separable(kernels.Matern12(lengthscale=1.0), kernels.Matern12(lengthscale=50.0), 1.0)
    model = seqgp.Model(seqgp.Delayed(term, slowness=0.8), likelihoods.Gaussian(noise=0.05))

    def forecast(seen, asked):
        y = np.full(2, np.nan)
        y[seen] = 2.0
        history, filters, _ = filtered(model, [seqgp.Snapshot(t=0.0, x=x, y=y)])
        return f_at(history, filters, x, 0.8)[0][asked]

    assert forecast(0, 1) > 1.9  # at the very delay, all but noise and distance is known
    assert forecast(1, 0) < 0.45  # the other way it is 1.6 time units away


def test_coefficients_of_the_mean_and_several_data_at_one_station():
    """A mean with a Gaussian prior is a constant kernel; two readings at one place are two data."""
    case = CASES["Matern32"]
    snapshots = [
        seqgp.Snapshot(t=s.t, x=np.concatenate([s.x, s.x[:2]]), y=np.concatenate([s.y, s.y[:2] + 0.3])) for s in data()
    ]
    model = seqgp.Model(kernel_of(case), likelihoods.Gaussian(noise=NOISE), mean=dist.Normal(0.5, 2.0))
    history, filters, increments = filtered(model, snapshots)
    t, x, y = flat(snapshots)
    cov = covariance(case, t, x, t, x) + 4.0 + NOISE**2 * np.eye(len(y))
    assert np.isclose(increments.sum(), multivariate_normal(np.full(len(y), 0.5), cov).logpdf(y), rtol=0, atol=1e-9)
    new = np.array([[0.2, 0.7]])
    cross = covariance(case, np.array([8.0]), new, t, x) + 4.0
    mean = f_at(history, filters, new, 8.0)[0]
    assert np.isclose(mean[-1], 0.5 + (cross @ np.linalg.solve(cov, y - 0.5))[0], rtol=0, atol=1e-9)


@pytest.mark.parametrize(
    "likelihood",
    [likelihoods.Poisson(), likelihoods.StudentT(noise=0.3, df=4.0)],
    ids=["Poisson", "StudentT"],
)
def test_other_data_go_through_ep_as_in_the_dense_filter(likelihood):
    """Without slowness the filter is the dense one, also by EP, with sites that widen what is known."""
    counts = isinstance(likelihood, likelihoods.Poisson)
    snapshots = [seqgp.Snapshot(t=s.t, x=s.x, y=np.round(np.abs(2 * s.y)) if counts else s.y) for s in data(joins=3)]
    plain = kernel_of([(2, 1.5, 2.0, 1.0, (0.0, 0.0))])
    found = [filtered(seqgp.Model(one, likelihood), snapshots) for one in (plain, seqgp.Delayed(plain, [0.0, 0.0]))]
    np.testing.assert_allclose(found[1][2], found[0][2], rtol=0, atol=1e-9)
    answers = [f_at(*one[:2], np.array([[0.3, 0.4]]), 8.0) for one in found]
    np.testing.assert_allclose(answers[1][1], answers[0][1], rtol=0, atol=1e-9)


def prior_model(width=0.4):
    time, space = kernels.Matern32(lengthscale=2.0), kernels.Matern12(lengthscale=3.0)
    kernel = seqgp.Delayed(
        seqgp.Separable(time, space, seqgp.ScaledSigmoid(0.3, 3.0)), slowness=[seqgp.ScaledSigmoid(-width, width), 0.0]
    )
    return seqgp.Model(kernel, likelihoods.Gaussian(noise=0.2), mean=dist.Normal(0, 1))


def test_slowness_is_recovered_and_a_run_goes_on_from_its_store(tmp_path):
    model = prior_model()
    rng = np.random.default_rng(5)
    x = rng.uniform(0, 2, (6, 2))
    design = [seqgp.Snapshot(t=float(k), x=x, y=np.zeros(6)) for k in range(40)]
    truth = seqgp.Model(
        seqgp.Delayed(seqgp.Separable(model.kernel.kernel.time, model.kernel.kernel.space, 1.0), slowness=[0.3, 0.0]),
        likelihoods.Gaussian(noise=0.2),
    )
    snapshots = seqgp.simulate(jax.random.key(0), truth, design).snapshots
    sampler = seqgp.OnlineSampler(model, particles=64, draws=200)
    whole = seqgp.run(sampler, snapshots, key=jax.random.key(1))
    slowness = np.asarray(whole.state.parameters["slowness"])
    assert slowness.shape == (200, 2)
    assert (slowness[:, 1] == 0).all()
    low, high = np.quantile(slowness[:, 0], [0.005, 0.995])
    assert low < 0.3 < high
    assert low > 0.1
    assert model.names == ["scale", "slowness[0]", "mean"]
    store = tmp_path / "store"
    seqgp.run(sampler, snapshots[:33], key=jax.random.key(1), store=store)
    again = seqgp.run(sampler, snapshots, key=jax.random.key(1), store=store)
    np.testing.assert_array_equal(np.asarray(again.state.latent), np.asarray(whole.state.latent))
    prediction = seqgp.predict(jax.random.key(2), model, again.state, np.array([[1.0, 1.0]]), t=40.0)
    assert np.isfinite(prediction.f).all()
    with pytest.raises(DataError, match="so far from the stations"):
        seqgp.predict(jax.random.key(2), model, again.state, np.array([[50.0, 1.0]]))


def test_what_cannot_be_is_refused_by_name():
    term = kernel_of([(2, 1.5, 2.0, 1.0, (0.0, 0.0))])
    with pytest.raises(ModelError, match="has a slowness already"):
        seqgp.Delayed(seqgp.Delayed(term, [0.1, 0.1]) + term, [0.1, 0.1])
    with pytest.raises(ModelError, match="kernel must be seqgp"):
        seqgp.Delayed(kernels.Matern12(lengthscale=1.0), [0.1])
    model = seqgp.Model(seqgp.Delayed(term, [0.1]), likelihoods.Gaussian(noise=0.2))
    with pytest.raises(ModelError, match="slowness has 1 entries, but x has 2 columns"):
        seqgp.OnlineSampler(model, particles=16).init(jax.random.key(0), data()[0])
    model = prior_model(width=5.0)
    many = [seqgp.Snapshot(t=0.01 * k, x=np.array([[0.0, 0.0], [1.0, 1.0]]), y=np.zeros(2)) for k in range(60)]
    with pytest.raises(DataError, match=r"spread over up to 5, and 41 snapshots lie that close together"):
        filtered(model, many)
    with pytest.raises(ModelError, match=r"SequentialSampler does not take seqgp\.Delayed"):
        seqgp.SequentialSampler(model)
    with pytest.raises(SamplerError, match="latent = Knots"):
        begin(StateSpaceModel(model), seqgp.Knots(nodes=4), data()[0])


def test_terms_share_or_have_their_own_slowness():
    term = kernel_of([(2, 1.5, 2.0, 1.0, (0.0, 0.0))])
    prior = seqgp.ScaledSigmoid(-0.1, 0.1)
    kernel = seqgp.Delayed(term + term, slowness=[prior, prior]) + term
    assert kernel.slowness_names() == ("0.slowness", "0.slowness", None)
    assert [prefix for prefix, _ in kernel.terms()] == ["0.0.", "0.1.", "1."]
    assert seqgp.Model(kernel, likelihoods.Gaussian(noise=0.1)).names == ["0.slowness[0]", "0.slowness[1]"]
