"""Refusals by name: filters beyond the memory, data that filters have no answer to, likelihoods that raise."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest

import seqgp
from seqgp.samplers.online import budget, history
from seqgp.samplers.online.history import begin
from seqgp.statespace import snapshot_ep

MODEL = seqgp.Model(
    seqgp.Separable(seqgp.kernels.Matern32(1.0), seqgp.kernels.Matern32(1.0), 1.0), seqgp.likelihoods.Gaussian(0.1)
)

ALONE = seqgp.Model(  # nothing else is inferred, so eigenvectors are not shared
    seqgp.Separable(seqgp.kernels.Matern32(1.0), seqgp.kernels.Matern32(dist.LogNormal(0.0, 1.0)), 1.0),
    seqgp.likelihoods.Gaussian(0.1),
)


@pytest.mark.parametrize(
    ("sites", "gaps", "filter", "model"),
    [
        (1000, 600, "dense", MODEL),
        (9000, 0, "rotated", MODEL),
        (2000, 0, "rotated", ALONE),
        (6000, 300, "low rank", MODEL),
    ],
)
def test_filters_that_do_not_fit_are_refused_before_anything_is_compiled(sites, gaps, filter, model, monkeypatch):
    monkeypatch.setattr(budget, "available_bytes", lambda: 4 * 10**9)
    monkeypatch.setattr("seqgp.samplers.online.filters.compiled", None)  # nothing is
    x, y = np.random.default_rng(0).random((sites, 2)), np.zeros(sites)
    y[:gaps] = np.nan
    with pytest.raises(
        seqgp.SamplerError, match=rf"{filter}\) of 256 particles on {sites} sites.* GB are available; .*Knots"
    ):
        seqgp.OnlineSampler(model).init(jax.random.key(0), seqgp.Snapshot(0.0, x, y))


KERNEL = MODEL.kernel
KINDS = {
    "counts": seqgp.Model(KERNEL, seqgp.likelihoods.Poisson()),
    "by station": seqgp.Model(KERNEL, seqgp.likelihoods.Gaussian(dist.LogNormal(-1.0, 0.5), by="station")),
    "delays": seqgp.Model(
        seqgp.Delayed(KERNEL, slowness=[dist.Normal(0.0, 0.01)] * 2), seqgp.likelihoods.Gaussian(0.1)
    ),
    "several terms": seqgp.Model(
        KERNEL + seqgp.Separable(seqgp.kernels.Matern12(1.0), seqgp.kernels.Matern12(3.0), 1.0),
        seqgp.likelihoods.Gaussian(0.1),
    ),
}


@pytest.mark.parametrize("sites", [1000, 10_000])
@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_model_is_refused_by_name(kind, sites, monkeypatch):
    """The remedy is one that the model takes."""
    monkeypatch.setattr(budget, "available_bytes", lambda: 4 * 10**9)
    monkeypatch.setattr("seqgp.samplers.online.filters.compiled", None)  # nothing is
    x, y = np.random.default_rng(0).random((sites, 2)), np.ones(sites)
    y[0] = np.nan
    remedy = "fewer stations" if kind in ("by station", "delays") else "Knots"
    with pytest.raises(seqgp.SamplerError, match=rf"of 256 particles on {sites} sites .* GB are available; .*{remedy}"):
        seqgp.OnlineSampler(KINDS[kind], latent=seqgp.Dense()).init(jax.random.key(0), seqgp.Snapshot(0.0, x, y))


def test_a_covariance_that_is_written_out_for_a_station_that_joins_is_counted(monkeypatch):
    """On a long history; filters that are run anew over a short one write nothing out."""
    x, y, ssm = np.random.default_rng(0).random((420, 2)), np.zeros(420), seqgp.OnlineSampler(MODEL).ssm
    y[0] = np.nan
    first = begin(ssm, "auto", seqgp.Snapshot(0.0, x[:-1], y[:-1]))
    short = first.with_snapshot(seqgp.Snapshot(1.0, x, y))
    monkeypatch.setattr(history, "REPLAYED_SNAPSHOTS", 0)
    long, filter = first.with_snapshot(seqgp.Snapshot(1.0, x, y)), short.filter
    needed = 16 * budget.particle_bytes(filter) + budget.bases_bytes(filter, 16) + budget.working_bytes(filter)
    monkeypatch.setattr(budget, "available_bytes", lambda: needed + 10**6)
    budget.check_memory(short, 16)
    with pytest.raises(seqgp.SamplerError, match=r"low rank\) of 16 particles on 424 sites.*GB are available"):
        budget.check_memory(long, 16)


def test_thousands_of_points_on_knots_fit(monkeypatch):
    monkeypatch.setattr(budget, "available_bytes", lambda: 4 * 10**9)
    x = np.random.default_rng(0).random((10_000, 2))
    ssm = seqgp.OnlineSampler(KINDS["counts"]).ssm
    budget.check_memory(begin(ssm, seqgp.Knots(10), seqgp.Snapshot(0.0, x, np.ones(len(x)))), 256)


@pytest.fixture(scope="module")
def reached():
    """A state of a network with gaps, small."""
    x, y = np.random.default_rng(0).random((20, 2)), np.zeros(20)
    y[0] = np.nan
    sampler = seqgp.OnlineSampler(MODEL, particles=16, draws=10)
    return sampler, sampler.init(jax.random.key(0), seqgp.Snapshot(0.0, x, y))[0]


MAP = np.random.default_rng(1).random((100_000, 2))


@pytest.mark.parametrize(
    ("ask", "match"),
    [
        (lambda s, state: seqgp.predict(jax.random.key(1), MODEL, state, MAP), "100000 inputs jointly.*joint=False"),
        (lambda s, state: seqgp.predict(jax.random.key(1), MODEL, state, MAP, joint=False), "10 draws .*thinned"),
        (
            lambda s, state: seqgp.smooth(jax.random.key(1), s, state, [0.0], x=MAP),
            "100000 other inputs .*fewer inputs",
        ),
    ],
    ids=["predict", "map", "smooth"],
)
def test_predictions_that_do_not_fit_are_refused(ask, match, reached, monkeypatch):
    monkeypatch.setattr("seqgp.runtime.memory.available_bytes", lambda: 2 * 10**7)
    monkeypatch.setattr("seqgp.runtime.memory.WORTH_ASKING", 0)
    with pytest.raises(seqgp.SamplerError, match=match):
        ask(*reached)


def test_inputs_that_never_come_again_are_refused_when_they_no_longer_fit(monkeypatch):
    """Whatever their number: the error says how many there are by then, and what serves instead."""
    monkeypatch.setattr(budget, "available_bytes", lambda: 3 * 10**7)
    rng, sampler = np.random.default_rng(0), seqgp.OnlineSampler(MODEL, particles=16, draws=10, latent=seqgp.Dense())
    data = [seqgp.Snapshot(float(t), rng.random((20, 2)), np.zeros(20)) for t in range(8)]

    def run():
        state, _ = sampler.init(jax.random.key(0), data[0])
        for t, one in enumerate(data[1:]):
            state, _ = sampler.step(jax.random.key(t), state, one)

    with pytest.raises(seqgp.SamplerError, match=r"on \d+ sites \(all different inputs so far\).*Knots"):
        run()


@pytest.mark.parametrize("sites", [24, 64])
def test_what_is_said_to_be_needed_is_what_filters_take(sites):
    """Three copies of the matrices and five of the states, and these are the arrays of a filter."""
    x, y = np.random.default_rng(0).random((sites, 2)), np.zeros(sites)
    y[0] = np.nan
    state, _ = seqgp.OnlineSampler(MODEL, particles=16, draws=10).init(jax.random.key(0), seqgp.Snapshot(0.0, x, y))
    filters, filter = state.live.filters, state.live.history.filter
    all_matrices, states = (
        sum(leaf.nbytes for group in filters.groups for leaf in jax.tree.leaves(group[part])) / 16 for part in (0, 1)
    )
    assert budget.particle_bytes(filter) == pytest.approx(3 * all_matrices + 5 * states, rel=0.05)


COUNTS = seqgp.Model(
    seqgp.Separable(seqgp.kernels.Matern12(1.0), seqgp.kernels.Matern12(1.0), 1.0), seqgp.likelihoods.Poisson()
)
SNAPSHOT = seqgp.Snapshot(2.5, np.array([[0.0], [1.0], [2.0]]), np.array([1.0, 3.0, 40.0]))


def test_data_without_an_answer_are_named(monkeypatch):
    monkeypatch.setattr(snapshot_ep, "TABLES", 1)
    monkeypatch.setattr(snapshot_ep, "SWEEPS", 1)
    with pytest.raises(seqgp.SamplerError, match=r"t = 2.5, station 0 .*did not converge, for 16 of 16 particles"):
        seqgp.OnlineSampler(COUNTS, particles=16, draws=10).init(jax.random.key(0), SNAPSHOT)


class Improper(dist.Poisson):
    """Probabilities that sum to more than one."""

    def log_prob(self, value):
        return super().log_prob(value) + 10.0


def test_probabilities_above_one_are_named():
    likelihood = seqgp.likelihoods.Likelihood(lambda f, context: Improper(jnp.exp(f)), pointwise=True)
    model = seqgp.Model(COUNTS.kernel, likelihood)
    with pytest.raises(seqgp.SamplerError, match=r"t = 2.5, station 0 .*discrete datum is above zero"):
        seqgp.OnlineSampler(model, particles=16, draws=10).init(jax.random.key(0), SNAPSHOT)


class Broken(dist.Normal):
    """Raises where a sampler first needs it."""

    def log_prob(self, value):
        raise ZeroDivisionError("of my own")


def raising(f, context):
    raise RuntimeError("of my own")


@pytest.mark.parametrize("function", [raising, lambda f, context: Broken(f, 1.0)])
def test_an_exception_inside_a_likelihood_is_named_with_its_traceback(function):
    model = seqgp.Model(COUNTS.kernel, seqgp.likelihoods.Likelihood(function, pointwise=True))
    with pytest.raises(
        seqgp.ModelError, match=r"t = 2.5: \w+Error: of my own \(in Likelihood\(.*(raising|lambda)"
    ) as caught:
        seqgp.OnlineSampler(model, particles=16).init(jax.random.key(0), SNAPSHOT)
    assert isinstance(caught.value.__cause__, (RuntimeError, ZeroDivisionError))
