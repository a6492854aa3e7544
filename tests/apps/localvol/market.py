"""A small made-up market and a small fit of it, made once for all tests of a process."""

import functools

from seqgp.apps.localvol import LocalVolatility, LocalVolFit, Quotes, simulated_quotes


@functools.cache
def quotes():
    """Two days, three expirations, nine strikes."""
    return Quotes.from_frame(simulated_quotes(2, 9, (60, 150, 330)))


def small_model(**options):
    settings = {"shape": (3, 6), "grid": (41, 24)} | options
    return LocalVolatility.for_quotes(quotes(), **settings)


@functools.cache
def fitted():
    """Both days, 80 draws each."""
    fit = LocalVolFit(small_model(), draws=80, particles=32)
    for date in quotes().dates:
        fit.update(quotes().day(date))
    return fit
