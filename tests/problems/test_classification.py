"""Labels over time: the refit is of the same model, and the scores are what they say."""

import jax
import numpy as np
import pytest
from experiments import classification
from numpyro.infer.util import log_density


def test_log_loss_is_least_at_the_truth():
    label = np.array([[1.0, 0.0], [1.0, 1.0]])
    assert classification.log_loss(np.array([[0.8, 0.1], [0.5, 0.9]]), label) == pytest.approx(
        -np.mean(np.log([0.8, 0.9, 0.5, 0.9]))
    )


def test_probabilities_between_stations_come_from_the_conditional():
    """At a station they are its own; far away they are those of the prior (2000 draws, five standard errors)."""
    points = np.array([[0.0, 0.0, 0.0], [1.0, 0.5, 0.5]])
    where = np.array([[0.0, 0.0, 0.0], [0.0, 50.0, 50.0]])
    keys = jax.random.split(jax.random.key(0), 2000)
    level = np.array([1.5, -0.5])
    draw = jax.vmap(classification.on_grid, in_axes=(0, *(None,) * 7))
    probability = np.asarray(draw(keys, points, where, 5.0, 0.5, 2.0, 0.3, level))
    assert probability[:, 0] == pytest.approx(1 / (1 + np.exp(-1.5)), abs=0.01)
    log_odds = np.log(probability[:, 1] / (1 - probability[:, 1]))
    assert log_odds.mean() == pytest.approx(0.3, abs=5 * 2.0 / np.sqrt(2000))
    assert log_odds.std() == pytest.approx(2.0, abs=5 * 2.0 / np.sqrt(4000))


def test_the_refit_is_of_the_same_model():
    """Its covariance is the kernel's, and labels that were not seen take no part in its density."""
    data = classification.simulated(0, 3, 2, 2)
    points = np.concatenate([classification.with_time(s.t, s.x) for s in data.snapshots])
    y = np.concatenate([s.y for s in data.snapshots])
    kernel = classification.model().kernel
    parameters = {"time.lengthscale": 5.0, "space.lengthscale": 0.5, "scale": 2.0}
    parameters = {name: np.asarray(value) for name, value in parameters.items()}
    ours = kernel.covariance(kernel.prepare(points[:, 0], points[:, 1:]), parameters)
    theirs = classification.covariance(points, points, 5.0, 0.5, 2.0)
    assert np.asarray(theirs) == pytest.approx(np.asarray(ours), abs=1e-10)
    at = {name: np.asarray(prior.mean) for name, prior in classification.PRIORS.items()}
    at |= {"white": np.linspace(-1, 1, len(points))}
    densities = [
        float(log_density(classification.refit_model, (points, labels, points[:, 0] <= 0), {}, at)[0])
        for labels in (y, np.where(points[:, 0] > 0, 1 - y, y))
    ]
    assert densities[0] == densities[1]


def test_it_runs():
    """Both methods after each of two times; who knows the probabilities makes no error."""
    data = classification.simulated(0, 4, 2, 2)
    _, ours, _ = classification.online(data, 16, 50, 0)
    theirs, _ = classification.refitted(data, 50, 50, 0)
    assert ours.shape == theirs.shape == (2, 50, 4)
    assert classification.row_of("", [data], [data.probability[:, None]], "")[2] == "0.0000"
    assert len(classification.figure(data, {"online": ours, "refit": theirs}).axes) == 5
