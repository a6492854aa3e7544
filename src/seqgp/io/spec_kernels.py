"""Kernels in words: by name with the arguments of their classes, and sums and products of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, Optional

from pydantic import Field, create_model, field_validator, model_validator

from seqgp.io.spec_entries import OwnPart, Strict, words_of
from seqgp.io.spec_parts import Parts
from seqgp.kernels import Kernel, Product, SquaredExponential, Sum, catalogue

DEFAULT = SquaredExponential.__name__


def _of_kernel(kind: Any) -> Any:
    """An argument that is a kernel, or none, is a table."""
    kinds = [one for one in getattr(kind, "__args__", (kind,)) if one is not type(None)]
    return Optional["KernelSpec"] if all(isinstance(one, type) and issubclass(one, Kernel) for one in kinds) else None


KERNELS: dict[str, Any] = {name: kernel for name, kernel in catalogue.classes(Kernel).items() if kernel.in_files}
PARTS = Parts(KERNELS, _of_kernel)
RENAMED = {getattr(kernel, "identity", name): name for name, kernel in KERNELS.items()}  # as version 0.2 wrote them


class _Kernel(Strict):
    """A kernel by name, or a sum or product of kernels."""

    if TYPE_CHECKING:
        kernel: str | None
        sum: tuple[KernelSpec, ...] | None
        product: tuple[KernelSpec, ...] | None

    @field_validator("kernel", mode="before", check_fields=False)
    @classmethod
    def _renamed(cls, name: Any) -> Any:
        return RENAMED.get(name, name) if isinstance(name, str) else name

    @model_validator(mode="after")
    def _without_effect(self) -> _Kernel:
        given = self._given()
        for way in ("sum", "product"):
            if getattr(self, way) is not None:
                for other in [name for name in type(self).model_fields if getattr(self, name) is not None]:
                    if other != way:
                        raise ValueError(
                            f"{other} has no effect beside {way}: it belongs into the kernels of the {way}"
                        )
                return self
        name = self.kernel or DEFAULT
        PARTS.check(name, given, name)
        return self

    def _given(self) -> dict[str, Any]:
        values = {name: getattr(self, name) for name in type(self).model_fields}
        return {name: v for name, v in values.items() if v is not None and name not in ("kernel", "sum", "product")}

    def build(self) -> Kernel:
        """The kernel."""
        if self.sum is not None:
            return Sum(tuple(one.build() for one in self.sum))
        if self.product is not None:
            return Product(tuple(one.build() for one in self.product))
        return PARTS.make(self.kernel or DEFAULT, self._given())


if TYPE_CHECKING:

    class KernelSpec(_Kernel):
        """A kernel by name, or a sum or product of kernels."""
else:
    _several = tuple["KernelSpec", ...] | None
    _name = Field(None, description=f'its name; `"{DEFAULT}"` by default')
    _sum = Field(None, min_length=2, description="in place of a name: kernels that add")
    _product = Field(None, min_length=2, description="in place of a name: kernels that multiply")
    KernelSpec = create_model(
        "KernelSpec",
        __base__=_Kernel,
        __doc__=_Kernel.__doc__,
        **{"kernel": (Literal[tuple(KERNELS)] | None, _name)},
        **PARTS.fields(),
        **{"sum": (_several, _sum), "product": (_several, _product)},
    )
    KernelSpec.model_rebuild(_types_namespace={"KernelSpec": KernelSpec})


def kernel_words(kernel: Kernel | None) -> dict[str, Any]:
    """A kernel in words."""
    if isinstance(kernel, (Sum, Product)) and type(kernel) in (Sum, Product):
        return {"sum" if type(kernel) is Sum else "product": [kernel_words(part) for part in kernel.parts]}
    name = type(kernel).__name__
    if KERNELS.get(name) is not type(kernel):
        raise OwnPart
    words: dict[str, Any] = {"kernel": name}
    for key, option in PARTS.options[name].items():
        value = getattr(kernel, option.name)
        if value is not None:
            words[key] = _value_words(value)
    return words


def _value_words(value: Any) -> Any:
    if isinstance(value, Kernel):
        return kernel_words(value)
    return value if isinstance(value, int) else words_of(value)
