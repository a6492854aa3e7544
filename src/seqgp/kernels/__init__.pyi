"""The public kernels."""

from .base import Constant as Constant
from .base import Kernel as Kernel
from .base import Product as Product
from .base import Sum as Sum
from .base import WhiteNoise as WhiteNoise
from .coregionalised import Coregionalised as Coregionalised
from .delayed import Delayed as Delayed
from .separable import Separable as Separable
from .separable import SeparableSum as SeparableSum
from .spatial import Covariance as Covariance
from .spatial import DotProduct as DotProduct
from .spatial import GreatCircle as GreatCircle
from .spatial import PerColumn as PerColumn
from .spatial import Rotated as Rotated
from .stationary import Matern12 as Matern12
from .stationary import Matern32 as Matern32
from .stationary import Matern52 as Matern52
from .stationary import Periodic as Periodic
from .stationary import RationalQuadratic as RationalQuadratic
from .stationary import SquaredExponential as SquaredExponential
from .stationary import StationaryCovariance as StationaryCovariance
