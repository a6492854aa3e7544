"""The lines of code in the README's tables of what is there are accepted as they stand."""

import re
from pathlib import Path

import pytest

import seqgp

README = (Path(__file__).parents[2] / "README.md").read_text()
TABLES = README[README.index("What is there, a line of code each") : README.index("has three choices")]
CALL = re.compile(r"`((?:mean=)?(?:[A-Z]\w+\(|prior\b|[\d.]+)[^`…]*)`")
LINES = [line for line in CALL.findall(TABLES) if line != "prior" and "snapshots" not in line]


def test_the_tables_are_found():
    assert len(LINES) > 25
    for name in ("Matern32", "Rotated", "Ordinal", "Linear", "OnlineSampler", "SequentialSampler"):
        assert any(name + "(" in line for line in LINES), name


@pytest.mark.parametrize("line", LINES)
def test_line(line):
    prior = seqgp.ScaledSigmoid(0.1, 1.0)
    model = seqgp.Model(
        kernel=seqgp.Separable(seqgp.Matern32(prior), seqgp.Matern32(prior)), likelihood=seqgp.Gaussian(prior)
    )
    names = {name: getattr(seqgp, name) for name in seqgp.__all__}
    names |= {"prior": prior, "model": model, "function": lambda f, context, noise: None}
    if line.startswith("mean="):
        names["Model"](kernel=model.kernel, likelihood=model.likelihood, mean=eval(line.removeprefix("mean="), names))
    else:
        assert eval(line, names) is not None
