"""Bayesian inference for latent Gaussian processes that keeps up with your data."""

from seqgp.evaluate.calibrate import Calibration, calibrate
from seqgp.evaluate.predict import Prediction, predict
from seqgp.evaluate.prequential import drift_alarm, prequential
from seqgp.evaluate.replicate import Replicates, replicate
from seqgp.evaluate.simulate import simulate
from seqgp.full.sampler import FullSampler
from seqgp.full.stacked import FullState
from seqgp.io.arviz import to_datatree
from seqgp.io.errors import StoreError, TableError
from seqgp.io.run import Run, run
from seqgp.io.store import Store
from seqgp.latents.dense import Dense
from seqgp.latents.grid import Grid
from seqgp.latents.knots import Knots
from seqgp.mcmc.informed import Informed
from seqgp.mcmc.plain import Plain, Sweeps
from seqgp.models.errors import DataError, ModelError, SamplerError, SeqgpError
from seqgp.models.kernels import (
    Covariance,
    Matern12,
    Matern32,
    Matern52,
    Product,
    RationalQuadratic,
    Separable,
    SquaredExponential,
)
from seqgp.models.likelihoods import Bernoulli, Gaussian, Likelihood, Poisson, StudentT
from seqgp.models.model import Model
from seqgp.models.priors import ScaledSigmoid, inverse_softplus
from seqgp.models.snapshot import Snapshot
from seqgp.samplers.info import Info
from seqgp.samplers.protocol import Sampler, State
from seqgp.samplers.run import steps
from seqgp.sequential.map import MapEstimate, find_map
from seqgp.sequential.sampler import SequentialSampler
from seqgp.sequential.state import SequentialState

__version__ = "0.1.0"
