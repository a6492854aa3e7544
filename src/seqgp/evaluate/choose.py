"""The best sampler that a model allows."""

from __future__ import annotations

from typing import Any, NamedTuple

from seqgp.base.errors import ModelError
from seqgp.base.snapshot import Snapshot
from seqgp.model import Model
from seqgp.samplers.base import Sampler
from seqgp.samplers.online.sampler import OnlineSampler
from seqgp.samplers.sequential.sampler import SequentialSampler


class Choice(NamedTuple):
    """A sampler, and why it was taken."""

    sampler: Sampler
    why: str


def best_sampler(model: Model, snapshot: Snapshot | None = None, **settings: Any) -> Choice:
    """The online sampler where the model is one that a filter takes; otherwise the sequential one.

    Args:
        model: the model.
        snapshot: the first one, which tells whether a likelihood that sees all of the latent has a mean and a variance;
            without it such a likelihood gets the sequential sampler.
        **settings: of either sampler (``draws``, ``latent``).
    """
    try:
        sampler = OnlineSampler(model, **settings)
        smooth = sampler.check_likelihood(snapshot)
    except ModelError as error:
        return Choice(SequentialSampler(model, **settings), f"the sequential sampler, because {error}")
    data = _data(model, smooth)
    return Choice(sampler, f"the online sampler: the model is a linear system in time, and its data are {data}")


def _data(model: Model, smooth: bool) -> str:
    """What kind of data the likelihood is of, in words."""
    if model.likelihood.pointwise:
        return "pointwise" if smooth else "pointwise, known by values of the likelihood alone"
    return "of a likelihood that can be differentiated" if smooth else "of a black box, taken by sigma points"
