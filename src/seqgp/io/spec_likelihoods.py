"""Ready-made likelihoods in words."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Discriminator, Field, Tag, model_validator

from seqgp.io.spec_entries import Entry, Number, OwnPart, Strict, Whole, one_or_many, slot_of, words_of
from seqgp.models import families
from seqgp.models.cox import LogGaussianCox
from seqgp.models.gaussian import Gaussian
from seqgp.models.likelihoods import Likelihood

LikelihoodName = Literal[
    "Gaussian", "StudentT", "Poisson", "Bernoulli", "Binomial", "NegativeBinomial", "LogNormal", "Gamma", "Beta",
    "Ordinal", "Censored", "LogGaussianCox",
]  # fmt: skip
MADE: dict[str, Any] = {"Gaussian": Gaussian, "LogGaussianCox": LogGaussianCox}

TAKES: dict[str, tuple[str, ...]] = {
    "Gaussian": ("noise", "errors", "combine", "trend", "since"),
    "StudentT": ("noise", "df"),
    "Poisson": ("exposure",),
    "Bernoulli": ("link",),
    "Binomial": ("trials",),
    "NegativeBinomial": ("dispersion", "exposure"),
    "LogNormal": ("noise",),
    "Gamma": ("shape",),
    "Beta": ("precision",),
    "Ordinal": ("cutpoints",),
    "Censored": ("noise", "limit"),
    "LogGaussianCox": ("domain", "bins"),
}
NEEDS: dict[str, tuple[str, ...]] = {
    "Gaussian": ("noise",),
    "StudentT": ("noise",),
    "NegativeBinomial": ("dispersion",),
    "LogNormal": ("noise",),
    "Gamma": ("shape",),
    "Beta": ("precision",),
    "Ordinal": ("cutpoints",),
    "Censored": ("noise", "limit"),
}
USELESS = {"combine": "errors", "since": "trend"}  # without the other

# a number, or the name of one of data.covariates
Known = Number | str
Bins = Annotated[
    Annotated[Whole, Tag("$one")] | Annotated[tuple[Whole, ...], Tag("$list")],
    Discriminator(one_or_many),
]


class LikelihoodSpec(Strict):
    """A ready-made likelihood by name, with its parameters."""

    family: LikelihoodName = Field("Gaussian", description="the distribution of the data given the latent")
    noise: Entry | None = Field(None, description="Gaussian, StudentT, LogNormal, Censored: a standard deviation")
    errors: str | None = Field(None, description="Gaussian: the covariate with known standard errors")
    combine: Literal["times", "squares"] | None = Field(
        None, description="Gaussian: whether noise multiplies the errors (the default) or is added to them in squares"
    )
    trend: Entry | None = Field(None, description="Gaussian: of the log of the noise, per unit of time")
    since: Number | None = Field(None, description="Gaussian: the time at which the noise is `noise`; 0 by default")
    df: Entry | None = Field(None, description="StudentT: degrees of freedom; 4 by default")
    exposure: Known | None = Field(
        None, description="Poisson, NegativeBinomial: what the rate is multiplied by, a number or a covariate"
    )
    trials: Known | None = Field(None, description='Binomial: a number or a covariate; `"trials"` by default')
    dispersion: Entry | None = Field(None, description="NegativeBinomial: the smaller, the more spread")
    shape: Entry | None = Field(None, description="Gamma: one over the relative variance")
    precision: Entry | None = Field(None, description="Beta: the larger, the nearer to the mean")
    link: Literal["logit", "probit"] | None = Field(None, description="Bernoulli: logit by default")
    cutpoints: tuple[Entry, ...] | None = Field(
        None, description="Ordinal: increasing numbers, or priors that do not overlap"
    )
    limit: Known | None = Field(None, description="Censored: the detection limit, a number or a covariate")
    domain: tuple[tuple[Number, Number], ...] | None = Field(
        None, description="LogGaussianCox: the box whose cells the inputs are the centres of"
    )
    bins: Bins | None = Field(None, description="LogGaussianCox: cells along each side")

    @model_validator(mode="after")
    def _without_effect(self) -> LikelihoodSpec:
        given = [name for name in type(self).model_fields if name != "family" and getattr(self, name) is not None]
        takes = TAKES[self.family]
        for key in given:
            if key not in takes:
                raise ValueError(f"likelihood {self.family} has no parameter {key!r}; it has: {', '.join(takes)}")
        for key in NEEDS.get(self.family, ()):
            if key not in given:
                raise ValueError(f"likelihood {self.family} needs {key}")
        for key, other in USELESS.items():
            if key in given and other not in given:
                raise ValueError(f"{key} has no effect without {other}; leave it out")
        return self

    def needed_covariates(self) -> tuple[str, ...]:
        """The entries of the context without which it has no density."""
        named = {key: getattr(self, key) for key in ("errors", "exposure", "trials", "limit")}
        if self.family == "Binomial" and self.trials is None:
            named["trials"] = "trials"
        if self.family == "LogGaussianCox":
            named["exposure"] = "exposure"
        return tuple(name for name in named.values() if isinstance(name, str))

    def used_covariates(self) -> tuple[str, ...]:
        """The entries of the context that it uses where they are there."""
        optional = ("exposure",) if self.family == "Poisson" and self.exposure is None else ()
        return self.needed_covariates() + optional

    def build(self) -> Likelihood:
        """The likelihood."""
        given = {key: _plain(getattr(self, key)) for key in TAKES[self.family] if getattr(self, key) is not None}
        return (MADE.get(self.family) or getattr(families, self.family))(**given)


def _plain(value: Any) -> Any:
    if isinstance(value, str):
        return value
    if isinstance(value, tuple) and value and isinstance(value[0], tuple):
        return value
    return slot_of(value)


def likelihood_words(likelihood: Any) -> dict[str, Any]:
    """A likelihood in words."""
    name = type(likelihood).__name__
    if name not in TAKES:
        raise OwnPart
    words: dict[str, Any] = {"family": name} | {key: words_of(slot) for key, slot in likelihood.priors.items()}
    if name == "LogGaussianCox":
        return words | {"domain": [list(side) for side in likelihood.domain], "bins": list(likelihood.bins)}
    if name == "Gaussian":
        scatter = likelihood.scatter
        words |= {} if scatter.errors is None else {"errors": scatter.errors, "combine": scatter.combine}
        return words | ({"since": scatter.since} if scatter.trending else {})
    if name == "Bernoulli":
        return words | {"link": "probit" if "probit" in likelihood.function.__name__ else "logit"}
    settings = getattr(likelihood.function, "keywords", {})
    return words | {key: list(v) if isinstance(v, tuple) else v for key, v in settings.items() if v is not None}
