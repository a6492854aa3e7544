"""The public mean functions."""

from .base import Linear as Linear
from .features import Feature as Feature
from .features import Modulated as Modulated
from .features import harmonics as harmonics
