"""Kernels of time and of space, and how they join: seqgp.kernels.Matern32(lengthscale=…).

The public names are declared in ``__init__.pyi``; each is imported when it is first used.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
