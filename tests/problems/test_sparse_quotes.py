"""Days with few quotes: what is scored was not learnt from, and the days before help."""

import pytest
from experiments import sparse_quotes

import seqgp
from seqgp.apps.localvol import Laplace, LocalVolatility, LocalVolFit, Quotes, simulated_quotes


@pytest.fixture(scope="module")
def quotes():
    return Quotes.from_frame(simulated_quotes(days=2, strikes=9, expirations=(60, 150, 330)))


def test_quotes_that_are_scored_are_not_learnt_from(quotes):
    day = quotes.day(quotes.dates[0])
    for train, test in (sparse_quotes.few_quotes(day, 0.25, 0), sparse_quotes.without_expiration(day)):
        assert len(train.table)
        assert len(test.table)
        assert not set(train.table.index) & set(test.table.index)
    learnt, scored = (set(part.table["expiration"]) for part in sparse_quotes.without_expiration(day))
    assert len(scored) == 1
    assert not learnt & scored


def test_the_days_before_tell_of_an_expiration_that_is_missing(quotes):
    """Simulated surfaces move little in a day, so the error falls."""
    seqgp.enable_x64()
    model = LocalVolatility.for_quotes(quotes, shape=(3, 5), grid=(33, 20))
    fit = LocalVolFit(model, sampler=Laplace(model.model, draws=64))
    fit.update(quotes.day(quotes.dates[0]))
    train, test = sparse_quotes.without_expiration(quotes.day(quotes.dates[1]))
    found = sparse_quotes.errors(model, fit.state, train, test, seed=0)
    assert found["sequence"] < found["scratch"]
    rows = [{"date": "day", **{f"{case}_{how}": v for case in sparse_quotes.CASES for how, v in found.items()}}]
    assert "mean" in sparse_quotes.table_of(rows)
    assert f"error {found['sequence'] / found['scratch']:.2f} of from scratch" in sparse_quotes.verdicts(rows)[0]
