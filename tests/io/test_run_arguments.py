"""Arguments of ``seqgp.run`` that are of another kind are named before anything is opened or compiled."""

import jax
import pytest

import seqgp

KERNEL = seqgp.Separable(seqgp.kernels.Matern32(1.0), seqgp.kernels.Matern32(1.0))
MODEL = seqgp.Model(KERNEL, seqgp.likelihoods.Gaussian(0.5))
DATA = [seqgp.Snapshot(float(t), [[0.0], [1.0]], [0.0, 1.0]) for t in range(2)]
KEY = jax.random.key(0)


@pytest.mark.parametrize(
    ("arguments", "options", "message"),
    [
        ((None, DATA), {}, r"run: expected a sampler or a seqgp\.Model, got NoneType$"),
        ((seqgp.OnlineSampler, DATA), {}, r"run: expected a sampler or a seqgp\.Model, got type"),
        ((MODEL, DATA[0]), {}, "run: expected snapshots one after the other, got Snapshot; give one in a list"),
        ((MODEL, None), {}, "run: expected snapshots one after the other, got NoneType"),
        ((MODEL, DATA), {"key": 3}, r"key: expected one random key, jax\.random\.key\(0\) say, got 3"),
        ((MODEL, DATA), {"key": jax.random.split(KEY, 3)}, r"key: expected one random key.* got 3 of them"),
        ((MODEL, DATA), {"keep": 0}, "keep = 0 is not a whole number >= 1"),
        ((MODEL, DATA), {"keep": "all"}, "keep = 'all' is not a whole number >= 1"),
        ((MODEL, DATA), {"state": "last"}, "run: state: expected a state of the sampler, got str"),
    ],
)
def test_they_are_named(arguments, options, message):
    with pytest.raises(seqgp.SeqgpError, match=f"^{message}"):
        seqgp.run(*arguments, **options)


def test_a_sampler_of_all_times_at_once_says_so():
    with pytest.raises(seqgp.SamplerError, match="got FullSampler; it takes all times at once, by its method sample"):
        seqgp.run(seqgp.FullSampler(MODEL), DATA, key=KEY)


@pytest.mark.parametrize("key", [None, 0, "key", jax.random.split(KEY, 2)])
@pytest.mark.parametrize("make", [seqgp.OnlineSampler, seqgp.SequentialSampler])
def test_samplers_name_what_is_no_key(make, key):
    with pytest.raises(seqgp.SamplerError, match="key: expected one random key"):
        make(MODEL).init(key, DATA[0])
