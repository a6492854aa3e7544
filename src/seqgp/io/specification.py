"""A model in words: what a configuration says, and what a manifest remembers of a ready-made model.

Only names that are listed here can be written; a likelihood or kernel of one's own is code, and stays in Python.
"""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Discriminator, Field, Tag, model_validator

from seqgp import kernels
from seqgp.io.spec_entries import (
    Entry,
    OwnPart,
    Real,
    ScaleSpec,
    SlotSpec,
    Strict,
    one_or_many,
    scale_words,
    slot_of,
    words_of,
)
from seqgp.io.spec_sections import (
    KernelSpec,
    LikelihoodSpec,
    LinearSpec,
    MeanSpec,
    kernel_words,
    likelihood_words,
    mean_words,
)
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


VELOCITY = "a field that moves, as a storm does: distance per time, one for each input"
DIFFUSION = "with velocity: how the field spreads, distance² per time; 0 by default"
SHORTEST = "with velocity: the shortest wavelength that represents the field; from the priors by default"
MARGIN = "with velocity: the distance from the data to their periodic images; from the priors by default"


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

    velocity: SlotSpec | None = Field(None, description=VELOCITY)
    diffusion: Entry | None = Field(None, description=DIFFUSION)
    shortest: Real | None = Field(None, description=SHORTEST)
    margin: Real | None = Field(None, description=MARGIN)

    @model_validator(mode="after")
    def _one_motion(self) -> TermSpec:
        _check_motion(self)
        return self

    def build(self) -> LatentKernel:
        """The term."""
        if isinstance(self.space, tuple):
            space = kernels.PerColumn([kernel.build() for kernel in self.space])
        else:
            space = self.space.build()
        term = kernels.Separable(time=self.time.build(), space=space, scale=slot_of(self.scale))
        return _moving(term, self)


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
    velocity: SlotSpec | None = Field(None, description=VELOCITY + ", for all terms")
    diffusion: Entry | None = Field(None, description=DIFFUSION)
    shortest: Real | None = Field(None, description=SHORTEST)
    margin: Real | None = Field(None, description=MARGIN)
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
        _check_motion(self)
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
            kernel = TermSpec(time=self.time, space=self.space, scale=scale).build()  # pyright: ignore[reportArgumentType, reportCallIssue]
        else:
            parts = [term.build() for term in self.terms]
            kernel = kernels.SeparableSum(parts) if len(parts) > 1 else parts[0]
        kernel = _moving(kernel, self)
        mean = self.mean.build() if isinstance(self.mean, LinearSpec) else slot_of(self.mean)
        return Model(kernel, self.likelihood.build(), mean, self.jitter)


def _check_motion(spec: TermSpec | ModelSpec) -> None:
    if spec.slowness is not None and spec.velocity is not None:
        raise ValueError("slowness and velocity are two ways to move: give one of them")
    for name in ("diffusion", "shortest", "margin"):
        if getattr(spec, name) is not None and spec.velocity is None:
            raise ValueError(f"{name} has no effect without velocity")


def _moving(kernel: LatentKernel, spec: TermSpec | ModelSpec) -> LatentKernel:
    """With a delay or a velocity, where there is one."""
    if spec.slowness is not None:
        return kernels.Delayed(kernel, slowness=slot_of(spec.slowness))
    if spec.velocity is None:
        return kernel
    diffusion = 0.0 if spec.diffusion is None else slot_of(spec.diffusion)
    return kernels.Advected(kernel, slot_of(spec.velocity), diffusion, spec.shortest, spec.margin)


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
    if isinstance(kernel, (kernels.Delayed, kernels.Advected)):
        return _kernel_words(kernel.kernel) | _motion_words(kernel)
    parts = kernel.summands()
    if len(parts) == 1 and isinstance(kernel, kernels.Separable):
        return _term_words(kernel)
    return {"terms": [_part_words(part) for part in parts]}


def _part_words(part: LatentKernel) -> dict[str, Any]:
    if isinstance(part, (kernels.Delayed, kernels.Advected)) and isinstance(part.kernel, kernels.Separable):
        return _term_words(part.kernel) | _motion_words(part)
    if not isinstance(part, kernels.Separable):  # a sum with a delay, beside other terms
        raise OwnPart
    return _term_words(part)


def _motion_words(kernel: kernels.Delayed | kernels.Advected) -> dict[str, Any]:
    if isinstance(kernel, kernels.Delayed):
        return {"slowness": words_of(kernel.slowness)}
    words = {"velocity": words_of(kernel.velocity), "diffusion": words_of(kernel.diffusion)}
    given = {"shortest": kernel.shortest, "margin": kernel.margin}
    return words | {name: value for name, value in given.items() if value is not None}


def _term_words(term: kernels.Separable) -> dict[str, Any]:
    if isinstance(term.space, kernels.PerColumn):
        space = [kernel_words(factor) for factor in term.space.factors]
    else:
        space = kernel_words(term.space)
    return {"time": kernel_words(term.time), "space": space, "scale": scale_words(term.scale)}
