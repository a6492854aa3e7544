"""A slow, obviously right implementation of what seqgp computes, in plain NumPy and SciPy.

It shares no code with ``seqgp``. Models are plain dictionaries with numbers at their leaves:

    model = {
        "terms": [{"time": KERNEL, "space": KERNEL, "scale": 1.0}, …],
        "mean": {"intercept": COEFFICIENT, "features": [{"name": "elevation", "weight": COEFFICIENT}, …]},
        "likelihood": {"family": "Gaussian", "noise": 0.1},
        "slowness": [0.1, 0.0],  # optional: f at (t, x) is that of the terms at (t − slowness·x, x)
        # a term, and a Gaussian likelihood, may have "season": {"period": 7.0, "weights": [0.1, 0.3]}
    }
    KERNEL = {"kind": "Matern32", "lengthscale": 2.0}
    COEFFICIENT = a number, or ("normal", mean, sd) for a Gaussian prior that is integrated out

- ``kernels``, ``likelihoods``: covariances of points in time and space; densities and samples of one datum;
- ``dense``: Gaussian data, by the formulas of conditional normal distributions, in 80-bit arithmetic;
- ``quadrature``: one to three data of any likelihood, on a grid that is refined around the mass;
- ``particles``: a guided particle filter for short streams of a few stations;
- ``importance``: the posterior of unknown parameters and the evidence.
"""
