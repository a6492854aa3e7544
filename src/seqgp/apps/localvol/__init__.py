"""Local volatility from option quotes: a fast pricer, implied volatility, and tables of quotes."""

from seqgp.apps.localvol.grid import Grid, GridSize
from seqgp.apps.localvol.implied import black_price, black_vega, implied_volatility
from seqgp.apps.localvol.quotes import Quotes
from seqgp.apps.localvol.solver import Plan, call_prices, knot_prices, plan_quotes, quote_prices
from seqgp.apps.localvol.surface import Surface
from seqgp.apps.localvol.tables import DAX_COLUMNS, QuotesError

__all__ = [
    "DAX_COLUMNS",
    "Grid",
    "GridSize",
    "Plan",
    "Quotes",
    "QuotesError",
    "Surface",
    "black_price",
    "black_vega",
    "call_prices",
    "implied_volatility",
    "knot_prices",
    "plan_quotes",
    "quote_prices",
]
