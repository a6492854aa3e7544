"""The public API, every line that the README, the examples and outside checks rely on, on a tiny problem."""

import importlib
import inspect
import pkgutil

import jax
import numpy as np
import numpyro.distributions as dist
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
        seqgp.predict, seqgp.smooth, seqgp.simulate, seqgp.calibrate, seqgp.replicate, seqgp.FullSampler(tiny()).sample,
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
