"""Bayesian inference for latent Gaussian processes that keeps up with your data.

The public names are declared in ``__init__.pyi``; each is imported when it is first used, so that ``import seqgp`` and
``seqgp --help`` cost next to nothing.
"""

import lazy_loader

import seqgp.base.errors as _errors
import seqgp.runtime.quiet as _quiet

_public, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
__version__ = "0.3.0"

_MOVED = {  # names of version 0.2, and where they are now
    **{name: f"kernels.{name}" for name in (
        "Constant", "Coregionalised", "Covariance", "GreatCircle", "Matern12", "Matern32", "Matern52", "Periodic",
        "RationalQuadratic", "Rotated", "SeparableSum", "SquaredExponential", "WhiteNoise",
    )},
    "LinearKernel": "kernels.DotProduct",
    "Product": "kernels.PerColumn",
    **{name: f"likelihoods.{name}" for name in (
        "Bernoulli", "Beta", "Binomial", "Censored", "Gamma", "Gaussian", "Intensity", "Likelihood", "LogGaussianCox",
        "LogNormal", "NegativeBinomial", "Ordinal", "Poisson", "StudentT",
    )},
    **{name: f"means.{name}" for name in ("Feature", "Linear", "harmonics")},
    "Calibration": "evaluate.calibrate.Calibration",
    "Comparison": "evaluate.compare.Comparison",
    "FleetResult": "fleets.run.FleetResult",
    "MissingExtra": "base.errors.MissingExtra",
    "FullState": "samplers.full.stacked.FullState",
    "Outcome": "fleets.outcome.Outcome",
    "Prediction": "evaluate.predict.Prediction",
    "Replicates": "evaluate.replicate.Replicates",
    "Smoothed": "samplers.online.smooth.Smoothed",
    "Sweeps": "mcmc.plain.Sweeps",
    "TableError": "io.errors.TableError",
    "inverse_softplus": "means.inverse_softplus",
    "drift_alarm": "evaluate.prequential.drift_alarm",
    "prequential": "evaluate.prequential.prequential",
}  # fmt: skip


def __getattr__(name: str) -> object:
    if name in _MOVED:
        raise AttributeError(f"seqgp.{name} is now seqgp.{_MOVED[name]}")
    if name not in __all__ and not name.startswith("_"):
        raise AttributeError(
            f"module 'seqgp' has no attribute {name!r}{_errors.did_you_mean(name, [*__all__, *_MOVED])}"
        )
    return _public(name)
