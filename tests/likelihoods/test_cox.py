"""Events as counts: every event in its cell, Poisson given the latent, an intensity with bands."""

import jax
import numpy as np
import pytest
from scipy import stats

import seqgp

COX = seqgp.likelihoods.LogGaussianCox(domain=[(0.0, 2.0), (-1.0, 2.0)], bins=(2, 3))


def test_each_event_is_counted_once_where_and_when_it_was():
    rng = np.random.default_rng(0)
    times, places = rng.uniform(0, 3, 200), rng.uniform([0, -1], [2, 2], (200, 2))
    edges = np.array([0.0, 0.5, 1.5, 3.0])
    snapshots = COX.snapshots(edges, times, places)
    theirs, _ = np.histogramdd(
        np.column_stack([times, places]), bins=[edges, np.linspace(0, 2, 3), np.linspace(-1, 2, 4)]
    )
    np.testing.assert_array_equal([s.y for s in snapshots], theirs.reshape(3, 6))
    assert [s.t for s in snapshots] == [0.25, 1.0, 2.25]
    np.testing.assert_allclose(snapshots[0].x[:4], [[0.5, -0.5], [0.5, 0.5], [0.5, 1.5], [1.5, -0.5]])
    np.testing.assert_allclose([s.context["exposure"] for s in snapshots], np.outer([0.5, 1.0, 1.5], np.ones(6)))


def test_intervals_are_half_open_and_the_ends_of_the_domain_belong_to_it():
    """A stream cut into intervals counts an event on an edge once."""
    places = np.array([[2.0, 2.0], [0.0, -1.0]])
    first = COX.snapshots([0.0, 1.0], [0.0], places[:1])
    second = COX.snapshots([1.0, 2.0], [1.0], places[1:])
    np.testing.assert_array_equal(first[0].y, [0, 0, 0, 0, 0, 1])
    np.testing.assert_array_equal(second[0].y, [1, 0, 0, 0, 0, 0])
    with pytest.raises(seqgp.DataError, match="1 of 1 events are not between 0 and 1 in time"):
        COX.snapshots([0.0, 1.0], [1.0], places[:1])


def test_events_in_time_alone():
    cox = seqgp.likelihoods.LogGaussianCox()
    snapshots = cox.snapshots([0.0, 50.0, 100.0], [3.0, 60.0, 70.0])
    assert [s.y.tolist() for s in snapshots] == [[1.0], [2.0]]
    assert snapshots[0].context["exposure"] == 50.0


def test_the_density_is_that_of_the_binned_process():
    f = np.linspace(-1, 1, 6)
    (data,) = COX.snapshots([0.0, 0.5], np.full(9, 0.2), np.random.default_rng(1).uniform([0, -1], [2, 2], (9, 2)))
    found = COX.log_prob(f, data.y, np.isnan(data.y), data.context, {})
    expected = stats.poisson(np.exp(f) * 1.0 * 0.5).logpmf(data.y).sum()
    np.testing.assert_allclose(found, expected, rtol=1e-10)


def test_the_intensity_is_recovered_whatever_the_cells():
    """A constant intensity of 40: both a coarse and a fine grid, have it in the band."""
    rng = np.random.default_rng(2)
    n = rng.poisson(40 * 2.0)
    times, places = rng.uniform(0, 2.0, n), rng.random((n, 1))
    means = []
    for bins in (1, 4):
        cox = seqgp.likelihoods.LogGaussianCox([(0.0, 1.0)], bins)
        model = seqgp.Model(
            seqgp.Separable(seqgp.kernels.Matern12(50.0), seqgp.kernels.SquaredExponential(5.0), 1.0),
            cox,
            mean=np.log(20.0),
        )
        run = seqgp.run(
            seqgp.OnlineSampler(model, particles=16, draws=400, paths=0),
            cox.snapshots([0.0, 0.5, 2.0], times, places),
            jax.random.key(0),
        )
        found = cox.intensity(run.state.latent)
        assert (found.low < 40).all()
        assert (found.high > 40).all()
        assert (found.high - found.low < 30).all()
        means.append(found.mean.mean())
        ahead = seqgp.predict(jax.random.key(0), model, run.state, cox.cells, t=3.0, context=cox.context(0.5))
        np.testing.assert_allclose(np.asarray(ahead.y).sum(1).mean(), 0.5 * means[-1], rtol=0.15)
    assert abs(means[0] - means[1]) < 3  # an area or a duration forgotten is a factor of four
    with pytest.raises(seqgp.DataError, match="exposure 'exposure' is missing from the context"):
        seqgp.predict(jax.random.key(0), model, run.state, cox.cells)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: seqgp.likelihoods.LogGaussianCox([(1.0, 0.0)]),
            r"domain \(1, 0\): the lower end is not below the upper",
        ),
        (
            lambda: seqgp.likelihoods.LogGaussianCox([("a", "b")]),
            r"domain = \[\('a', 'b'\)\]: expected .* a pair of numbers for each",
        ),
        (lambda: seqgp.likelihoods.LogGaussianCox(None), "domain = None: expected"),
        (lambda: seqgp.likelihoods.LogGaussianCox([(0, 1)], True), "bins = True: expected one positive whole number"),
        (lambda: seqgp.likelihoods.LogGaussianCox([(0, 1)], 0), "bins = 0: expected one positive whole number"),
        (lambda: seqgp.likelihoods.LogGaussianCox([(0, 1)], (2, 2)), "one for each of the 1 sides of the domain"),
        (lambda: COX.snapshots([0.0, 1.0], [0.5], [[5.0, 0.0]]), r"1 of 1 events are outside the domain \(0, 2\)"),
        (lambda: COX.snapshots([0.0, 1.0], [0.5], [0.5, 0.0]), r"places has shape \(2,\), expected \(1, 2\)"),
        (lambda: COX.snapshots([0.0, 1.0], [np.nan], [[0.5, 0.0]]), "not between 0 and 1 in time"),
        (lambda: COX.snapshots([0.0, 1.0], ["noon"], [[0.5, 0.0]]), "times is not an array of numbers"),
        (lambda: COX.snapshots([0, 1], np.array(["2020-01-01"], "M8[D]"), [[0.5, 0.0]]), "times is .* of dates; give"),
        (lambda: COX.snapshots([0.0, 1.0], [0.5]), "places is missing: give where the events were"),
        (lambda: COX.intensity(np.zeros((5, 2)), 95), "probability = 95 is not between 0 and 1"),
        (lambda: COX.intensity([[1.0], [1.0, 2.0]]), r"f \(a state's latent, .*\) is not an array of numbers"),
        (lambda: COX.snapshots([1.0, 1.0], [0.5], [[0.5, 0.0]]), "edges must be increasing"),
        (lambda: COX.context(0.0), "duration = 0.0 is not a positive number"),
    ],
)
def test_bad_input_is_named(make, message):
    with pytest.raises(seqgp.SeqgpError, match=message):
        make()
