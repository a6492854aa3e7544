"""Figures for notebooks: of a run in memory or a store, for one, two and three inputs."""

from typing import Any

import numpy as np
import pytest

import seqgp
from runs import model
from seqgp import plots
from seqgp.base.info import ChainInfo
from seqgp.fields.sites import Window
from seqgp.io.summary import Summary
from seqgp.plots.checks import Check
from seqgp.plots.history import History, HistoryStep


def info(step):
    nothing = {"noise": 1.01}
    return ChainInfo(step * 0.1, step, 1.0, 0.0, 0, {}, (), {}, nothing, {"noise": 90.0}, {}, 2, -1.0)


def history(dimension, steps=5, n=12, labels=None, origin=None):
    rng = np.random.default_rng(0)
    moments = []
    for step in range(1, steps + 1):
        x = rng.random((n, dimension))
        parameters = {"noise": np.sort(rng.random(7)), "space.lengthscale": rng.random((7, dimension))}
        summary = Summary(np.sort(rng.random((7, n)), axis=0), parameters)
        moments.append(HistoryStep(0.1 * step, x, rng.random(n), labels, summary, info(step)))
    return History(moments, "made up", [f"x{d}" for d in range(dimension)], "y", "t", origin, "days")


def traces(figure) -> list[Any]:
    """What a figure or a frame draws; Plotly's stubs do not say of what kind."""
    return list(figure.data)


CHECKS = [Check(0.1 * i, np.linspace(0.05, 0.95, 10), 0.5, 0.9, 0.2, -1.0) for i in range(2, 6)]


@pytest.mark.parametrize("dimension, kind", [(1, "scatter"), (2, "scatter"), (3, "scatter")])
def test_field_and_evolution(dimension, kind):
    past = history(dimension)
    assert traces(plots.field(past))[0].type == kind
    moving = plots.evolution(past)
    assert len(moving.frames) == len(moving.layout.sliders[0].steps) == 5
    assert len(plots.evolution(past, frames=3).frames) == 3
    np.testing.assert_allclose(traces(moving.frames[0])[-1].y[:3], _last(past, dimension)[:3], rtol=1e-6)


def _last(past, dimension):
    moment = past.steps[0]
    if dimension == 2:
        return moment.x[:, 1]
    return moment.y[np.argsort(moment.x[:, 0])] if dimension == 1 else moment.y


def test_dots_are_data_and_nothing_else():
    past = history(1, n=4, labels=["a", "b", "c", "d"])  # below twenty points Plotly marks them, unless told not to
    for made in (plots.field(past), plots.evolution(past).frames[0], plots.station(past, "b")):
        bands = [trace for trace in traces(made) if trace.fill == "toself"]
        assert [trace.mode for trace in bands] == ["lines", "lines"]


@pytest.mark.parametrize("dimension", [1, 2, 3])
def test_data_are_drawn_beside_a_latent_of_their_unit_only(dimension):
    past = history(dimension, labels=[f"S{i}" for i in range(12)])
    counts = past._replace(beside=False, steps=[m._replace(y=1e3 * m.y) for m in past.steps])  # of a log rate
    for make in (plots.field, lambda source: plots.station(source, "S3")):
        with_data, without = make(past), make(counts)
        assert len(with_data.data) - len(without.data) == (0 if make is plots.field and dimension == 2 else 1)
        assert "latent of y" in without.to_json()
        assert "latent of y" not in with_data.to_json()
    if dimension == 1:
        assert plots.field(counts).layout.yaxis.range[1] < 2


def test_parameters_over_time():
    past = history(2)
    assert list(past.parameters()) == ["noise", "space.lengthscale[0]", "space.lengthscale[1]"]
    middle = traces(plots.parameter(past, "noise"))[-1]
    np.testing.assert_allclose(middle.y, [m.summary.parameters["noise"][4] for m in past.steps])
    assert len(plots.parameters(past).data) == 9
    with pytest.raises(KeyError, match="no parameter 'nose'"):
        plots.parameter(past, "nose")


def test_checks_and_diagnostics():
    past = history(1)
    assert traces(plots.calibration(CHECKS))[0].y == pytest.approx(np.ones(10), abs=1e-12)
    assert traces(plots.coverage(past, CHECKS))[1].y == (0.9,) * 4
    assert traces(plots.scores(past, CHECKS))[0].y == (0.2,) * 4
    assert traces(plots.diagnostics(past))[0].y == (90.0,) * 5


def test_what_is_expected_of_the_pit_lies_below_its_bars():
    band = plots.calibration(CHECKS).layout.shapes[0]
    assert (band.type, band.layer) == ("rect", "below")
    assert band.y0 < 1 < band.y1


@pytest.mark.parametrize("x", [np.linspace(2.0, 5.0, 12), np.full(12, 3.0)])
def test_the_first_and_the_last_dot_of_a_line_are_whole(x):
    """The axis goes beyond them; also where there is but one place."""
    past = history(1, steps=1)
    drawn = plots.field(past._replace(steps=[past.steps[0]._replace(x=x[:, None])]))
    low, high = drawn.layout.xaxis.range
    assert low < x.min() <= x.max() < high


@pytest.mark.parametrize("made", [lambda past: plots.parameter(past, "noise"), plots.field, plots.diagnostics])
def test_small_numbers_are_powers_of_ten(made):
    layout = made(history(2)).layout
    assert (layout.xaxis.exponentformat, layout.yaxis.exponentformat) == ("power", "power")


def test_names_are_escaped_and_dates_are_dates():
    past = history(2, labels=["<b>A</b>"] * 12, origin="2024-02-28T00:00:00")
    assert "&lt;b&gt;A" in traces(plots.field(past))[-1].text[0]
    assert str(traces(plots.parameter(past, "noise"))[-1].x[0]).startswith("2024-02-28T02:24")


def test_a_run_in_memory():
    rng = np.random.default_rng(1)
    window = Window(np.zeros(1), np.zeros((1, 3, 2)), np.ones((1, 3), bool), rng.random((9, 1, 3)))
    state = seqgp.SequentialState(
        0.0, 1, rng.random((9, 3)), {"noise": rng.random(9)}, rng.random((9, 1)), window, None, ""
    )
    snapshot = seqgp.Snapshot(0.0, rng.random((3, 2)), rng.random(3))
    run = seqgp.Run(state, [info(1)], snapshot, model())
    assert [trace.type for trace in traces(plots.field(history(2)))] == ["scatter"]  # no draws: the locations alone
    assert traces(plots.parameter(run, "noise"))[0].error_y.array is not None
