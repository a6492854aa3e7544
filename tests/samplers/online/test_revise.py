"""Late and corrected snapshots: against the run in order, the exact posterior and quadrature."""

import jax
import numpy as np
import pytest

import seqgp
from seqgp.reference import gaussian_posterior
from seqgp.samplers.online import revise
from seqgp.samplers.online.filters import run_filters
from solver_streams import linear_data, linear_model
from streams import exact, model, sampled, snapshots


def known(likelihood=None):
    return seqgp.Model(
        kernel=seqgp.Separable(time=seqgp.kernels.Matern32(2.0), space=seqgp.kernels.Matern12(1.0), scale=1.0),
        mean=0.5,
        likelihood=likelihood or seqgp.likelihoods.Gaussian(0.3),
    )


def counts():
    rng = np.random.default_rng(5)
    return [one._replace(y=rng.poisson(np.exp(0.5 * np.nan_to_num(one.y))).astype(float)) for one in snapshots()]


def spoiled(snapshot, by=3.0):
    return snapshot._replace(y=np.where(np.isnan(snapshot.y), 1.0, snapshot.y + by))


STREAMS = {
    "complete": (known(), snapshots()),
    "gaps": (known(), snapshots(missing=0.3)),
    "a station joins": (known(), snapshots(missing=0.1, late=True)),
    "counts": (known(seqgp.likelihoods.Poisson()), counts()),
}


@pytest.mark.parametrize("name", STREAMS)
def test_at_known_parameters_a_revised_run_is_the_run_in_order(name):
    """Two snapshots come late (the first and one among those of fewer stations), two are corrected, one of them last.

    The same key at the end gives the same draws.
    """
    its, data = STREAMS[name]
    sampler = seqgp.OnlineSampler(its, particles=16, draws=50, paths=0)
    first = [spoiled(one) if i in (6, 11) else one for i, one in enumerate(data) if i not in (0, 4)]
    state, _ = sampled(sampler, first)
    state, info = sampler.revise(jax.random.key(7), state, [data[11], data[0], data[6], data[4]])
    before, _ = sampled(sampler, data[:-1])
    wanted, told = sampler.step(jax.random.key(7), before, data[-1])
    assert np.abs(state.latent - wanted.latent).max() < 1e-10
    assert state.log_evidence == pytest.approx(wanted.log_evidence, abs=1e-10)
    assert np.abs(state.particles.log_weights() - wanted.particles.log_weights()).max() < 1e-10
    assert [one.t for one in state.snapshots] == [one.t for one in data]
    assert {name: info.extras[name] for name in ("added", "replaced", "retracted")} == {
        "added": 2,
        "replaced": 2,
        "retracted": 0,
    }
    assert info.extras["moved"] > 0.5
    assert (state.t, info.t, info.ess) == (data[-1].t, data[-1].t, told.ess)


def test_a_revised_run_goes_on_as_the_run_in_order():
    data = snapshots(missing=0.2)
    sampler = seqgp.OnlineSampler(known(), particles=16, draws=50)
    state, _ = sampled(sampler, [*data[:3], *data[4:10]])
    state, _ = sampler.revise(jax.random.key(1), state, [data[3]])
    wanted, _ = sampled(sampler, data[:10])
    for i in (10, 11):
        state, wanted = (sampler.step(jax.random.key(i), one, data[i])[0] for one in (state, wanted))
    assert np.abs(state.latent - wanted.latent).max() < 1e-10
    assert state.step == wanted.step == 12


def test_retracted_data_leave_nothing_behind():
    """The exact posterior of the other data, and the log evidence of the run that never had them."""
    data = snapshots(missing=0.2)
    sampler = seqgp.OnlineSampler(known(), particles=16, draws=50)
    wrong = [spoiled(one) if i == 8 else one for i, one in enumerate(data)]
    none = data[8]._replace(y=np.full_like(data[8].y, np.nan))
    state, _ = sampled(sampler, wrong)
    state, info = sampler.revise(jax.random.key(1), state, [none])
    without = [*data[:8], *data[9:]]
    wanted, _ = sampled(sampler, without)
    assert state.log_evidence == pytest.approx(wanted.log_evidence, abs=1e-10)
    assert info.extras["retracted"] == 1
    last = gaussian_posterior(known(), without, known().parameters(np.zeros(0)))[-1]
    moments = revise._latent_moments(state.live, state, data[-1])
    in_order = revise._latent_moments(wanted.live, wanted, data[-1])
    assert np.abs(moments.mean - in_order.mean).max() < 1e-10
    assert np.abs(moments.mean - last.mean).max() < 1e-6  # whose covariances have a jitter
    assert np.abs(moments.sd - np.sqrt(np.diag(last.covariance))).max() < 1e-6


@pytest.mark.parametrize("by", [0.5, 6.0])
def test_with_parameters_the_posterior_is_that_of_the_revised_data(by):
    """Quadrature over the two parameters; a small correction reweights, a large one tempers and rejuvenates.

    Bounds of five standard errors of the particles.
    """
    data = snapshots(missing=0.1)
    wrong = [spoiled(one, by) if i in (3, 7) else one for i, one in enumerate(data) if i != 5]
    sampler = seqgp.OnlineSampler(model(), particles=512, draws=200)
    state, before = sampled(sampler, wrong)
    state, info = sampler.revise(jax.random.key(3), state, [data[5], data[7], data[3]])
    total, mean, sd = exact(model(), data)
    weights = state.particles.weights()
    found = weights @ state.particles.z
    spread = np.sqrt(weights @ (state.particles.z - found) ** 2)
    error = 5 / np.sqrt(info.ess)
    assert np.abs((found - mean) / sd).max() < error
    assert np.abs(spread / sd - 1).max() < error
    assert abs(info.log_evidence - total) < 5 * max(info.log_evidence_se, 0.01)
    assert any(one.power < 1 for one in info.rejuvenations) == (by == 6.0)
    if by == 6.0:
        assert abs(before.log_evidence - total) > 20


@pytest.mark.parametrize("place", [0, 2])
def test_a_likelihood_that_sees_all_of_the_latent_is_linearised_anew(place):
    """For linear data the linearisations are exact, so that the log evidence is that of the run in order."""
    data = linear_data()
    sampler = seqgp.OnlineSampler(linear_model(), particles=256, draws=200)
    wrong = [one._replace(y=one.y + 1) if i == 1 else one for i, one in enumerate(data) if i != place]
    state, _ = sampled(sampler, wrong)
    state, info = sampler.revise(jax.random.key(3), state, [data[place], data[1]])
    wanted, told = sampled(sampler, data)
    error = np.hypot(info.log_evidence_se, told.log_evidence_se)
    assert abs(info.log_evidence - told.log_evidence) < 5 * error
    assert len(state.linearised_snapshots) == len(data)
    assert all(one.correction is not None for one in state.linearised_snapshots)
    z = wanted.particles.z
    totals = [run_filters(one.live.history, z, len(data))[1].sum(axis=1) for one in (state, wanted)]
    assert np.abs(totals[0] - totals[1]).max() < 1e-6


def test_from_disk_or_memory_a_revision_is_the_same():
    data = snapshots(missing=0.2)
    sampler = seqgp.OnlineSampler(model(), particles=32, draws=50)
    state, _ = sampled(sampler, [*data[:3], *data[4:]])
    packed = state.packed().unpacked(lambda _: list(zip(state.snapshots, state.linearised_snapshots)))
    found = [sampler.revise(jax.random.key(1), one, [data[3]])[0] for one in (state, packed)]
    assert np.array_equal(found[0].latent, found[1].latent)
    again = found[0].packed().unpacked(lambda _: list(zip(found[0].snapshots, found[0].linearised_snapshots)))
    later = data[-1]._replace(t=data[-1].t + 1)
    after = [sampler.step(jax.random.key(2), one, later)[0] for one in (found[0], again)]
    assert np.array_equal(after[0].latent, after[1].latent)


def test_where_the_past_is_discounted_the_log_evidence_is_that_of_the_run_in_order():
    data = snapshots()
    sampler = seqgp.OnlineSampler(known(), particles=16, draws=50, forget=0.9)
    state, _ = sampled(sampler, [*data[:3], spoiled(data[3]), *data[5:]])
    state, _ = sampler.revise(jax.random.key(1), state, data[3:5])
    wanted, _ = sampled(sampler, data)
    assert state.log_evidence == pytest.approx(wanted.log_evidence, abs=1e-10)
    assert np.abs(state.particles.log_weights() - wanted.particles.log_weights()).max() < 1e-10


def test_beyond_a_bounded_history_late_data_are_refused_by_name():
    rng = np.random.default_rng(0)
    x = rng.random((3, 2))
    data = [seqgp.Snapshot(float(t), x, rng.normal(size=3)) for t in range(35)]
    sampler = seqgp.OnlineSampler(known(), particles=16, draws=50, history=10)
    state, _ = sampled(sampler, [one for one in data if one.t != 30])
    assert state.dropped
    anchor = state.snapshots[state.memory.anchor - state.dropped - 1].t
    for t in (2.0, anchor):
        with pytest.raises(seqgp.DataError, match=rf"t = {t} is beyond the bounded history \(history=10\)"):
            sampler.revise(jax.random.key(1), state, [data[int(t)], data[30]])
    revised, _ = sampler.revise(jax.random.key(1), state, [data[30], data[int(anchor) + 1]])
    wanted, _ = sampled(sampler, data)
    a, b = (revise._latent_moments(one.live, one, data[-1]) for one in (revised, wanted))
    assert np.abs(a.mean - b.mean).max() < 1e-6
    assert len(revised.snapshots) == len(state.snapshots) + 1


def test_wrong_input_is_named():
    data = snapshots()
    sampler = seqgp.OnlineSampler(known(), particles=16, draws=50)
    state, _ = sampled(sampler, data[:4])
    key = jax.random.key(0)
    for late, why in (
        (data[2], "revise: expected a list of snapshots, got Snapshot; give one in a list"),
        ([], "revise: no snapshot was given"),
        ([1.0], "revise: expected snapshots, got float"),
        ([data[2], data[2]], "revise: two snapshots have t ="),
        ([data[5]], "is after the last t = .*; step takes later snapshots"),
        ([data[2]._replace(x=data[2].x[:, :1])], "1 columns"),
    ):
        with pytest.raises(seqgp.DataError, match=why):
            sampler.revise(key, state, late)
    with pytest.raises(seqgp.SamplerError, match="revise: expected the state of an OnlineSampler, got int"):
        sampler.revise(key, 3, [data[2]])
    other = seqgp.OnlineSampler(known(), particles=32)
    with pytest.raises(seqgp.SamplerError, match="revise: the state has 16 particles"):
        other.revise(key, state, [data[2]])
