"""Every part of a model can be written as TOML; a key without effect, or one that is missing, is named."""

import pytest

import seqgp
from cli_tables import CONFIG
from kept import HEAD
from seqgp.io.configuration import ConfigurationError, read_configuration

SEPARABLE = 'time = { kernel = "Matern32", lengthscale = 2.0 }\nspace = { kernel = "Matern12", lengthscale = 1.0 }\n'
GAUSSIAN = "likelihood = { noise = 0.5 }\n"
ERRORS = 'likelihood = { noise = 0.5, errors = "se", combine = "squares", trend = 0.1, since = 5 }\n'
MEAN = 'mean = { features = ["elevation", { period = 365.25, order = 2 }], weights = [{ low = -1, high = 1 }, 0.3] }\n'
TIME, SPACE = seqgp.kernels.Matern32(2.0), seqgp.kernels.Matern12(1.0)

WRITTEN = {
    "sums and products": (
        "",
        'space = { kernel = "Rotated", angle = 0.3, of = { kernel = "Matern32", lengthscale = [1.0, 2.0] } }\n'
        'time.sum = [{ kernel = "Matern32" }, { product = [{ kernel = "Periodic", period = 24 }, '
        '{ kernel = "Matern52" }] }]\n' + GAUSSIAN,
        seqgp.Model(
            seqgp.Separable(
                seqgp.kernels.Matern32() + seqgp.kernels.Periodic(period=24) * seqgp.kernels.Matern52(),
                seqgp.kernels.Rotated(seqgp.kernels.Matern32([1.0, 2.0]), 0.3),
            ),
            seqgp.likelihoods.Gaussian(0.5),
        ),
    ),
    "terms": (
        "",
        GAUSSIAN + "[[model.terms]]\n" + SEPARABLE + "scale = 2.0\n[[model.terms]]\n"
        'time = { kernel = "Constant" }\nspace = { kernel = "WhiteNoise", scale = 0.5 }\n',
        seqgp.Model(
            seqgp.Separable(TIME, SPACE, 2.0)
            + seqgp.Separable(seqgp.kernels.Constant(), seqgp.kernels.WhiteNoise(0.5)),
            seqgp.likelihoods.Gaussian(0.5),
        ),
    ),
    "errors and a trend": (
        'covariates = { se = "error" }',
        SEPARABLE + ERRORS,
        seqgp.Model(seqgp.Separable(TIME, SPACE), seqgp.likelihoods.Gaussian(0.5, "se", "squares", 0.1, 5)),
    ),
    "a mean": (
        'covariates = { elevation = "height" }',
        SEPARABLE + GAUSSIAN + MEAN,
        seqgp.Model(
            seqgp.Separable(TIME, SPACE),
            seqgp.likelihoods.Gaussian(0.5),
            mean=seqgp.means.Linear(["elevation", seqgp.means.harmonics(365.25, 2)], [seqgp.ScaledSigmoid(-1, 1), 0.3]),
        ),
    ),
}


def written(tmp_path, data, model):
    path = tmp_path / "a.toml"
    path.write_text(HEAD.format(data=data, model=model))
    return path


HUGE = "9" * 400  # a whole number beyond double precision


@pytest.mark.parametrize("name", WRITTEN)
def test_a_model_as_toml_is_the_model(tmp_path, name):
    data, text, model = WRITTEN[name]
    assert read_configuration(written(tmp_path, data, text)).model.build().fingerprint() == model.fingerprint()


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("draws = 20", 'draws = "20"', "sampler.draws: expected a number"),
        ("seed = 3", "seed = true", "run.seed: expected a number"),
        ("draws = 20", 'draws = 20\nnodes = ["4", 4]', "sampler.nodes.0: expected a number"),
        ("[model]\n", "[model]\njitter = [true]\n", "model.jitter.*expected a number"),
        ('value = "y"', 'value = "x1"', "column 'x1' is value and inputs"),
        ("draws = 20", f"draws = 20\npaths = {HUGE}", r"sampler.paths: Input should be less than or equal to 10000"),
        ("seed = 3", f"seed = {'9' * 5000}", "not valid TOML: Exceeds the limit"),
        ("scale = { low = 0, high = 2 }", f"scale = {HUGE}", "model.scale: expected a number"),
        (
            "mean = { low = -1, high = 1 }",
            f"mean = {{ low = 0, high = {HUGE} }}",
            "model.mean.*high: expected a number",
        ),
        (
            'value = "y"',
            f'value = "y"\ntransform = {{ boxcox = {HUGE} }}',
            "data.transform: boxcox = 9.* is not a finite",
        ),
    ],
)
def test_what_is_written_in_another_way_is_a_slip(tmp_path, old, new, message):
    path = tmp_path / "my.toml"
    assert old in CONFIG
    path.write_text(CONFIG.replace(old, new))
    with pytest.raises(ConfigurationError, match=message):
        read_configuration(path)


@pytest.mark.parametrize(
    ("data", "model", "message"),
    [
        ("", SEPARABLE + ERRORS, "data.covariates.se is missing, and a Gaussian likelihood needs it"),
        ("", SEPARABLE + GAUSSIAN + MEAN, "data.covariates.elevation is missing, and the mean needs it"),
        ('covariates = { a = "b" }', SEPARABLE + GAUSSIAN, "covariates.a has no effect: a Gaussian"),
        ("", SEPARABLE + 'likelihood = { family = "Binomial" }', "data.covariates.trials is missing"),
        ("", SEPARABLE + "likelihood = { noise = 0.5, since = 3 }", "since has no effect without trend"),
        ("", SEPARABLE + 'likelihood = { family = "Gamma", noise = 1.0 }', "Gamma has no parameter .noise.; it has"),
        ("", SEPARABLE + 'likelihood = { family = "Beta" }', "likelihood Beta needs precision"),
        ("", SEPARABLE + "scale = 1.0\nterms = [{ " + SEPARABLE.replace("\n", ", ", 1).strip() + " }]\n" + GAUSSIAN,
         "model.time has no effect beside model.terms"),
        ("", GAUSSIAN, "model.time is missing"),
        ("", 'space = {}\ntime = { kernel = "Periodic" }\n' + GAUSSIAN, "Periodic needs period"),
        ("", 'space = {}\ntime = { kernel = "Periodic", period = -1 }\n' + GAUSSIAN, "period = -1.0 is not positive"),
        ("", 'space = {}\ntime = { kernel = "Matern12", period = 1 }\n' + GAUSSIAN, "has no parameter .period."),
        ("", "space = {}\ntime = { sum = [{}, {}], alpha = 1.0 }\n" + GAUSSIAN, "alpha has no effect beside sum"),
    ],
)  # fmt: skip
def test_mistakes_are_named(tmp_path, data, model, message):
    with pytest.raises(ConfigurationError, match=message):
        read_configuration(written(tmp_path, data, model))
