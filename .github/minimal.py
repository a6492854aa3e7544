"""A run with the installed package and nothing but its own dependencies: no pandas, no plots."""

import sys

import jax
import numpy as np

import seqgp
from seqgp import kernels, likelihoods

seqgp.enable_x64()
model = seqgp.Model(
    kernel=seqgp.Separable(kernels.Matern32(1.0), kernels.Matern32(0.5), scale=seqgp.ScaledSigmoid(0, 2)),
    likelihood=likelihoods.Gaussian(noise=0.3),
)
x = np.linspace(0, 1, 4)[:, None]
rng = np.random.default_rng(0)
run = seqgp.run(model, [seqgp.Snapshot(float(t), x, rng.normal(size=4)) for t in range(3)], progress=False)
prediction = seqgp.predict(jax.random.key(0), model, run.state, x[:2], t=3.0)
assert np.isfinite(run.infos[-1].log_evidence)
assert np.isfinite(prediction.f).all()
assert "pandas" not in sys.modules
print(f"seqgp {seqgp.__version__}: {run.infos[-1].health}")
