"""Times in words."""

import jax
import pytest

import seqgp
from seqgp.cli.common import moment
from seqgp.io.naming import naming_of
from seqgp.io.timestamps import moment_text
from seqgp.plots.history import history_of


@pytest.mark.parametrize(
    "data",
    [
        {},
        {"origin": None},
        {"origin": 3},
        {"origin": "spring"},
        {"origin": "2024-01-01", "unit": "moons"},
    ],
)
def test_a_configuration_of_ones_own_says_nothing_of_dates(data):
    assert moment_text(2.0, data) == "t = 2"
    assert naming_of(data, 1).dates([2.0]) is None


@pytest.mark.parametrize("inputs", [None, "x", 3, ["x", "x"], ["x"], ["a", "b", "c"]])
def test_names_that_are_not_those_of_all_inputs_are_none(inputs):
    assert naming_of({"inputs": inputs, "value": 3, "time": ""}, 2)[:4] == (None, None, None, None)


def test_a_run_may_remember_anything(tmp_path):
    """``configuration`` is the user's; where it has other things than ours, commands and figures go without."""
    model = seqgp.Model(
        seqgp.Separable(seqgp.kernels.Matern12(1.0), seqgp.kernels.Matern12(1.0)), seqgp.likelihoods.Gaussian(0.5)
    )
    sampler = seqgp.OnlineSampler(model, particles=16, draws=8)
    data = [seqgp.Snapshot(t, [[0.0], [1.0]], [0.1 * t, 0.2]) for t in range(2)]
    told = {"data": "wind.csv", "run": ["a", "list"]}
    run = seqgp.run(sampler, data, key=jax.random.key(0), store=tmp_path / "r", configuration=told, progress=False)
    assert run.store.manifest.section("data") == {}
    assert moment(run.store, 1.0) == "t = 1"
    assert history_of(run).title == "r"
    late = data[0]._replace(t=0.5)
    with pytest.raises(seqgp.DataError, match=r"t = 0.5 .*t = 1\b"):
        seqgp.run(sampler, [late], store=tmp_path / "r", progress=False, late="refuse")


def test_a_time_has_its_date_where_a_calendar_has_it():
    data = {"origin": "2024-02-28", "unit": "days"}
    assert moment_text(2.0, data) == "2024-03-01 (t = 2)"
    assert moment_text(1e9, data) == "t = 1000000000"
