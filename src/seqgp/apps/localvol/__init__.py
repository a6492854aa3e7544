"""Local volatility from option quotes, day after day, with its uncertainty."""

from seqgp.base.errors import extra

with extra("localvol"):
    import pandas as _  # noqa: F401

from seqgp.apps.localvol.export import from_json, to_json, to_quantlib
from seqgp.apps.localvol.fit import DayFit, LocalVolFit
from seqgp.apps.localvol.forwards import ForwardCurve
from seqgp.apps.localvol.greeks import greeks
from seqgp.apps.localvol.grid import GridSize, Mesh
from seqgp.apps.localvol.implied import black_price, black_vega, implied_volatility
from seqgp.apps.localvol.laplace import Laplace
from seqgp.apps.localvol.model import LocalVolatility
from seqgp.apps.localvol.montecarlo import MonteCarloPrice, asian, autocallable, barrier, digital, price_payoff, vanilla
from seqgp.apps.localvol.posterior import QuotedRegion, SurfaceDraws, SurfaceGrid
from seqgp.apps.localvol.quotes import Quotes
from seqgp.apps.localvol.risk_neutral import densities
from seqgp.apps.localvol.scores import QuoteDraws
from seqgp.apps.localvol.simulate import simulated_quotes
from seqgp.apps.localvol.solver import PricingPlan, call_prices, knot_prices, plan_quotes, quote_prices
from seqgp.apps.localvol.surface import Surface
from seqgp.apps.localvol.tables import DAX_COLUMNS, QuotesError

__all__ = [
    "DAX_COLUMNS",
    "DayFit",
    "ForwardCurve",
    "GridSize",
    "Laplace",
    "LocalVolFit",
    "LocalVolatility",
    "Mesh",
    "MonteCarloPrice",
    "PricingPlan",
    "QuoteDraws",
    "QuotedRegion",
    "Quotes",
    "QuotesError",
    "Surface",
    "SurfaceDraws",
    "SurfaceGrid",
    "asian",
    "autocallable",
    "barrier",
    "black_price",
    "black_vega",
    "call_prices",
    "densities",
    "digital",
    "from_json",
    "greeks",
    "implied_volatility",
    "knot_prices",
    "plan_quotes",
    "price_payoff",
    "quote_prices",
    "simulated_quotes",
    "to_json",
    "to_quantlib",
    "vanilla",
]
