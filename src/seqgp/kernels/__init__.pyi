"""The public kernels."""

from seqgp.base.catalogue import Catalogue

from .advected import *  # noqa: F403
from .base import *  # noqa: F403
from .coregionalised import *  # noqa: F403
from .delayed import *  # noqa: F403
from .separable import *  # noqa: F403
from .spatial import *  # noqa: F403
from .stationary import *  # noqa: F403

catalogue: Catalogue
