"""The posterior on a grid is what ``predict`` draws there."""

from types import SimpleNamespace

import jax
import numpy as np

import seqgp
from runs import key, model, sampler, snapshots
from seqgp.io.lattice import surface_of, surfaces_of, unknown_between


def test_it_is_the_posterior_at_these_points():
    """Mean and sd of 100 draws on the grid against 400 at the same points: six standard errors."""
    state = seqgp.run(sampler(draws=400), snapshots(2), key()).state
    surface = surface_of(model(), state, [(0.0, 1.0), (0.2, 0.8)], 5)
    a, b = np.meshgrid(*surface.axes, indexing="xy")
    exact = np.asarray(seqgp.predict(jax.random.key(1), model(), state, np.stack([a, b], -1).reshape(-1, 2)).f)
    mean, sd = exact.mean(axis=0).reshape(5, 5), exact.std(axis=0).reshape(5, 5)
    assert surface.mean.shape == (5, 5)
    assert np.all(np.abs(surface.mean - mean) < 6 * sd / 10)
    assert np.all(np.abs(np.log(surface.sd / sd)) < 0.5)


def test_there_is_none_where_the_model_says_nothing_between_the_locations():
    """Half an output is none, and nobody knows covariates between stations; functions of place are known anywhere."""
    x = np.array([[0.0, 0.1], [1.0, 0.9]])
    between = seqgp.Separable(
        seqgp.kernels.Matern12(1.0), seqgp.kernels.Coregionalised(2, kernel=seqgp.kernels.Matern12(1.0))
    )
    outputs = seqgp.Model(between, seqgp.likelihoods.Gaussian(0.1))
    assert unknown_between(outputs, x) == "its kernel takes no inputs between theirs"
    assert unknown_between(outputs, x[:1]) == ""
    run = SimpleNamespace(store=None, model=outputs, snapshot=seqgp.Snapshot(0.0, x, [1.0, 2.0]), state=None)
    assert surfaces_of(run, [0], 5) == {}

    def with_features(*features):
        return seqgp.Model(model().kernel, seqgp.likelihoods.Gaussian(0.1), seqgp.means.Linear(features, weights=1.0))

    assert "covariates of its mean (height, wind) are known at" in unknown_between(with_features("height", "wind"), x)
    eastward = seqgp.means.Feature(lambda t, x: x[:, 0], name="eastward")
    assert unknown_between(with_features(eastward, seqgp.means.harmonics(1.0)), x) == ""


def test_maps_of_many_steps_are_those_of_each_step_alone(tmp_path):
    """Filters that go on from one step to the next give what filters from the start give."""
    online = seqgp.OnlineSampler(model(), particles=16)
    seqgp.run(online, snapshots(6), key(), store=tmp_path / "run")
    store = seqgp.Store(tmp_path / "run")
    together = surfaces_of(store, range(6), 4)
    assert list(together) == list(range(6))
    for i in (1, 3, 5):
        (alone,) = surfaces_of(store, [i], 4).values()
        np.testing.assert_allclose(together[i].mean, alone.mean, atol=1e-9)
        np.testing.assert_allclose(together[i].sd, alone.sd, atol=1e-9)
