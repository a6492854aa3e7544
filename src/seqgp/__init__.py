"""Bayesian inference for latent Gaussian processes that keeps up with your data.

The public names are declared in ``__init__.pyi``; each is imported when it is first used, so that ``import seqgp`` and
``seqgp --help`` cost next to nothing.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
__version__ = "0.2.0"
