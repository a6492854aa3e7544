"""The experiment on velocities and model choice, small: a strong delay is found, and none where there is none."""

import numpy as np
from experiments import transport


def test_a_delay_and_none_are_told_apart(tmp_path):
    cases = transport.main(["--cases", "1", "--out", str(tmp_path)])
    moving, still = cases
    np.testing.assert_allclose(np.linalg.norm(moving.slowness), transport.SLOW)
    assert moving.found
    assert still.found
    low, high = moving.interval
    assert (low < high).all()
    table = (tmp_path / "table.md").read_text()
    assert "95% interval of direction holds the truth" in table
    assert "the evidence names the model, data without" in table
