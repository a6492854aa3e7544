"""Delta and vega against Black's formula, where the surface is flat."""

from types import SimpleNamespace

import numpy as np
from scipy.stats import norm

from apps.localvol.market import quotes
from seqgp.apps.localvol import ForwardCurve, LocalVolatility, black_vega
from seqgp.apps.localvol.greeks import delta_draws, vega_draws

SIGMA = 0.2


def flat(stickiness=0.0):
    """A flat surface, which stays flat wherever it sticks."""
    day = quotes().day(quotes().dates[0])
    spot = ForwardCurve.from_table(day.forwards).spot
    model = LocalVolatility(
        [0.1, 0.5, 1.0], np.linspace(-0.5, 0.5, 7), stickiness=stickiness, reference=spot, grid=(101, 60)
    )
    latent = np.full((2, 21), np.log(np.expm1(SIGMA)))
    state = SimpleNamespace(latent=latent, z=np.zeros((2, len(model.model.names))))
    return day, model, state, spot


def test_delta_is_blacks():
    day, model, state, spot = flat()
    t = day.table
    root = SIGMA * np.sqrt(t["maturity"])
    upper = -t["log_moneyness"] / root + root / 2
    sign = np.where(t["option_type"] == "C", 1.0, -1.0)
    expected = t["discount"] * t["forward"] / spot * sign * norm.cdf(sign * upper)
    for row in delta_draws(model, state, day):
        np.testing.assert_allclose(row, expected, atol=2e-3)
    sticky = flat(0.7)
    np.testing.assert_allclose(delta_draws(sticky[1], sticky[2], day), delta_draws(model, state, day), atol=1e-8)


def test_vegas_of_all_maturities_add_up_to_blacks():
    day, model, state, _ = flat()
    t = day.table
    vega = vega_draws(model.plan(day), model.values(state.latent), model.log_moneyness, np.zeros(2))
    expected = black_vega(SIGMA, *(t[name].to_numpy() for name in ("maturity", "strike", "forward", "discount")))
    np.testing.assert_allclose(vega.sum(axis=1)[0], expected, rtol=0.01, atol=1e-3)
    late = vega[0, -1, (t["maturity"] < 0.3).to_numpy()]
    assert np.abs(late).max() < 1e-6 + 0.02 * np.abs(vega).max()  # what expires early sees no late volatility
