"""Speed and direction from draws of a slowness, against trigonometry."""

import numpy as np
import pytest

import seqgp
from seqgp import kernels, likelihoods
from seqgp.evaluate.motion import motions

TERM = seqgp.Separable(kernels.Matern32(1.0), kernels.Matern12(1.0))


def model(columns=2):
    slowness = [seqgp.ScaledSigmoid(-1, 1)] * columns
    return seqgp.Model(seqgp.Delayed(TERM, slowness) + TERM, likelihoods.Gaussian(noise=0.1))


def towards(bearing, speed):
    """The slowness of a pattern with a bearing in degrees from north."""
    angle = np.radians(bearing)
    return np.stack([np.sin(angle), np.cos(angle)], axis=-1) / np.asarray(speed)[..., None]


def test_bearing_and_speed_in_the_units_of_the_table():
    """Days and km: 36 km/h is 864 km a day; angles wrap around north."""
    rng = np.random.default_rng(0)
    draws = {"0.slowness": towards(rng.normal(355.0, 10.0, 20_000), 864.0 * np.exp(rng.normal(0, 0.1, 20_000)))}
    data = {"inputs": ["x_km", "y_km"], "unit": "days", "origin": "2024-01-01"}
    (found,) = motions(model(), draws, data)
    assert found.speed == pytest.approx(36.0, rel=0.01)
    assert found.speed_interval == pytest.approx((36 * np.exp(-0.196), 36 * np.exp(0.196)), rel=0.02)
    assert found.bearing == pytest.approx(355.0, abs=0.5)
    assert found.bearing_interval == pytest.approx((355 - 19.6, 355 + 19.6), abs=1.0)
    assert str(found).startswith("0: moves towards 355° (95% 33")
    assert " km/h, 95% 29." in str(found)
    (plain,) = motions(model(), draws)
    assert plain.speed == pytest.approx(864.0, rel=0.01)
    assert plain.unit == "distance per unit of time"


def test_what_the_data_do_not_tell_is_said():
    draws = {"0.slowness": np.random.default_rng(0).normal(size=(2000, 2))}
    assert "a direction that the data do not tell" in str(motions(model(), draws)[0])


def test_one_column_and_three():
    rng = np.random.default_rng(0)
    (line,) = motions(model(1), {"0.slowness": np.full((100, 1), -0.5)})
    assert str(line) == (
        "0: moves towards smaller values of x (100% of the posterior), 2 distance per unit of time, 95% 2 to 2"
    )
    (space,) = motions(model(3), {"0.slowness": 0.1 * rng.normal(size=(100, 3))})
    assert space.bearing is None
    assert str(space).startswith("0: moves at ")


def test_a_known_slowness_is_no_finding():
    known = seqgp.Model(seqgp.Delayed(TERM, [0.1, 0.2]), likelihoods.Gaussian(noise=seqgp.ScaledSigmoid(0, 1)))
    assert motions(known, {"noise": np.ones(10)}) == ()
