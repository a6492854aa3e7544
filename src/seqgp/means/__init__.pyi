"""The public mean functions."""

from seqgp.base.catalogue import Catalogue

from .base import *  # noqa: F403
from .features import *  # noqa: F403

catalogue: Catalogue
