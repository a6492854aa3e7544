"""A model in words: what a configuration says, and what a manifest remembers of a ready-made model.

Only names that are listed here can be written; a likelihood or kernel of one's own is code, and stays in Python.
"""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Discriminator, Field, Tag, model_validator

from seqgp import kernels
from seqgp.io.spec_entries import OwnPart, Real, SlotSpec, Strict, one_or_many, slot_of, words_of
from seqgp.io.spec_kernels import KernelSpec, kernel_words
from seqgp.io.spec_likelihoods import LikelihoodSpec, likelihood_words
from seqgp.io.spec_means import LinearSpec, MeanSpec, mean_words
from seqgp.io.spec_seasons import ScaleSpec, scale_words
from seqgp.kernels.separable import LatentKernel
from seqgp.model import Model

__all__ = ["ModelSpec", "Strict", "specify"]

Space = Annotated[
    Annotated[KernelSpec, Tag("$one")] | Annotated[tuple[KernelSpec, ...], Tag("$list")],
    Discriminator(one_or_many),
]

Jitter = Annotated[
    Annotated[Real, Tag("$one")] | Annotated[tuple[Real, ...], Tag("$list")],
    Discriminator(one_or_many),
]


class TermSpec(Strict):
    """One of several latent processes that add: kernels in time and space, and a scale."""

    time: KernelSpec = Field(description="a kernel, as in `[model.time]`")
    space: Space = Field(description="a kernel, as in `[model.space]`")
    scale: ScaleSpec = Field(
        1.0, description="the standard deviation of this term; with a season, `{ base = …, by = …, weights = … }`"
    )
    slowness: SlotSpec | None = Field(
        None, description="a delay: time per distance, one for each input; what happens at x is seen further on later"
    )

    def build(self) -> kernels.Separable | kernels.Delayed:
        """The term."""
        if isinstance(self.space, tuple):
            space = kernels.PerColumn([kernel.build() for kernel in self.space])
        else:
            space = self.space.build()
        term = kernels.Separable(time=self.time.build(), space=space, scale=slot_of(self.scale))
        return term if self.slowness is None else kernels.Delayed(term, slowness=slot_of(self.slowness))


class ModelSpec(Strict):
    """A model: kernels in time and space, scale, mean and likelihood."""

    time: KernelSpec | None = None
    space: Space | None = None
    scale: ScaleSpec | None = Field(
        None,
        description="the standard deviation of the latent function; 1 by default; with a season, `{ base = …, by = …, "
        "weights = … }`",
    )
    slowness: SlotSpec | None = Field(
        None,
        description="a delay: time per distance, one for each input, for all terms that have none of their own",
    )
    terms: tuple[TermSpec, ...] | None = Field(
        None,
        min_length=1,
        description="instead of time, space and scale: terms that add, `[[model.terms]]`",
    )
    mean: MeanSpec = Field(0.0, description="the mean; a table `[model.mean]` with covariates")
    likelihood: LikelihoodSpec
    jitter: Jitter = 1e-8

    @model_validator(mode="after")
    def _one_way(self) -> ModelSpec:
        for name in ("time", "space", "scale"):
            given = getattr(self, name) is not None
            if self.terms is not None and given:
                raise ValueError(f"model.{name} has no effect beside model.terms, each of which has its own")
            if self.terms is None and not given and name != "scale":
                raise ValueError(f"model.{name} is missing")
        return self

    def covariates(self) -> tuple[str, ...]:
        """The features of the mean that are columns of the data."""
        return self.mean.covariates() if isinstance(self.mean, LinearSpec) else ()

    def build(self) -> Model:
        """The model."""
        if self.terms is None:
            scale = 1.0 if self.scale is None else self.scale
            kernel = TermSpec(time=self.time, space=self.space, scale=scale, slowness=None).build()  # pyright: ignore[reportArgumentType]
        else:
            parts = [term.build() for term in self.terms]
            kernel = kernels.SeparableSum(parts) if len(parts) > 1 else parts[0]
        if self.slowness is not None:
            kernel = kernels.Delayed(kernel, slowness=slot_of(self.slowness))
        mean = self.mean.build() if isinstance(self.mean, LinearSpec) else slot_of(self.mean)
        return Model(kernel, self.likelihood.build(), mean, self.jitter)


def specify(model: Model) -> dict[str, Any] | None:
    """A model in words, or ``None`` where it has parts that only code can say."""
    try:
        words = _kernel_words(model.kernel) | {
            "mean": mean_words(model.mean),
            "likelihood": likelihood_words(model.likelihood),
            "jitter": list(model.jitter),
        }
        same = ModelSpec.model_validate(words).build().fingerprint() == model.fingerprint()
    except (OwnPart, ValueError):
        return None
    return words if same else None


def _kernel_words(kernel: LatentKernel) -> dict[str, Any]:
    if isinstance(kernel, kernels.Delayed):
        return _kernel_words(kernel.kernel) | {"slowness": words_of(kernel.slowness)}
    parts = kernel.summands()
    if len(parts) == 1 and isinstance(kernel, kernels.Separable):
        return _term_words(kernel)
    return {"terms": [_part_words(part) for part in parts]}


def _part_words(part: LatentKernel) -> dict[str, Any]:
    if isinstance(part, kernels.Delayed) and isinstance(part.kernel, kernels.Separable):
        return _term_words(part.kernel) | {"slowness": words_of(part.slowness)}
    if not isinstance(part, kernels.Separable):  # a sum with a delay, beside other terms
        raise OwnPart
    return _term_words(part)


def _term_words(term: kernels.Separable) -> dict[str, Any]:
    if isinstance(term.space, kernels.PerColumn):
        space = [kernel_words(factor) for factor in term.space.factors]
    else:
        space = kernel_words(term.space)
    return {"time": kernel_words(term.time), "space": space, "scale": scale_words(term.scale)}
