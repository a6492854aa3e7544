"""Local volatility from option quotes."""
