"""Transforms of data against SciPy's Box-Cox and numerical derivatives."""

import numpy as np
import pytest
import scipy.special

from seqgp.base.transforms import Transform, transform_from, transform_of

ALL = ["log", "sqrt", {"log_offset": 1}, {"log_offset": 0.3}, {"boxcox": 0.0}, {"boxcox": 0.3}, {"boxcox": 2.0}]
Y = np.array([1e-3, 0.2, 1.0, 7.5, 321.0, np.nan])


@pytest.mark.parametrize("words", ALL, ids=str)
def test_forward_inverse_and_jacobian(words):
    """The inverse undoes the transform, and the Jacobian is its derivative by central differences."""
    transform = transform_from(words)
    np.testing.assert_allclose(transform.inverse(transform.forward(Y)), Y, rtol=1e-10)
    step = 1e-5 * Y
    slope = (transform.forward(Y + step) - transform.forward(Y - step)) / (2 * step)
    np.testing.assert_allclose(transform.log_jacobian(Y), np.log(slope), atol=1e-8)


def test_formulas():
    """Against NumPy and SciPy."""
    np.testing.assert_allclose(transform_from({"log_offset": 2}).forward(Y), np.log(Y + 2))
    np.testing.assert_allclose(transform_from("sqrt").forward(Y), np.sqrt(Y))
    for exponent in (0.0, 0.3, 2.0):
        transform = transform_from({"boxcox": exponent})
        np.testing.assert_allclose(transform.forward(Y), scipy.special.boxcox(Y, exponent), rtol=1e-12)


@pytest.mark.parametrize("words", ["sqrt", {"boxcox": 0.3}, {"boxcox": 0.7}], ids=str)
def test_the_end_of_a_power(words):
    """Zero comes back as exactly zero and has no density; what lies below its transform is zero too."""
    transform = transform_from(words)
    w = transform.forward(np.zeros(1))
    assert transform.inverse(w) == 0
    assert transform.inverse(w - 1.0) == 0
    assert transform.restored(w) == 0
    assert np.isnan(transform.log_jacobian(np.zeros(1))).all()
    assert not transform.outside(np.zeros(1)).any()
    assert transform.outside(-np.ones(1)).all()


def test_data_come_back_as_they_were_written():
    """Decimals of up to 13 digits survive both ways, bit for bit."""
    y = np.array([12.3, 0.1, 1e-7, 123456.789, 3.0, 0.7, 99.99])
    for words in ALL[:3]:
        transform = transform_from(words)
        assert (transform.restored(transform.forward(y))[[0, 1, 3, 4, 5, 6]] == y[[0, 1, 3, 4, 5, 6]]).all()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("ln", "'ln' is no transform"),
        ({"log_offset": 0}, "log_offset = 0 is not positive"),
        ({"boxcox": -0.5}, "boxcox = -0.5 is negative"),
        ({"boxcox": {"low": 0, "high": 1}}, "an exponent with a prior is not inferred"),
        ({"boxcox": True}, "not a finite number"),
        ({"boxcox": 0.5, "log_offset": 1}, "is no transform"),
        (3, "3 is no transform"),
    ],
    ids=str,
)
def test_what_is_refused(words, said):
    """Each by name."""
    with pytest.raises(ValueError, match=said):
        transform_from(words)
    assert transform_of({"transform": words}) is None


def test_words():
    """The formula with the name of the data."""
    assert Transform("log_offset", 1.0).of("pm10") == "log(pm10 + 1)"
    assert Transform("boxcox", 0.5).of("yield") == "boxcox(yield, 0.5)"
