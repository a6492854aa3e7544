"""Simulation-based calibration of the exact samplers, long: writes ``docs/calibration.md``.

python -m experiments.calibration [--models] [--simulations 500] [--seed 2026] [--only NAME …] [--quick]

Every sampler that claims to be exact must pass (all corrected p > 1e-3), every mutant must fail. With ``--models``
every ready-made likelihood, kernel and mean with every sampler that takes it, a fifth as long each, which writes
``docs/calibration_models.md`` case by case and goes on where it was stopped. A part, ``--models --only Poisson``, is
written to ``out/`` alone.
"""

from __future__ import annotations

import argparse
import datetime
import importlib.metadata
import platform
import re
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist

import seqgp
from experiments.calibrated_models import PIECES, Piece
from seqgp.evaluate.calibrate import Calibration
from seqgp.reference import CollapsedSampler
from seqgp.runtime import engine
from seqgp.samplers.online import exact
from seqgp.statespace import paths as paths_module

LEVEL = 1e-3
OUT = Path("out/calibration")
SHORT = 5  # how many times shorter the cases of a likelihood, kernel or mean are
FULL: dict[str, Any] = {"draws": 99, "chains": 1, "warmup": 200}


def model(
    likelihood: str = "gaussian", prior: str = "sigmoid", spread: float = 1.5, mutant: bool = False
) -> seqgp.Model:
    """One lengthscale in time and space, scale and mean inferred, and the noise where there is one."""

    def sigmoid(low: float, high: float) -> Any:
        return seqgp.ScaledSigmoid(low, high, 0.0, spread)

    gamma = prior == "gamma"
    kernel = seqgp.Separable(
        time=seqgp.kernels.SquaredExponential(dist.Gamma(4.0, 4.0) if gamma else sigmoid(0.1, 3)),
        space=seqgp.kernels.SquaredExponential(dist.Gamma(3.0, 5.0) if gamma else sigmoid(0.1, 2)),
        scale=dist.Gamma(4.0, 4.0) if gamma else sigmoid(0.1, 2),
    )
    noise = dist.Gamma(4.0, 8.0) if gamma else sigmoid(0.05, 1)
    known = {
        "gaussian": seqgp.likelihoods.Gaussian(noise),
        "bernoulli": seqgp.likelihoods.Likelihood(lambda f, context: dist.Bernoulli(logits=2 * f), pointwise=True),
        "poisson": seqgp.likelihoods.Likelihood(lambda f, context: dist.Poisson(2 * jnp.exp(f)), pointwise=True),
        "student": seqgp.likelihoods.StudentT(noise, df=4.0),
        "censored": seqgp.likelihoods.Censored(noise, limit=0.0),
    }
    data = known[likelihood]
    if mutant:
        data = seqgp.likelihoods.Likelihood(
            lambda f, context, noise: dist.Normal(f, noise**2), pointwise=True, noise=noise
        )
    return seqgp.Model(kernel, data, mean=sigmoid(-1, 1), jitter=1e-6)


class Case(NamedTuple):
    """A sampler to be calibrated, or a mutant to be found out."""

    truth: seqgp.Model
    sampler: Callable[[], Any]
    steps: int = 1
    mutant: bool = False
    claims: bool = True  # to be exact; where it does not, what is found is only told
    piece: Piece | None = None  # one of many, so that it is run a fifth as long
    broken: Callable[[], AbstractContextManager[Any]] = nullcontext  # what a mutant runs in


def online(of: seqgp.Model, paths: int | str = 0) -> Callable[[], Any]:
    return lambda: seqgp.OnlineSampler(of, particles=128, draws=99, order=6, paths=paths)


@contextmanager
def broken(**replaced: Any) -> Iterator[None]:
    """The correction by paths with some of its functions replaced; nothing that was compiled is used in it or after."""
    with ExitStack() as stack:
        for name, function in replaced.items():
            stack.enter_context(mock.patch.object(exact if hasattr(exact, name) else paths_module, name, function))
        stack.callback(engine.forget)
        engine.forget()
        yield


def sites_alone(key: Any, history: Any, log_prob: Any, sites: Any, **settings: Any) -> Any:
    """Paths weighed by the site of each datum in place of its likelihood."""
    return paths_module.smc_paths(
        key, history._replace(data=sites), lambda f, site: site.nu * f - 0.5 * site.tau * f**2, sites, **settings
    )


def no_resampling(uniform: Any, weights: Any) -> Any:
    """Paths that go on as they are, while their weights are forgotten as if they had been resampled."""
    return jnp.arange(weights.shape[0])


def at_once(of: seqgp.Model) -> Callable[[], Any]:
    return lambda: seqgp.FullSampler(of, thin=10, updates="plain", **FULL)


def initial(of: seqgp.Model, updates: str) -> Callable[[], Any]:
    thin, warmup = (10, 200) if updates == "plain" else (5, 200)
    return lambda: seqgp.SequentialSampler(of, draws=99, chains=1, warmup=warmup, thin=thin, updates=updates)


def sampler_cases() -> dict[str, Case]:
    """The samplers on three likelihoods and two sets of priors, and their mutants, by name."""
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
    for data in ("poisson", "bernoulli", "student", "censored"):
        of_data = model(data)
        for steps in (10, 50):
            found[f"online, {data}, {steps} snapshots, paths"] = Case(of_data, online(of_data, "auto"), steps)
    narrow = model(spread=1.5 / 2**0.5)
    narrow_counts = model("poisson", spread=1.5 / 2**0.5)
    twice = Case(counts, online(narrow_counts, "auto"), 10, mutant=True)
    found["mutant: online, poisson, paths, prior counted twice"] = twice
    sites = twice._replace(sampler=online(counts, "auto"), broken=lambda: broken(smc_paths=sites_alone))
    found["mutant: online, poisson, paths, site taken for the likelihood"] = sites
    student = model("student")
    lost = Case(student, online(student, 16), 50, mutant=True, broken=lambda: broken(systematic_indices=no_resampling))
    found["mutant: online, student, 50 snapshots, paths without resampling"] = lost
    found["mutant: online, prior counted twice"] = Case(of, online(narrow), 10, mutant=True)
    found["mutant: online, variance as sd"] = Case(of, online(model(mutant=True)), 10, mutant=True)
    found["collapsed, gaussian, 2 snapshots"] = Case(of, lambda: CollapsedSampler(of, thin=5, **FULL), 2)
    found["mutant: variance as sd"] = Case(of, initial(model(mutant=True), "plain"), mutant=True)
    found["mutant: prior counted twice"] = Case(of, initial(model(spread=1.5 / 2**0.5), "plain"), mutant=True)
    return found


SAMPLERS = ("initial, plain", "initial, informed", "full", "online")


def piece_cases() -> dict[str, Case]:
    """Every ready-made likelihood, kernel and mean with every sampler that takes it: ``likelihood: Poisson: full``.

    A single snapshot says nothing of a kernel of time, and the sequential sampler does not take kernels that move;
    filters are exact for Gaussian data alone.
    """
    found = {}
    for kind, pieces in PIECES.items():
        for name, piece in pieces.items():
            of = piece.model
            if of.likelihood.by_station:  # particles alone learn the noises
                found[f"{kind}: {name}: {SAMPLERS[-1]}"] = Case(of, online(of), 4, piece=piece)
                continue
            cases = (
                Case(of, initial(of, "plain")),
                Case(of, initial(of, "informed")),
                Case(of, at_once(of), 2),
                Case(of, online(of), 4, claims=of.likelihood.conjugate),
            )
            for sampler, case in zip(SAMPLERS, cases):
                if kind not in ("kernel of time", "moving kernel") or case.steps > 1:
                    found[f"{kind}: {name}: {sampler}"] = case._replace(piece=piece)
    return found


class Outcome(NamedTuple):
    """A case and what came of it."""

    case: Case
    found: Calibration
    seconds: float

    @property
    def expected(self) -> str:
        return "p < 1e-3" if self.case.mutant else "p > 1e-3" if self.case.claims else "not exact"

    @property
    def as_expected(self) -> bool:
        """Whether an exact sampler passed, or a mutant was found out."""
        return not self.case.claims or self.found.calibrated(LEVEL) != self.case.mutant

    @property
    def worst(self) -> str:
        return min(self.found.corrected, key=lambda quantity: self.found.corrected[quantity])

    @property
    def smallest(self) -> str:
        return f"{self.found.corrected[self.worst]:.2g}{'' if self.as_expected else ' **not met**'}"


def run_case(name: str, case: Case, simulations: int, seed: int) -> Outcome:
    start = time.perf_counter()
    design = (case.piece or Piece(case.truth)).design(case.steps)
    count = simulations if case.piece is None else shortened(simulations)
    with case.broken():
        found = seqgp.calibrate(jax.random.key(seed), case.truth, case.sampler(), count, design=design)
    seconds = time.perf_counter() - start
    print(f"{name}: smallest corrected p {min(found.corrected.values()):.2g}, {seconds:.0f} s", flush=True)
    return Outcome(case, found, seconds)


def head(title: str, command: str, minutes: float, seed: int, simulations: int) -> list[str]:
    return [
        f"# {title}",
        "",
        "Simulation-based calibration (`seqgp.calibrate`) draws parameters, latent function and data from the",
        "model, runs the sampler on the data, and ranks the true values among 99 of its draws. If the draws come",
        "from the posterior, the ranks are uniform. Each quantity (every parameter, three values of the latent",
        "function, the log likelihood and the log prior) has a chi-square test, with Holm's correction over the",
        "quantities of a case.",
        "",
        f"`{command}` generates this page; do not edit it.",
        "",
        f"{length(seed, simulations)}, {datetime.date.today().isoformat()}, {versions()}; {minutes:.0f} minutes.",
        "",
    ]


def length(seed: int, simulations: int) -> str:
    return f"Seed {seed}, {simulations} simulations a case"


def versions() -> str:
    found = [f"{name} {importlib.metadata.version(name)}" for name in ("seqgp", "jax", "numpyro")]
    return ", ".join([*found, f"Python {platform.python_version()}"])


def samplers_page(results: dict[str, Outcome], args: argparse.Namespace) -> str:
    """A row for each case, then every quantity of each."""
    minutes = sum(one.seconds for one in results.values()) / 60
    lines = head("Calibration", "make calibrate", minutes, args.seed, args.simulations)
    lines += [
        "| case | expected | smallest corrected p | of | failed simulations | median ESS of 99 | seconds |",
        "|---|---|---|---|---|---|---|",
    ]
    for name, one in results.items():
        ess = "–" if np.isnan(one.found.ess).all() else f"{np.median(one.found.ess):.0f}"
        cells = (name, one.expected, one.smallest, one.worst, len(one.found.failures), ess, f"{one.seconds:.0f}")
        lines.append(f"| {' | '.join(map(str, cells))} |")
    lines += ["", "## Every quantity", ""]
    for name, one in results.items():
        lines += [f"### {name}", "", one.found.table(), ""]
    return "\n".join(lines)


def models_page(cells: dict[str, str], minutes: float, args: argparse.Namespace) -> str:
    """A table for likelihoods, kernels and means, with a row for each and a column for each sampler."""
    lines = head("Calibration of every model", "make models", minutes, args.seed, shortened(args.simulations))
    lines += [
        "The tables combine each likelihood, kernel and mean, in a small model with eight data per snapshot and",
        "priors for all parameters, with each sampler that accepts it: the first step of the sequential sampler,",
        "with plain and with informed updates; the full sampler over two snapshots; the online sampler over four.",
        "A cell has the smallest corrected p of a case, and its quantity. If all is right, one in a thousand is",
        "below 1e-3. Filters are exact for Gaussian data; *italics* mark cases where they approximate. One",
        "snapshot says nothing about a time kernel. A number in brackets counts simulations that failed.",
        "",
        f"{len(cells)} of {len(piece_cases())} cases have run; the command resumes with the others.",
        "",
    ]
    for kind, pieces in PIECES.items():
        lines += [f"## {kind.capitalize()}", "", f"| | {' | '.join(SAMPLERS)} |", "|---" * (len(SAMPLERS) + 1) + "|"]
        for piece in pieces:
            row = [cells.get(f"{kind}: {piece}: {sampler}", "") for sampler in SAMPLERS]
            lines.append(f"| {piece} | {' | '.join(row)} |")
        lines.append("")
    return "\n".join(lines)


def kept(path: Path, args: argparse.Namespace) -> tuple[dict[str, str], float]:
    """The cells of a page of the same length and versions, by the names of their cases, and the minutes they took."""
    text = path.read_text() if path.exists() else ""
    same = rf"^{re.escape(length(args.seed, shortened(args.simulations)))}, \S+, {re.escape(versions())}; (\d+) minutes"
    found = re.search(same, text, re.MULTILINE)
    cells, kind = {}, ""
    for line in text.splitlines() if found else []:
        if line.startswith("## "):
            kind = line[3:].lower()
        elif kind and line.startswith("| ") and not line.startswith("| |"):
            piece, *row = (part.strip() for part in line.strip("|").split("|"))
            cells |= {f"{kind}: {piece}: {sampler}": text for sampler, text in zip(SAMPLERS, row) if text}
    return cells, float(found[1]) if found else 0.0


def cell(one: Outcome) -> str:
    """What the table of models says of a case."""
    failed = f" ({len(one.found.failures)} failed)" if one.found.failures else ""
    text = f"{one.smallest} {one.worst}{failed}"
    return text if one.case.claims else f"*{text}*"


def calibrate_models(folder: Path, args: argparse.Namespace) -> list[str]:
    """Case by case, each on the page as soon as it is done; those that are there already are kept."""
    path = folder / "calibration_models.md"
    cells, minutes = kept(path, args)
    for name, case in piece_cases().items():
        if name not in cells and chosen(name, args):
            one = run_case(name, case, args.simulations, args.seed)
            cells[name], minutes = cell(one), minutes + one.seconds / 60
            path.write_text(models_page(cells, minutes, args))
    return [name for name, text in cells.items() if "not met" in text]


def calibrate_samplers(folder: Path, args: argparse.Namespace) -> list[str]:
    """The exact samplers and their mutants; with a figure of the ranks of each in ``out/calibration``."""
    results: dict[str, Outcome] = {}
    for name, case in sampler_cases().items():
        if chosen(name, args):
            results[name] = run_case(name, case, args.simulations, args.seed)
            (folder / "calibration.md").write_text(samplers_page(results, args))
    for name, one in results.items():
        one.found.plot().savefig(OUT / f"{name.replace(' ', '_').replace(',', '').replace(':', '')}.png")
    return [name for name, one in results.items() if not one.as_expected]


def chosen(name: str, args: argparse.Namespace) -> bool:
    return args.only is None or any(part in name for part in args.only)


def shortened(simulations: int) -> int:
    """The number of simulations of one likelihood, kernel or mean."""
    return max(simulations // SHORT, 20)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", action="store_true", help="every likelihood, kernel and mean with every sampler")
    parser.add_argument("--simulations", type=int, default=500)
    parser.add_argument("--seed", type=int, default=2026)
    parser.add_argument("--only", nargs="+", help="parts of the names of cases")
    parser.add_argument("--quick", action="store_true", help="few simulations, written to out/ only")
    args = parser.parse_args()
    seqgp.enable_x64()
    if args.quick:
        args.simulations = 40
    folder = OUT if args.quick or args.only else Path("docs")
    OUT.mkdir(parents=True, exist_ok=True)
    failed = (calibrate_models if args.models else calibrate_samplers)(folder, args)
    print(f"written to {folder}" + (f"; not as expected: {'; '.join(failed)}" if failed else ""))
    return 1 if failed and not args.quick else 0


if __name__ == "__main__":
    sys.exit(main())
