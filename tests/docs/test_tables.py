"""The lines of code in the tables of kernels, likelihoods, means and samplers are accepted as they stand."""

import re
from pathlib import Path

import jax.numpy as jnp
import pytest

import seqgp

PAGE = (Path(__file__).parents[2] / "docs" / "models.md").read_text()
ROWS = PAGE[: PAGE.index("has two independent choices")].splitlines()
TABLES = "\n".join(  # the code of a row is its first cell, or what follows the name of a kind
    row.split("` | ")[0] + "`" if row.startswith("| `") else row for row in ROWS if row.startswith("|")
)
CALL = re.compile(r"`((?:mean=)?(?:(?:kernels|likelihoods|means)\.\w+\(|[A-Z]\w+\(|prior\b)[^`…]*)`")
LINES = [line for line in CALL.findall(TABLES) if line != "prior" and "snapshots" not in line]


def test_the_tables_are_found():
    assert len(LINES) > 25
    for name in ("Matern32", "Rotated", "Ordinal", "Linear", "OnlineSampler", "SequentialSampler"):
        assert any(name + "(" in line for line in LINES), name


@pytest.mark.parametrize("line", LINES)
def test_line(line):
    prior = seqgp.ScaledSigmoid(0.1, 1.0)
    model = seqgp.Model(
        kernel=seqgp.Separable(seqgp.kernels.Matern32(prior), seqgp.kernels.Matern32(prior)),
        likelihood=seqgp.likelihoods.Gaussian(prior),
    )
    names = {name: getattr(seqgp, name) for name in seqgp.__all__}
    names |= {"jnp": jnp, "prior": prior, "model": model, "function": lambda f, context, noise: None}
    if line.startswith("mean="):
        names["Model"](kernel=model.kernel, likelihood=model.likelihood, mean=eval(line.removeprefix("mean="), names))
    else:
        assert eval(line, names) is not None
