"""A filter for one value of the parameters: exact for Gaussian noise, Laplace's method otherwise."""
