"""Kernels of time and of space, and how they join: seqgp.kernels.Matern32(lengthscale=…).

The public names are those in ``__all__`` of the modules; they are imported when one of them is first used.
"""

from seqgp.base.catalogue import Catalogue

catalogue = Catalogue(__name__, "stationary", "base", "spatial", "coregionalised", "separable", "delayed", "advected")
__getattr__ = catalogue.find


def __dir__() -> list[str]:
    return catalogue.names()
