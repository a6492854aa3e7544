"""The public API, every line that the README, the examples and outside checks rely on, on a tiny problem."""

import importlib
import inspect
import pkgutil

import jax
import numpy as np
import numpyro.distributions as dist
import pandas as pd
import pytest

import seqgp
from seqgp import kernels, likelihoods, means
from seqgp.base.errors import MissingExtra

KEY = jax.random.key(0)


def tiny():
    prior = dist.LogNormal(0.0, 0.5)
    weight = dist.Normal(0.0, 1.0)
    return seqgp.Model(
        kernel=seqgp.Separable(
            time=kernels.Matern32(lengthscale=prior), space=kernels.Matern32(lengthscale=prior), scale=prior
        ),
        mean=means.Linear(features=["elevation"], weights=weight, intercept=weight),
        likelihood=likelihoods.Gaussian(noise=prior),
    )


def data():
    rng = np.random.default_rng(0)
    x = rng.random((4, 2))
    return [seqgp.Snapshot(float(t), x, rng.normal(size=4), {"elevation": x[:, 0]}) for t in range(3)]


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return seqgp.run(tiny(), data(), store=tmp_path_factory.mktemp("runs") / "stations")


def test_a_run_says_which_sampler_it_took_and_has_draws_and_evidence(run):
    assert run.why.startswith("the online sampler")
    assert run.state.latent.shape == (1000, 4)
    assert run.state.parameters["time.lengthscale"].shape == (1000,)
    info = run.infos[-1]
    assert 0 < info.ess <= 256
    assert np.isfinite(info.log_evidence)
    assert isinstance(info.warnings, tuple)
    assert run.state.particles.log_evidence() == pytest.approx(info.log_evidence)


def test_predictions_have_draws_and_scores(run):
    x_new, context = np.array([[0.2, 0.3], [0.8, 0.1]]), {"elevation": np.array([0.2, 0.8])}
    prediction = seqgp.predict(KEY, run.model, run.state, x_new, t=2.5, context=context)
    assert prediction.f.shape == prediction.y.shape == (1000, 2)
    y = np.array([0.1, -0.2])
    assert np.isfinite([prediction.log_score(y), prediction.crps(y), prediction.coverage(y)]).all()


def test_the_past_is_smoothed_at_the_data_or_anywhere(run):
    sampler = seqgp.OnlineSampler(run.model)
    assert seqgp.smooth(KEY, sampler, run.state, [0.0, 1.0], draws=5).latent[1].shape == (5, 4)
    anywhere = seqgp.smooth(
        KEY, sampler, run.state, [0.0, 0.5], x=[[0.2, 0.3]], draws=5, context={"elevation": np.array([0.2])}
    )
    assert [latent.shape for latent in anywhere.latent] == [(5, 1), (5, 1)]


def test_runs_are_compared(run):
    found = seqgp.compare({"a": run, "b": run})
    assert "log evidence" in str(found).lower()


def test_the_online_sampler_goes_step_by_step():
    sampler = seqgp.OnlineSampler(tiny(), particles=256, draws=1000, history=None, forget=1.0)
    snapshots = data()
    state, info = sampler.init(KEY, snapshots[0])
    state, info = sampler.step(KEY, state, snapshots[1])
    assert state.step == info.step == 2


def test_samplers_of_chains_are_called_alike():
    """They share their defaults; a plain mean keeps the compilation small."""
    first, second = (
        inspect.signature(one).parameters for one in (seqgp.FullSampler.__init__, seqgp.SequentialSampler.__init__)
    )
    for name in first.keys() & second.keys() - {"self", "model"}:
        assert first[name].default == second[name].default, name
        assert first[name].annotation == second[name].annotation, name
    assert isinstance(seqgp.SequentialSampler(tiny(), draws=1000, tau=1), seqgp.SequentialSampler)
    assert isinstance(seqgp.FullSampler(tiny()), seqgp.FullSampler)


def test_a_run_is_exported_with_its_evidence_and_ess(run):
    tree = run.to_datatree()
    names = {str(name) for node in tree.subtree for name in node.data_vars}
    assert {"log_evidence", "log_evidence_se", "ess"} <= names
    found = {str(name): node[name] for node in tree.subtree for name in node.data_vars}
    np.testing.assert_allclose(found["log_evidence"].to_numpy(), [info.log_evidence for info in run.infos])
    np.testing.assert_allclose(found["ess"].to_numpy(), [info.ess for info in run.infos])


def test_the_key_comes_first_in_everything_random():
    functions = [
        seqgp.predict, seqgp.smooth, seqgp.simulate, seqgp.calibrate, seqgp.replicate, seqgp.steps,
        seqgp.FullSampler(tiny()).sample,
        *(method for of in (seqgp.OnlineSampler, seqgp.SequentialSampler)
          for method in (of(tiny()).init, of(tiny()).step)),
    ]  # fmt: skip
    for function in functions:
        first = next(iter(inspect.signature(function).parameters.values()))
        assert (first.name, first.default) == ("key", inspect.Parameter.empty), function


def test_the_top_level_has_few_names_and_says_where_others_are():
    assert len(seqgp.__all__) <= 51
    for name in ("Kernel", "Latent", "Updates", "Sampler"):
        assert inspect.isclass(getattr(seqgp, name))
    for name, home in seqgp._MOVED.items():
        with pytest.raises(AttributeError, match=f"seqgp.{name} is now seqgp.{home}"):
            getattr(seqgp, name)
        module, _, what = f"seqgp.{home}".rpartition(".")
        assert hasattr(importlib.import_module(module), what), home


def test_a_slip_is_answered_with_the_nearest_name():
    for of, slip, meant in (
        (seqgp, "OnlineSampeler", "OnlineSampler"),
        (seqgp, "Matern42", "Matern52"),  # moved: asking for that one says where it is
        (kernels, "Matern42", "Matern52"),
        (likelihoods, "Poison", "Poisson"),
    ):
        with pytest.raises(AttributeError, match=f"no attribute '{slip}'; did you mean '{meant}'"):
            getattr(of, slip)
    with pytest.raises(AttributeError, match=r"no attribute 'xyzzy'$"):
        seqgp.xyzzy


def test_first_mistakes_are_answered_with_what_to_write():
    space = kernels.Matern32(dist.LogNormal(0.0, 0.5))
    with pytest.raises(seqgp.ModelError, match=r"prior between two bounds is seqgp.ScaledSigmoid\(0.0, 3.0\)"):
        kernels.Matern32(lengthscale=(0, 3))
    with pytest.raises(seqgp.ModelError, match=r"got Matern32; at a single place, space=seqgp.kernels.Constant\(\)"):
        seqgp.Model(space, likelihoods.Gaussian(1.0))
    table = pd.DataFrame({"t": [0.0], "east": [0.0], "north": [0.0], "y": [1.0]})
    with pytest.raises(seqgp.DataError, match=r"got a DataFrame; make one of the rows of each time: \[seqgp.Snapshot"):
        seqgp.run(tiny(), table)
    with pytest.raises(seqgp.DataError, match=r"run: no snapshot was given$"):
        seqgp.run(tiny(), [])


def test_results_are_shown_in_a_line(run):
    """What a notebook prints of them; their arrays would fill the screen."""
    x, context = np.zeros((2, 2)), {"elevation": np.zeros(2)}
    prediction = seqgp.predict(KEY, run.model, run.state, x, t=2.5, context=context)
    assert repr(prediction) == "Prediction(t=2.5: 1000 draws of f and y at 2 inputs)"
    assert repr(run.state).startswith("OnlineState(t=2, step=3: 1000 draws of f at 4 inputs and of time.lengthscale, ")
    assert repr(run).startswith(f"Run(t=2, step=3, store={str(run.store.path)!r}: ESS ")
    past = seqgp.smooth(KEY, seqgp.OnlineSampler(run.model), run.state, [0.0, 1.0], draws=5)
    assert repr(past) == "Smoothed(times=(0, 1): 5 draws of f at each)"


def test_a_constant_is_given_its_standard_deviation():
    kernel = kernels.Constant(scale=3.0)
    x = np.zeros((1, 1))
    assert float(kernel.covariance(kernel.prepare(x, x), {"scale": 3.0})[0, 0]) == 9.0
    with pytest.raises(seqgp.ModelError, match=r"standard deviation, Constant\(scale=…\)"):
        kernels.Constant(2.0)
    with pytest.raises(seqgp.ModelError, match=r"Constant\(variance=2.0\): give its standard deviation"):
        kernels.Constant(variance=2.0)


def test_every_error_is_a_seqgp_error():
    """Of all modules; what begins with an underscore never leaves its file."""
    found = set()
    for module in pkgutil.walk_packages(seqgp.__path__, "seqgp."):
        if module.name.endswith("__main__"):
            continue
        try:
            here = importlib.import_module(module.name)
        except MissingExtra:  # an adapter of a library that is not installed
            assert module.name.startswith("seqgp.adapters."), module.name
            continue
        for name, value in vars(here).items():
            own = inspect.isclass(value) and value.__module__ == module.name
            if own and issubclass(value, Exception) and not name.startswith("_"):
                found.add(value)
    assert len(found) >= 10
    assert {one.__name__ for one in found if not issubclass(one, seqgp.SeqgpError)} == set()
