"""Simulation-based calibration of the exact samplers, long: writes ``docs/calibration.md``.

python -m experiments.calibration [--simulations 500] [--seed 2026] [--only NAME …] [--quick]

Every sampler that claims to be exact must pass (all corrected p > 1e-3), every mutant must fail. Asked for by
name, every ready-made likelihood with every sampler that takes it, a fifth as long: ``--only "likelihood, Poisson"``.
"""

from __future__ import annotations

import argparse
import datetime
import importlib.metadata
import platform
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist

import seqgp
from experiments.calibrated_likelihoods import FAMILIES, N
from seqgp.evaluate.simulate import default_design
from seqgp.reference import CollapsedSampler

LEVEL = 1e-3
SHORT = 5  # how many times shorter a likelihood's cases are
FULL: dict[str, Any] = {"draws": 99, "chains": 1, "warmup": 200}


def model(
    likelihood: str | seqgp.Likelihood = "gaussian", prior: str = "sigmoid", spread: float = 1.5, mutant: bool = False
) -> seqgp.Model:
    """One lengthscale in time and space, scale and mean inferred, and the noise where there is one."""

    def sigmoid(low: float, high: float) -> Any:
        return seqgp.ScaledSigmoid(low, high, 0.0, spread)

    gamma = prior == "gamma"
    kernel = seqgp.Separable(
        time=seqgp.SquaredExponential(dist.Gamma(4.0, 4.0) if gamma else sigmoid(0.1, 3)),
        space=seqgp.SquaredExponential(dist.Gamma(3.0, 5.0) if gamma else sigmoid(0.1, 2)),
        scale=dist.Gamma(4.0, 4.0) if gamma else sigmoid(0.1, 2),
    )
    noise = dist.Gamma(4.0, 8.0) if gamma else sigmoid(0.05, 1)
    known = {
        "gaussian": seqgp.Gaussian(noise),
        "bernoulli": seqgp.Likelihood(lambda f, context: dist.Bernoulli(logits=2 * f), pointwise=True),
        "poisson": seqgp.Likelihood(lambda f, context: dist.Poisson(2 * jnp.exp(f)), pointwise=True),
    }
    data = likelihood if isinstance(likelihood, seqgp.Likelihood) else known[likelihood]
    if mutant:
        data = seqgp.Likelihood(lambda f, context, noise: dist.Normal(f, noise**2), pointwise=True, noise=noise)
    return seqgp.Model(kernel, data, mean=sigmoid(-1, 1), jitter=1e-6)


class Case(NamedTuple):
    """A sampler to be calibrated, or a mutant to be found out."""

    truth: seqgp.Model
    sampler: Callable[[], Any]
    steps: int = 1
    mutant: bool = False
    claims: bool = True  # to be exact; where it does not, what is found is only told
    context: dict[str, np.ndarray] | None = None  # of the data
    short: bool = False


def online(of: seqgp.Model) -> Callable[[], Any]:
    return lambda: seqgp.OnlineSampler(of, particles=128, draws=99, order=6)


def at_once(of: seqgp.Model) -> Callable[[], Any]:
    return lambda: seqgp.FullSampler(of, thin=10, updates="plain", **FULL)


def initial(of: seqgp.Model, updates: str) -> Callable[[], Any]:
    thin, warmup = (10, 200) if updates == "plain" else (5, 200)
    return lambda: seqgp.SequentialSampler(of, draws=99, chains=1, warmup=warmup, thin=thin, updates=updates)


def cases() -> dict[str, Case]:
    """What is run, by name."""
    found = {}
    for likelihood in ("gaussian", "bernoulli", "poisson"):
        for prior in ("sigmoid", "gamma"):
            for updates in ("plain", "informed"):
                of = model(likelihood, prior)
                found[f"initial, {likelihood}, {prior}, {updates}"] = Case(of, initial(of, updates))
    of, counts = model(), model("poisson")
    for data, stacked in (("gaussian", of), ("poisson", counts)):
        found[f"full, {data}, 2 snapshots"] = Case(stacked, at_once(stacked), 2)
    for data, streamed in (("gaussian", of), ("poisson", counts), ("bernoulli", model("bernoulli"))):
        exact = data == "gaussian"
        found[f"online, {data}, 10 snapshots"] = Case(streamed, online(streamed), 10, claims=exact)
    narrow = model(spread=1.5 / 2**0.5)
    found["mutant: online, prior counted twice"] = Case(of, online(narrow), 10, mutant=True)
    found["mutant: online, variance as sd"] = Case(of, online(model(mutant=True)), 10, mutant=True)
    found["collapsed, gaussian, 2 snapshots"] = Case(of, lambda: CollapsedSampler(of, thin=5, **FULL), 2)
    found["mutant: variance as sd"] = Case(of, initial(model(mutant=True), "plain"), mutant=True)
    found["mutant: prior counted twice"] = Case(of, initial(model(spread=1.5 / 2**0.5), "plain"), mutant=True)
    return found | likelihood_cases()


def likelihood_cases() -> dict[str, Case]:
    """Every ready-made likelihood with every sampler that takes it; filters are exact for Gaussian data alone."""
    found = {}
    for name, (likelihood, context) in FAMILIES.items():
        of, exact = model(likelihood), likelihood.conjugate
        samplers = {
            "initial, plain": Case(of, initial(of, "plain")),
            "initial, informed": Case(of, initial(of, "informed")),
            "full": Case(of, at_once(of), 2),
            "online": Case(of, online(of), 4, claims=exact),
        }
        for sampler, case in samplers.items():
            found[f"likelihood, {name}, {sampler}"] = case._replace(context=context, short=True)
    return found


def run_case(name: str, case: Case, simulations: int, seed: int) -> tuple[seqgp.Calibration, float]:
    start = time.perf_counter()
    design = [
        seqgp.Snapshot(one.t, one.x, one.y, case.context) for one in default_design(case.truth, n=N, steps=case.steps)
    ]
    count = max(simulations // SHORT, 20) if case.short else simulations
    found = seqgp.calibrate(case.truth, case.sampler(), count, key=jax.random.key(seed), design=design)
    seconds = time.perf_counter() - start
    print(f"{name}: smallest corrected p {min(found.corrected.values()):.2g}, {seconds:.0f} s", flush=True)
    return found, seconds


def verdict(case: Case, found: seqgp.Calibration) -> bool:
    """Whether an exact sampler passed, or a mutant was found out."""
    return not case.claims or found.calibrated(LEVEL) != case.mutant


def document(results: dict[str, tuple[Case, seqgp.Calibration, float]], args: argparse.Namespace) -> str:
    versions = ", ".join(f"{name} {importlib.metadata.version(name)}" for name in ("seqgp", "jax", "numpyro"))
    lines = [
        "# Calibration",
        "",
        "Simulation-based calibration (`seqgp.calibrate`): parameters, latent and data are drawn from the model, the",
        "sampler is run on the data, and the true values are ranked among 99 of its draws. Ranks are uniform if the",
        "draws are from the posterior. Quantities: every parameter, three values of the latent, the log likelihood",
        "and the log prior; a chi-square test each, Holm's correction over the quantities of a case.",
        "",
        "Generated by `make calibrate`; not edited by hand.",
        "",
        f"Seed {args.seed}, {args.simulations} simulations a case ({args.simulations // SHORT} a likelihood and "
        f"sampler), {datetime.date.today().isoformat()}, {versions}, "
        f"Python {platform.python_version()}; {sum(s for _, _, s in results.values()) / 60:.0f} minutes.",
        "",
        "| case | expected | smallest corrected p | of | failed simulations | median ESS of 99 | seconds |",
        "|---|---|---|---|---|---|---|",
    ]
    for name, (case, found, seconds) in results.items():
        worst = min(found.corrected, key=lambda quantity: found.corrected[quantity])
        expected = "p < 1e-3" if case.mutant else "p > 1e-3" if case.claims else "not exact"
        mark = "" if verdict(case, found) else " **not met**"
        lines.append(
            f"| {name} | {expected}{mark} | {found.corrected[worst]:.2g} | {worst} | {len(found.failures)} | "
            f"{'–' if np.isnan(found.ess).all() else f'{np.median(found.ess):.0f}'} | {seconds:.0f} |"
        )
    lines += ["", "## Every quantity", ""]
    for name, (_, found, _) in results.items():
        lines += [f"### {name}", "", found.table(), ""]
    return "\n".join(lines)


def chosen(name: str, only: list[str] | None) -> bool:
    """Whether a case is run: by part of its name, or all but those of single likelihoods, which take hours together."""
    return not name.startswith("likelihood, ") if only is None else any(part in name for part in only)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--simulations", type=int, default=500)
    parser.add_argument("--seed", type=int, default=2026)
    parser.add_argument("--only", nargs="+", help="parts of the names of cases")
    parser.add_argument("--quick", action="store_true", help="few simulations, written to out/ only")
    args = parser.parse_args()
    seqgp.enable_x64()
    if args.quick:
        args.simulations = 40
    partial = args.quick or args.only is not None
    path = Path("out/calibration/calibration.md") if partial else Path("docs/calibration.md")
    path.parent.mkdir(parents=True, exist_ok=True)
    results: dict[str, tuple[Case, seqgp.Calibration, float]] = {}
    for name, case in cases().items():
        if chosen(name, args.only):
            results[name] = (case, *run_case(name, case, args.simulations, args.seed))
            path.write_text(document(results, args))
    plots = Path("out/calibration")
    plots.mkdir(parents=True, exist_ok=True)
    for name, (_, found, _) in results.items():
        found.plot().savefig(plots / f"{name.replace(' ', '_').replace(',', '').replace(':', '')}.png")
    failed = [name for name, (case, found, _) in results.items() if not verdict(case, found)]
    print(f"written to {path}" + (f"; not as expected: {'; '.join(failed)}" if failed else ""))
    return 1 if failed and not args.quick else 0


if __name__ == "__main__":
    sys.exit(main())
