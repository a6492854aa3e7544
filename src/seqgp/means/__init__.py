"""Mean functions of the latent process: seqgp.means.Linear(features=…).

The public names are those in ``__all__`` of the modules; they are imported when one of them is first used.
"""

from seqgp.base.catalogue import Catalogue

catalogue = Catalogue(__name__, "base", "features")
__getattr__ = catalogue.find


def __dir__() -> list[str]:
    return catalogue.names()
