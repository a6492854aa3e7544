"""``python -m benchmarks.stream_peers [--quick]``: run all, and write docs/peers.md.

Everything runs after one another on the same machine. ``--peers`` names the Python of the peers' environment.
"""

from __future__ import annotations

import argparse
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

import jax
import numpy as np
import numpyro.distributions as dist

import seqgp
from benchmarks.driver import machine
from benchmarks.stream_peers.driver import PEERS, ROOT, peer
from benchmarks.stream_peers.problem import NAMES, PRIOR, Stream, simulate, some_values, summary
from seqgp.samplers.online.filters import run_filters
from seqgp.samplers.online.history import build_timeline

SCRIPTS = ("particles_ibis", "dynamax_filter", "cuthbert_filter", "gpboost_fit")
PACKAGES = ("particles", "dynamax", "cuthbertlib", "numpyro", "gpboost", "jax")
LABELS = ("time lengthscale", "space lengthscale", "scale", "noise")
PARTICLES, VALUES = 256, 256


def model() -> seqgp.Model:
    """The model of the stream."""
    l_t, l_x, scale, noise = (dist.LogNormal(mean, sd) for mean, sd in PRIOR)
    kernel = seqgp.Separable(seqgp.kernels.Matern12(l_t), seqgp.kernels.Matern32(l_x), scale)
    return seqgp.Model(kernel=kernel, likelihood=seqgp.likelihoods.Gaussian(noise=noise), mean=0.0)


def ours(stream: Stream) -> dict[str, Any]:
    """The posterior after each snapshot, and the filters of many parameter values alone; compiled before."""
    snapshots = [seqgp.Snapshot(float(t), stream.x, y) for t, y in enumerate(stream.y)]
    sampler = seqgp.OnlineSampler(model(), particles=PARTICLES)
    start = time.perf_counter()
    seqgp.run(sampler, snapshots, key=jax.random.key(1))
    first = time.perf_counter() - start
    run = seqgp.run(sampler, snapshots, key=jax.random.key(0))
    draws = np.stack([np.asarray(run.state.parameters[name]) for name in NAMES], axis=1)
    timeline = build_timeline(sampler.ssm, "auto", snapshots, [None] * len(snapshots))
    columns = [NAMES.index(name) for name in sampler.ssm.names]
    mean, sd = PRIOR[columns].T
    z = (some_values(VALUES)[:, columns] - mean) / sd  # a LogNormal's z is standard normal
    run_filters(timeline, z, len(snapshots))
    start = time.perf_counter()
    increments = np.asarray(run_filters(timeline, z, len(snapshots))[1])
    filters = time.perf_counter() - start
    seconds = sum(info.seconds for info in run.infos)
    last = run.infos[-1]
    assert isinstance(last, seqgp.OnlineInfo)
    return {
        "seconds": seconds, "compile_seconds": first - seconds, "filter_seconds": filters, "ess": last.ess,
        "log_evidence": last.log_evidence, "log_likelihood": increments.sum(axis=1), **summary(draws),
    }  # fmt: skip


def versions(python: Path) -> str:
    """Of the peers."""
    code = f"from importlib.metadata import version as v; print(*(f'{{n}} {{v(n)}}' for n in {PACKAGES!r}), sep=', ')"
    return subprocess.run([python, "-c", code], capture_output=True, text=True, check=True).stdout.strip()


def page(found: dict[str, dict[str, Any]], stream: Stream, about: dict[str, Any], peers: str) -> str:
    """The page of the documentation."""
    steps, stations = stream.y.shape
    us = found["seqgp"]

    def cell(name: str, key: str, form: str = ".3g") -> str:
        value = found[name].get(key)
        return "–" if value is None else format(value, form)

    def ratio(name: str, key: str, mine: str) -> str:
        value = found[name].get(key)
        return "–" if value is None else f"{value / us[mine]:.3g}"

    sequence = [
        ("seqgp: posterior and evidence after each snapshot", "seqgp", "seconds"),
        ("particles: IBIS, posterior and evidence after each snapshot", "particles_ibis", "seconds"),
        ("NumPyro NUTS on dynamax's likelihood, refitted after every tenth snapshot", "dynamax_filter", "seconds"),
        ("GPBoost: one maximum-likelihood fit at the end, exact", "gpboost_fit", "exact_seconds"),
        ("GPBoost: the same with Vecchia's approximation", "gpboost_fit", "vecchia_seconds"),
    ]
    filters = [("seqgp", "seqgp"), ("dynamax `lgssm_filter`", "dynamax_filter"), ("cuthbertlib", "cuthbert_filter")]
    posterior = [("seqgp", "seqgp"), ("particles", "particles_ibis"), ("NumPyro on dynamax", "dynamax_filter")]
    lines = [
        "# The same stream in other libraries", "",
        "```bash", "make peers          # an environment of the peers in build/peers, then this page", "```", "",
        f"{stations} stations, {steps} snapshots of complete Gaussian data, a Matérn-1/2 kernel in time, a Matérn-3/2",
        "kernel in space, and four parameters with log-normal priors. Everything ran after one another on",
        f"{about['cores']} cores of {about['cpu']}, {about['date'][:10]}, seqgp {about['versions']['seqgp']}"
        f" on jax {about['versions']['jax']}; peers: {peers}. Seconds exclude compilation.", "",
        "## The whole sequence", "", "| what | seconds | over seqgp | ESS at the end |", "|---|---:|---:|---:|",
        *(f"| {label} | {cell(name, key)} | {ratio(name, key, 'seconds')} | "
          f"{cell(name, 'ess', '.0f') if key == 'seconds' else '–'} |" for label, name, key in sequence),
        "", f"The first run of seqgp also compiles, for {us['compile_seconds']:.0f} s. The ESS counts draws of the",
        "parameters. GPBoost's space-time kernel is not the one of the stream, so only its cost is comparable.", "",
        "## The filters alone", "",
        f"Log likelihoods of {VALUES} parameter values, {steps} snapshots each. Data are complete, so seqgp filters in",
        "the eigenbasis of the space covariance; dynamax and cuthbertlib filter any linear Gaussian model.", "",
        "| what | seconds | over seqgp | log likelihood apart from seqgp, at most |", "|---|---:|---:|---:|",
        *(f"| {label} | {cell(name, 'filter_seconds')} | {ratio(name, 'filter_seconds', 'filter_seconds')} | "
          f"{apart(found[name], us)} |" for label, name in filters),
        "", "## Do they agree?", "",
        "Mean ± sd of the logarithm of each parameter after the last snapshot, and the log evidence.", "",
        f"| what | {' | '.join(LABELS)} | log evidence |", "|---|---:|---:|---:|---:|---:|",
        *(f"| {label} | {' | '.join(moments(found[name]))} | {cell(name, 'log_evidence', '.2f')} |"
          for label, name in posterior),
        "", "BayesNewton 1.3.4 needs a version of JAX that none of the others takes, so it is missing here.", "",
    ]  # fmt: skip
    failed = [f"`{name}` failed: {one['error']}" for name, one in found.items() if "error" in one]
    return "\n".join([*lines, *failed])


def apart(one: dict[str, Any], us: dict[str, Any]) -> str:
    """The largest difference of log likelihoods."""
    if "log_likelihood" not in one:
        return "–"
    return f"{np.abs(np.asarray(one['log_likelihood']) - np.asarray(us['log_likelihood'])).max():.1g}"


def moments(one: dict[str, Any]) -> list[str]:
    """A cell for each parameter."""
    if "mean" not in one:
        return ["–"] * len(NAMES)
    return [f"{mean:.2f} ± {sd:.2f}" for mean, sd in zip(one["mean"], one["sd"])]


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.stream_peers", description=str(__doc__))
    parser.add_argument("--peers", type=Path, default=PEERS)
    parser.add_argument("--quick", action="store_true", help="a small stream: whether it runs, not how fast")
    parser.add_argument("--page", type=Path, help="docs/peers.md, or out/peers.md if quick")
    arguments = parser.parse_args(argv)
    seqgp.enable_x64()
    stream = simulate(0, *((8, 12) if arguments.quick else (20, 50)))
    found = {"seqgp": ours(stream)}
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder) / "stream.npz"
        stream.save(data)
        for script in SCRIPTS:
            print(f"{script} …", flush=True)
            found[script] = peer(arguments.peers, script, data)
    text = page(found, stream, machine(), versions(arguments.peers))
    target = arguments.page or (ROOT / ("out" if arguments.quick else "docs") / "peers.md")
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(text)
    print(f"{text}\nwritten to {target}")


if __name__ == "__main__":
    main()
