"""Networks of many stations with gaps: what a step costs, and which filter runs.

python -m experiments.large_networks [--sites 1000] [--steps 3] [--particles 64] [--missing 0.1] [--map 0]
    [--figure FILE] [--write] [--quick]

Prints for each step the filter steps of a particle, the different eigenvectors in use, seconds without compilation and
the peak memory of the process; at the end what ``info.extras`` tells. Counts do not depend on the machine, seconds do.
With ``--map`` the last state predicts so many points one by one (``joint=False``); ``--figure`` draws a map, and
``--write`` puts it with a table into ``docs/networks.md``. A run that does not fit into memory ends in the sampler's
error.
"""

from __future__ import annotations

import argparse
import resource
import time
from pathlib import Path

import jax
import matplotlib.pyplot as plt
import numpy as np
import numpyro.distributions as dist

import seqgp
from experiments.comparison import markdown
from seqgp.samplers.online.programs import SharedMatrices

PAGE = Path(__file__).parents[1] / "docs" / "networks.md"
FIGURE = "networks_large.png"
SECTION = "## A thousand stations over 60 days"


def network_model() -> seqgp.Model:
    """Four parameters in particles, and a mean level in the state."""
    return seqgp.Model(
        kernel=seqgp.Separable(
            time=seqgp.kernels.Matern32(dist.LogNormal(1.0, 0.5)),
            space=seqgp.kernels.Matern32(dist.LogNormal(np.log(0.3), 0.5)),
            scale=dist.LogNormal(0.0, 0.5),
        ),
        likelihood=seqgp.likelihoods.Gaussian(noise=dist.LogNormal(np.log(0.3), 0.5)),
        mean=dist.Normal(0.0, 2.0),
    )


def simulated_network(
    num_sites: int, steps: int, missing: float, seed: int = 0, waves: int = 400
) -> list[seqgp.Snapshot]:
    """An autoregression of fields made of random waves (a Matérn-3/2 spectrum), which cost ``N`` operations each."""
    rng = np.random.default_rng(seed)
    x = rng.random((num_sites, 2))
    frequency = rng.standard_normal((waves, 2)) / np.sqrt(rng.chisquare(3, (waves, 1)) / 3) / 0.3
    phase = x @ frequency.T
    basis = np.concatenate([np.cos(phase), np.sin(phase)], axis=1) / np.sqrt(waves)
    weights, found = rng.standard_normal(2 * waves), []
    for t in range(steps):
        weights = 0.8 * weights + 0.6 * rng.standard_normal(2 * waves)
        y = 1.0 + basis @ weights + 0.3 * rng.standard_normal(num_sites)
        y[rng.random(num_sites) < missing] = np.nan
        found.append(seqgp.Snapshot(float(t), x, y))
    return found


def eigenvectors_in_use(state: seqgp.OnlineState) -> int:
    """How many different matrices of eigenvectors the particles have."""
    groups = [matrices for matrices, _ in state.live.filters.groups]
    if not isinstance(groups[0], SharedMatrices):
        return len(state.particles.z)
    return len({id(one) for matrices in groups for one in matrices.bases})


def predict_map(model: seqgp.Model, state: seqgp.OnlineState, points: int) -> float:
    """Seconds of a map, point by point."""
    line = np.linspace(0, 1, int(np.sqrt(points)))
    x = np.stack(np.meshgrid(line, line), axis=-1).reshape(-1, 2)
    start = time.perf_counter()
    prediction = seqgp.predict(jax.random.key(1), model, state, x, joint=False)
    assert np.isfinite(np.asarray(prediction.f)).all()
    return time.perf_counter() - start


def draw_map(model: seqgp.Model, state: seqgp.OnlineState, side: int, file: Path) -> None:
    """Posterior mean and standard deviation of ``f`` on the last day, and the stations."""
    line, last = np.linspace(0, 1, side), state.snapshots[-1]
    x = np.stack(np.meshgrid(line, line), axis=-1).reshape(-1, 2)
    f = np.asarray(seqgp.predict(jax.random.key(1), model, state, x, joint=False).f)
    figure, axes = plt.subplots(1, 2, figsize=(9, 3.8), layout="constrained")
    missing = np.isnan(last.y)
    for axis, values, name in zip(axes, (f.mean(axis=0), f.std(axis=0)), ("mean", "standard deviation")):
        figure.colorbar(axis.pcolormesh(line, line, values.reshape(side, side)), ax=axis, label=name)
        axis.plot(*last.x[~missing].T, "k.", markersize=1.5)
        axis.plot(*last.x[missing].T, "kx", markersize=3)
        axis.set(aspect="equal")
    figure.savefig(file, dpi=110)


def section(args: argparse.Namespace, infos: list[seqgp.OnlineInfo], peak: float) -> str:
    """Of the page: what the steps took."""
    seconds, last = np.array([info.seconds for info in infos]), infos[-1]
    rank = f"rank {last.extras['low_rank']:.0f}"
    if "leading_modes" in last.extras:
        rank += f", {last.extras['leading_modes']:.0f} leading modes"
    body = [
        ["filter", f"{last.settings['filter']}, {rank}"],
        ["spread of log evidence between particles, against twice the rank", f"{last.extras['low_rank_spread']:.3f}"],
        ["first step", f"{seconds[0]:.1f} s"],
        ["median step after it", f"{np.median(seconds[1:]):.1f} s"],
        ["longest step after it", f"{seconds[1:].max():.1f} s"],
        ["all steps, compilation included", f"{(seconds.sum() + sum(i.compile_seconds for i in infos)) / 60:.1f} min"],
        ["peak memory", f"{peak:.1f} GB"],
    ]
    command = f"--sites {args.sites} --steps {args.steps} --missing {args.missing} --write"
    what = "Posterior mean and standard deviation on the last day; dots are stations, crosses those without a value"
    return "\n".join([
        SECTION,
        "",
        "```bash",
        f"python -m experiments.large_networks {command}",
        "```",
        "",
        f"simulates {args.sites:,} stations over {args.steps} days, {args.missing:.0%} of the values missing, and",
        f"follows them with {args.particles} particles. On two cores:",
        "",
        markdown(["", ""], body),
        "",
        f"![{what}]({FIGURE})",
        "",
    ])  # fmt: skip


def write(text: str) -> None:
    """Into the page, at its end or in the place of the section before."""
    before, _, after = PAGE.read_text().partition(SECTION)
    _, heading, rest = after.partition("\n## ")
    PAGE.write_text(f"{before.rstrip()}\n\n{text.strip()}\n" + (f"{heading}{rest}" if heading else ""))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sites", type=int, default=1000)
    parser.add_argument("--steps", type=int, default=3)
    parser.add_argument("--particles", type=int, default=64)
    parser.add_argument("--missing", type=float, default=0.1)
    parser.add_argument("--map", type=int, default=0, help="points to predict at the end")
    parser.add_argument("--figure", type=Path, help="a file for a map of 100 x 100 points")
    parser.add_argument("--write", action="store_true", help=f"write docs/{PAGE.name} and docs/{FIGURE}")
    parser.add_argument("--quick", action="store_true", help="a small version that only shows that it runs")
    args = parser.parse_args()
    if args.quick:
        args.sites, args.steps, args.particles, args.map = 220, 2, 16, 25
    seqgp.enable_x64()
    model = network_model()
    sampler, state, infos, peak = seqgp.OnlineSampler(model, particles=args.particles, draws=200), None, [], 0.0
    for i, snapshot in enumerate(simulated_network(args.sites, args.steps, args.missing)):
        key = jax.random.fold_in(jax.random.key(0), i)
        state, info = sampler.init(key, snapshot) if state is None else sampler.step(key, state, snapshot)
        infos.append(info)
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
        print(
            f"t = {snapshot.t:g}: {info.settings['filter']}, {info.extras['filter_steps']} filter steps, "
            f"{eigenvectors_in_use(state)} matrices of eigenvectors, {info.seconds:.1f} s, ESS {info.ess:.0f}, "
            f"log evidence {info.log_evidence:.1f}, peak memory {peak:.1f} GB",
            flush=True,
        )
    info = infos[-1]
    print({name: value for name, value in info.extras.items() if name != "lost"}, *info.warnings, sep="\n")
    if args.figure:
        assert isinstance(state, seqgp.OnlineState)
        draw_map(model, state, 20 if args.quick else 100, args.figure)
    if args.write:
        assert isinstance(state, seqgp.OnlineState)
        draw_map(model, state, 100, PAGE.with_name(FIGURE))
        write(section(args, infos, peak))
    if args.map:
        assert isinstance(state, seqgp.OnlineState)
        print(f"a map of {args.map} points: {predict_map(model, state, args.map):.1f} s")


if __name__ == "__main__":
    main()
