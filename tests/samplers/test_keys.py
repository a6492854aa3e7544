"""Keys of one purpose are those of no other."""

import jax
import numpy as np

from seqgp.samplers.keys import FORECASTS, stream

PURPOSES = ("predict", "replicated data", "checks of forecasts")


def words(key):
    return tuple(np.asarray(jax.random.key_data(key)).tolist())


def test_fold_in_and_split_give_the_same_keys():
    """Why a key is either numbered or split; a JAX in which they differ would need no streams."""
    key = jax.random.key(0)
    assert words(jax.random.fold_in(key, 1)) == words(jax.random.split(key, 3)[1])


def test_streams_are_apart_from_each_other_and_from_a_run_of_the_same_seed():
    numbered = [jax.random.fold_in(jax.random.key(5), first + i) for first in (0, FORECASTS) for i in range(50)]
    drawn = [stream(5, purpose) for purpose in PURPOSES]
    found = [words(key) for key in [*numbered, *drawn]]
    assert len(set(found)) == len(found)
    assert words(stream(5, "predict")) == words(stream(5, "predict")) != words(stream(6, "predict"))
