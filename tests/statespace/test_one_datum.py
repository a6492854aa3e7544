"""One datum under a wide prior, far from it, or in conflict with it: the update against SciPy's quadrature."""

import numpy as np
import pytest
from experiments import one_datum
from experiments.one_datum import CASES, WITHIN, Case
from scipy import stats

from seqgp import likelihoods

SUBSET = ("StudentT(1, df=1)", "Censored(0.1, limit=-0.5)", "Bernoulli(probit)", "Beta(20)", "Ordinal([-1, 0, 1.5])")

# Each was wrong in silence, or refused: (mean, sd) of the prior, and the datum.
FOUND = {
    "5 of 1000": (Case(likelihoods.Binomial(1000), one_datum.binomial(1000), float), [(0.0, 3.0, 5.0)]),
    "few of many": (CASES["Binomial(100000)"], [(0.0, 3.0, 50.0), (0.0, 3.0, 1000.0), (0.0, 30.0, 50.0)]),
    "a prior that is even about zero": (
        Case(likelihoods.Binomial(352865), one_datum.binomial(352865), float),
        [(0.0, 9.957791987424867 * (1 + part), 49470.0) for part in (0.0, 5e-10, -5e-10, 5e-9)],
    ),
    "large counts": (CASES["Poisson()"], [(10.0, 3.0, 1e7), (0.0, 3.0, 1000.0), (0.0, 3.0, 0.0)]),
    "precise amounts": (CASES["Gamma(1000)"], [(0.0, 3.0, 100.0), (0.0, 3.0, 1.0)]),
    "two modes": (CASES["StudentT(1, df=1)"], [(0.0, 1.5, 6.0), (0.0, 1.0, 5.0), (0.0, 3.0, 20.0)]),
}


def check(case, mean, sd, y):
    errors, fault = one_datum.errors_of(case, mean, sd, y)
    assert not fault.any()
    for what, most in WITHIN.items():
        np.testing.assert_array_less(errors[what], most, err_msg=f"{what}: sd {sd}, y {y}")


@pytest.mark.parametrize("name", SUBSET)
def test_wherever_the_datum_is(name):
    check(CASES[name], *one_datum.grid(CASES[name], (0.1, 1.0, 30.0), (-8.0, 0.0, 2.0, 8.0)))


@pytest.mark.parametrize("name", FOUND)
def test_what_was_wrong_or_refused(name):
    case, problems = FOUND[name]
    check(case, *np.array(problems).T)


def test_quadrature_itself():
    """Gaussian data in closed form; 5 of 1000 under N(0, 3²) by SciPy's adaptive rule."""
    mean, sd, log_evidence = one_datum.by_quadrature(lambda f: stats.norm.logpdf(2.0, f, 0.01), 0.5, 30.0)
    gain = 900 / (900 + 1e-4)
    assert (mean, sd) == pytest.approx((0.5 + gain * 1.5, 0.01 * np.sqrt(gain)), rel=1e-9)
    assert log_evidence == pytest.approx(stats.norm.logpdf(2.0, 0.5, np.sqrt(900 + 1e-4)), abs=1e-9)
    found = one_datum.by_quadrature(lambda f: one_datum.binomial(1000)(5.0, f), 0.0, 3.0)
    assert found == pytest.approx((-5.27, 0.44, -5.2), abs=0.05)


def test_the_page_has_every_likelihood():
    shown = {type(case.likelihood) for case in CASES.values()}
    assert set(likelihoods.catalogue.classes(likelihoods.Likelihood).values()) <= shown
