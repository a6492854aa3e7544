"""Kernels in words: by name with their parameters, and sums and products of them."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field, field_validator, model_validator

from seqgp import kernels
from seqgp.io.spec_entries import Entry, Number, OwnPart, SlotSpec, Strict, Whole, slot_of, words_of

KernelName = Literal[
    "SquaredExponential", "Matern12", "Matern32", "Matern52", "RationalQuadratic", "Periodic", "Constant", "WhiteNoise",
    "DotProduct", "Rotated", "GreatCircle", "Coregionalised",
]  # fmt: skip

TAKES: dict[str, tuple[str, ...]] = {  # the keys of each kernel, first those that it needs
    "SquaredExponential": ("lengthscale",),
    "Matern12": ("lengthscale",),
    "Matern32": ("lengthscale",),
    "Matern52": ("lengthscale",),
    "RationalQuadratic": ("lengthscale", "alpha"),
    "Periodic": ("lengthscale", "period"),
    "Constant": ("scale",),
    "WhiteNoise": ("scale",),
    "DotProduct": ("scale", "centre"),
    "Rotated": ("of", "angle"),
    "GreatCircle": ("of", "radius"),
    "Coregionalised": ("outputs", "rank", "of", "weights", "own"),
}
NEEDS: dict[str, tuple[str, ...]] = {
    "Periodic": ("period",),
    "Rotated": ("of", "angle"),
    "GreatCircle": ("of",),
    "Coregionalised": ("outputs",),
}


class KernelSpec(Strict):
    """A kernel by name, or a sum or product of kernels."""

    kernel: KernelName | None = Field(None, description='its name; `"SquaredExponential"` by default')
    lengthscale: SlotSpec | None = Field(
        None, description="in units of the input; in space one, or one for each input; 1 by default"
    )
    alpha: Entry | None = Field(None, description="RationalQuadratic: small for many lengthscales; 1 by default")
    period: Entry | None = Field(None, description="Periodic: the length of a cycle")
    scale: SlotSpec | None = Field(
        None, description="Constant, WhiteNoise: a standard deviation; DotProduct: that of its slopes; 1 by default"
    )
    centre: tuple[Number, ...] | None = Field(None, description="DotProduct: where it is zero; 0 by default")
    angle: Entry | None = Field(None, description="Rotated: from the first input towards the second, in radians")
    radius: Number | None = Field(None, description="GreatCircle: of the sphere; the Earth's in kilometres by default")
    outputs: Whole | None = Field(None, ge=2, description="Coregionalised: how many; the first input is their number")
    rank: Whole | None = Field(None, ge=1, description="Coregionalised: processes that the outputs share; 1 by default")
    weights: SlotSpec | None = Field(None, description="Coregionalised: of the shared processes, output by output")
    own: SlotSpec | None = Field(None, description="Coregionalised: standard deviations of the outputs' own processes")
    of: KernelSpec | None = Field(None, description="Rotated, GreatCircle, Coregionalised: the kernel inside")
    sum: tuple[KernelSpec, ...] | None = Field(None, min_length=2, description="in place of a name: kernels that add")
    product: tuple[KernelSpec, ...] | None = Field(
        None, min_length=2, description="in place of a name: kernels that multiply"
    )

    @field_validator("kernel", mode="before")
    @classmethod
    def _renamed(cls, name: Any) -> Any:
        """The name that version 0.2 wrote."""
        return "DotProduct" if name == "LinearKernel" else name

    @model_validator(mode="after")
    def _without_effect(self) -> KernelSpec:
        given = [name for name in type(self).model_fields if getattr(self, name) is not None]
        for way in ("sum", "product"):
            if way in given and len(given) > 1:
                other = next(name for name in given if name != way)
                raise ValueError(f"{other} has no effect beside {way}: it belongs into the kernels of the {way}")
        if "sum" in given or "product" in given:
            return self
        name = self.kernel or "SquaredExponential"
        for key in given:
            if key != "kernel" and key not in TAKES[name]:
                raise ValueError(f"{name} has no {key}; it has: {', '.join(TAKES[name])}")
        for key in NEEDS.get(name, ()):
            if key not in given:
                raise ValueError(f"{name} needs {key}")
        return self

    def build(self) -> kernels.Kernel:
        """The kernel."""
        if self.sum is not None:
            return kernels.Sum(tuple(one.build() for one in self.sum))
        if self.product is not None:
            return kernels.Product(tuple(one.build() for one in self.product))
        name = self.kernel or "SquaredExponential"
        given: dict[str, Any] = {}
        for key in TAKES[name]:
            value = getattr(self, key)
            if isinstance(value, KernelSpec):
                given["kernel"] = value.build()
            elif value is not None:
                given[key] = slot_of(value)
        return getattr(kernels, name)(**given)


def kernel_words(kernel: Any) -> dict[str, Any]:
    """A kernel in words."""
    name = type(kernel).__name__
    if type(kernel) in (kernels.Sum, kernels.Product):
        return {"sum" if name == "Sum" else "product": [kernel_words(part) for part in kernel.parts]}
    if name not in TAKES:
        raise OwnPart
    words: dict[str, Any] = {"kernel": name}
    for key in TAKES[name]:
        value = getattr(kernel, "kernel" if key == "of" else key)
        if key == "of":
            words |= {} if value is None else {"of": kernel_words(value)}
        else:
            words[key] = value if isinstance(value, int) else words_of(value)
    return words
