"""The memory that there is, and the error where a compiled program needs more."""

import jax.numpy as jnp
import numpy as np
import pytest

import seqgp
from seqgp.runtime import memory
from seqgp.runtime.engine import compiled


def squares(x):
    return (x[:, None] * x[None, :]) @ (x[:, None] + x[None, :])


def test_a_program_that_does_not_fit_is_refused_by_name(monkeypatch):
    """Whatever was not foreseen: before it runs, and not by XLA."""
    run, _ = compiled(squares, np.arange(5000.0))
    monkeypatch.setattr(memory, "available_bytes", lambda: 3 * 10**8)
    with pytest.raises(seqgp.SamplerError, match=r"\(squares\) needs 0\.\d GB, and 0\.3 GB are available; take fewer"):
        run()
    small, _ = compiled(squares, np.arange(50.0))
    assert jnp.isfinite(small()).all()


def test_a_container_has_less_than_its_machine(tmp_path, monkeypatch):
    """Its limit less its use, where caches of files are given back."""
    limit, used = tmp_path / "memory.max", tmp_path / "memory.current"
    monkeypatch.setattr(memory, "CGROUPS", ((str(limit), str(used)),))
    whole = memory.available_bytes()
    assert whole is not None
    limit.write_text("max\n")
    used.write_text("3000000\n")
    (tmp_path / "memory.stat").write_text("anon 2000000\ninactive_file 1000000\n")
    assert memory.available_bytes() == pytest.approx(whole, rel=0.2)
    limit.write_text("5000000\n")
    assert memory.available_bytes() == 3_000_000
