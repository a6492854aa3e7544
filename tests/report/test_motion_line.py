"""The report and ``seqgp summary`` say how patterns move."""

import jax
import numpy as np

import seqgp
from seqgp import kernels, likelihoods
from seqgp.cli.reading import _motions
from seqgp.report import report


def test_a_run_with_a_delay_says_how_its_patterns_move(tmp_path):
    term = seqgp.Separable(kernels.Matern32(1.0), kernels.Matern12(1.0))
    model = seqgp.Model(seqgp.Delayed(term, [seqgp.ScaledSigmoid(0.1, 0.2), 0.0]), likelihoods.Gaussian(noise=0.1))
    x = np.array([[0.0, 0.0], [1.0, 0.5]])
    data = [seqgp.Snapshot(float(t), x, np.array([0.1, t])) for t in range(3)]
    run = seqgp.run(
        seqgp.OnlineSampler(model, particles=16, draws=40), data, key=jax.random.key(0), store=tmp_path / "run"
    )
    summary = run.summary()
    (motion,) = summary.motions
    assert motion.bearing == 90.0  # the slowness is along the first column alone
    assert 5.0 <= motion.speed <= 10.0
    assert str(motion) in str(summary)
    assert "slowness[0]" in str(summary)
    assert _motions(run.store) == [str(motion)]
    assert f"The pattern {motion}." in report(run, tmp_path / "page.html").read_text()
