"""Model choice: the evidence that is drawn is that of the true model over the other's."""

import numpy as np
import pytest
from experiments import choice


def test_it_runs(tmp_path):
    (one,) = choice.main(["--quick", "--out", str(tmp_path)])
    assert one.truth == "Matern12"
    assert one.gained.shape == (3,)
    assert one.weight == pytest.approx(1 / (1 + np.exp(-one.gained[-1])))
    assert one.found == (one.gained[-1] > 0)
    assert "| Matern12 |" in (tmp_path / "tables.md").read_text()
    assert (tmp_path / "choice.png").stat().st_size > 0
