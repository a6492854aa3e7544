"""A likelihood that is held in an object: the run goes on with the same object, and with no other."""

import zlib

import numpyro.distributions as dist
import pytest

import seqgp
from runs import key, model, sampler, snapshots
from seqgp.io.manifest import read_manifest
from seqgp.model import Model


class Solver:
    def __init__(self, rate, handle=None):
        self.rate, self.handle = rate, handle

    def likelihood(self, f, context):
        return dist.Normal(self.rate * f, 1.0)


class Named(Solver):
    def __seqgp_digest__(self):
        return f"rate {self.rate}"


def with_solver(solver):
    made = sampler(draws=8)
    held = model()
    likelihood = seqgp.likelihoods.Likelihood(solver.likelihood, pointwise=True)
    settings = {"chains": 2, "warmup": 4, "thin": 1, "updates": "plain", "latent": made.latent}
    return seqgp.SequentialSampler(seqgp.Model(held.kernel, likelihood, held.mean), draws=8, **settings)


def test_a_run_is_resumed_with_the_same_object_and_no_other(tmp_path):
    seqgp.run(with_solver(Solver(1.0)), snapshots(1), key(), store=tmp_path / "run")
    with pytest.raises(seqgp.StoreError, match=r"another model: likelihood was .*rate=1\.0.* now .*rate=50\.0"):
        seqgp.run(with_solver(Solver(50.0)), snapshots(2), store=tmp_path / "run")
    assert seqgp.run(with_solver(Solver(1.0)), snapshots(2), store=tmp_path / "run").state.step == 2


def test_an_object_that_cannot_be_seen_is_not_resumed_with(tmp_path):
    unseen = with_solver(Solver(1.0, zlib.compressobj()))
    with pytest.warns(
        UserWarning, match="class Compress cannot be seen: the run cannot be resumed; .*__seqgp_digest__"
    ):
        seqgp.run(unseen, snapshots(1), key(), store=tmp_path / "run")
    with pytest.raises(seqgp.StoreError, match=r"class Compress cannot be seen.*__seqgp_digest__"):
        seqgp.run(unseen, snapshots(2), store=tmp_path / "run")


def test_an_object_may_say_itself_what_it_is(tmp_path, recwarn):
    seqgp.run(with_solver(Named(1.0, zlib.compressobj())), snapshots(1), key(), store=tmp_path / "run")
    assert not [one for one in recwarn if "cannot be seen" in str(one.message)]
    done = seqgp.run(with_solver(Named(1.0, zlib.compressobj())), snapshots(2), store=tmp_path / "run")
    assert done.state.step == 2
    with pytest.raises(seqgp.StoreError, match=r"rate 1\.0.* now .*rate 2\.0"):
        seqgp.run(with_solver(Named(2.0)), snapshots(2), store=tmp_path / "run")


def test_a_run_of_version_0_2_goes_on_and_knows_the_object_from_then_on(tmp_path, monkeypatch):
    with monkeypatch.context() as then:
        then.setattr(Model, "fingerprint", lambda self: self.fingerprint_in_version(2))
        seqgp.run(with_solver(Solver(1.0)), snapshots(1), key(), store=tmp_path / "run")
    assert "rate" not in read_manifest(tmp_path / "run").model["likelihood"]
    with pytest.warns(UserWarning, match="begun with seqgp 0.2, .* contents cannot be compared; from now on they are"):
        seqgp.run(with_solver(Solver(1.0)), snapshots(2), store=tmp_path / "run")
    with pytest.raises(seqgp.StoreError, match=r"another model: likelihood"):
        seqgp.run(with_solver(Solver(50.0)), snapshots(3), store=tmp_path / "run")
