"""The public likelihoods."""

from seqgp.base.catalogue import Catalogue

from .base import *  # noqa: F403
from .continuous import *  # noqa: F403
from .cox import *  # noqa: F403
from .discrete import *  # noqa: F403
from .gaussian import *  # noqa: F403

catalogue: Catalogue
