"""How a step's conditional prior is represented: dense, on a grid of shared inputs, on knots."""
