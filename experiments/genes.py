"""Gene regulation: the activity of a transcription factor, from the expression of five genes that it drives.

python -m experiments.genes [--particles 512] [--draws 1000] [--seed 0] [--quick]

``dx_j/dt = B_j + S_j f(t) − D_j x_j`` for five genes, at rest before ``t = 0``; each is measured at seven times, in
three replicates. The activity ``f`` is the latent, on a grid of time; the likelihood solves the equations, and sees all
of it. Replicates are snapshots: the activity of each is much like that of the one before. One gene has a known
sensitivity and decay, as its measured decay serves in Barenco et al. (2006) and Lawrence et al. (2007). NumPyro's NUTS
on all replicates at once says what the posterior is. Writes a figure and the tables to ``out/genes``.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import matplotlib
import matplotlib.pyplot as plt
import numpy as np
import numpyro
import numpyro.distributions as dist

import seqgp
from experiments.comparison import markdown

OUT = Path("out/genes")
TIMES = np.arange(0.0, 12.1, 2.0)  # hours
GRID = np.arange(0.0, 12.01, 0.5)
BASAL = np.array([0.20, 0.40, 0.10, 0.30, 0.15])
SENSITIVITY = np.array([1.0, 0.8, 1.5, 0.6, 1.2])
DECAY = np.array([0.8, 0.4, 0.6, 0.3, 1.0])
NOISE = 0.1
QUANTILES = (0.025, 0.5, 0.975)
KERNEL = {
    "time.lengthscale": dist.LogNormal(3.0, 0.7),
    "space.lengthscale": dist.LogNormal(0.7, 0.5),
    "scale": dist.LogNormal(0.0, 0.5),
}
KINETICS = {
    "basal": dist.LogNormal(-1.5, 0.7),
    "sensitivity": dist.LogNormal(0.0, 0.7),
    "decay": dist.LogNormal(-0.7, 0.5),
}
GENES = {"basal": 5, "sensitivity": 4, "decay": 4}
NOISE_PRIOR = dist.LogNormal(-2.0, 0.7)


class Experiment(NamedTuple):
    """Simulated replicates, and their activities."""

    snapshots: list[seqgp.Snapshot]
    activity: np.ndarray  # (replicates, grid)


def expression(f: Any, basal: Any, sensitivity: Any, decay: Any) -> Any:
    """``x_j`` at the seven times, ``(genes, times)``: exact for an activity that is linear between grid points.

    ``x(t) = B/D + S ∫ exp(−D (t − u)) f(u) du``, the integral piece by piece.
    """
    h = GRID[1] - GRID[0]
    rate = jnp.asarray(decay)[:, None, None]
    since = TIMES[None, :, None] - GRID[None, None, 1:]  # from the end of each piece
    kept = jnp.where(since >= -1e-9, jnp.exp(-rate * jnp.maximum(since, 0.0)), 0.0)
    level = (1 - jnp.exp(-rate * h)) / rate
    slope = (1 - level / h) / rate
    pieces = level * f[:-1] + slope * (f[1:] - f[:-1])
    return jnp.asarray(basal / decay)[:, None] + jnp.asarray(sensitivity)[:, None] * jnp.sum(kept * pieces, axis=-1)


def measured(f, context, basal, sensitivity, decay, noise):
    """All genes; of the first, sensitivity and decay are known."""
    sensitivity = jnp.concatenate([SENSITIVITY[:1], sensitivity])
    decay = jnp.concatenate([DECAY[:1], decay])
    return dist.Normal(expression(f, basal, sensitivity, decay), noise)


def model(smooth: Any = seqgp.kernels.SquaredExponential) -> seqgp.Model:
    """An activity of some hours' length that is alike from replicate to replicate."""
    time, space, scale = KERNEL.values()
    kinetics: dict[str, Any] = {name: [prior] * GENES[name] for name, prior in KINETICS.items()}
    return seqgp.Model(
        kernel=seqgp.Separable(time=seqgp.kernels.Matern12(time), space=smooth(space), scale=scale),
        mean=0.0,
        likelihood=seqgp.likelihoods.Likelihood(measured, **kinetics, noise=NOISE_PRIOR),
    )


def refit_model(y: Any) -> None:
    """The same model of all replicates ``(replicates, genes, times)``, written for NumPyro."""
    drawn = {name: numpyro.sample(name, prior) for name, prior in KERNEL.items()}
    own: dict[str, Any] = {
        name: numpyro.sample(name, prior.expand([GENES[name]]).to_event(1)) for name, prior in KINETICS.items()
    }
    own["noise"] = numpyro.sample("noise", NOISE_PRIOR)
    white = numpyro.sample("white", dist.Normal(jnp.zeros((len(y), len(GRID))), 1.0).to_event(2))
    t = jnp.arange(len(y))
    over = jnp.exp(-jnp.abs(t[:, None] - t) / drawn["time.lengthscale"])
    within = jnp.exp(-0.5 * ((GRID[:, None] - GRID) / drawn["space.lengthscale"]) ** 2) + 1e-8 * jnp.eye(len(GRID))
    activity = drawn["scale"] * jnp.linalg.cholesky(over) @ white @ jnp.linalg.cholesky(within).T
    for i, f in enumerate(activity):
        numpyro.sample(f"y{i}", measured(f, None, **own), obs=y[i])


def refitted(data: Experiment, draws: int, seed: int) -> tuple[dict[str, np.ndarray], float]:
    """Draws of the parameters by NUTS on all replicates at once, and seconds."""
    mcmc = numpyro.infer.MCMC(numpyro.infer.NUTS(refit_model), num_warmup=draws, num_samples=draws, progress_bar=False)
    start = time.perf_counter()
    mcmc.run(jax.random.key(seed), jnp.stack([jnp.asarray(snapshot.y) for snapshot in data.snapshots]))
    return {name: np.asarray(value) for name, value in mcmc.get_samples().items()}, time.perf_counter() - start


def simulated(seed: int, replicates: int) -> Experiment:
    """Two pulses of activity, a little different in each replicate, and noisy measurements."""
    rng = np.random.default_rng(seed)
    pulses = 2.2 * np.exp(-0.5 * ((GRID - 3) / 1.3) ** 2) + 0.9 * np.exp(-0.5 * ((GRID - 8.5) / 1.6) ** 2)
    activity, snapshots = [], []
    for i in range(replicates):
        f = pulses + 0.1 * np.sin(2 * np.pi * GRID / 12 + rng.uniform(0, 2 * np.pi))
        clean = np.asarray(expression(jnp.asarray(f), BASAL, SENSITIVITY, DECAY))
        activity.append(f)
        snapshots.append(seqgp.Snapshot(float(i), GRID[:, None], clean + NOISE * rng.standard_normal(clean.shape)))
    return Experiment(snapshots, np.array(activity))


def sampled(
    which: seqgp.Model, data: Experiment, args: argparse.Namespace
) -> tuple[seqgp.Run, list[np.ndarray], float]:
    """A run over the replicates, the draws of each activity, and seconds."""
    sampler = seqgp.OnlineSampler(which, particles=args.particles, draws=args.draws)
    found, start = [], time.perf_counter()

    def note(state: seqgp.State, info: seqgp.Info) -> None:
        found.append(np.asarray(state.latent))

    run = seqgp.run(sampler, data.snapshots, jax.random.key(args.seed), callbacks=note)
    return run, found, time.perf_counter() - start


def activity_table(found: list[np.ndarray], truth: np.ndarray) -> str:
    """Each replicate's activity against the truth."""
    rows = []
    for i, (draws, true) in enumerate(zip(found, truth)):
        low, high = np.quantile(draws, [0.025, 0.975], axis=0)
        error = np.sqrt(np.mean((draws.mean(axis=0) - true) ** 2))
        width, inside = np.mean(high - low), np.mean((low <= true) & (true <= high))
        rows.append([str(i + 1), f"{error:.3f}", f"{width:.3f}", f"{inside:.0%}"])
    head = ["replicate", "rms error of the activity", "width of 95% bands", "hold the truth at"]
    return markdown(head, rows)


def parameter_table(parameters: dict[str, Any], reference: dict[str, np.ndarray]) -> str:
    """The kinetic parameters after all replicates, beside those of the reference, and how far apart the two are."""
    truth = {"basal": BASAL, "sensitivity": SENSITIVITY[1:], "decay": DECAY[1:], "noise": np.array([NOISE])}
    rows, inside, apart, ratio = [], [], [], []
    for name, values in truth.items():
        ours, theirs = (np.asarray(one[name]).reshape(-1, len(values)) for one in (parameters, reference))
        for j, true in enumerate(values):
            low, middle, high = np.quantile(ours[:, j], QUANTILES)
            other = np.quantile(theirs[:, j], QUANTILES)
            gene = "" if name == "noise" else str(j + 1 + 5 - len(values))
            said = [f"{q[1]:.2f} ({q[0]:.2f} to {q[2]:.2f})" for q in ((low, middle, high), other)]
            rows.append([name, gene, f"{true:.2f}", *said])
            inside.append(low <= true <= high)
            a, b = np.log(ours[:, j]), np.log(theirs[:, j])
            apart.append(abs(a.mean() - b.mean()) / b.std())
            ratio.append(a.std() / b.std())
    return (
        markdown(["parameter", "gene", "truth", "online: median (95%)", "NumPyro: median (95%)"], rows)
        + f"\n\n{sum(inside)} of {len(inside)} are inside their 95% intervals. From NumPyro's, the means of their logs "
        f"are at most {max(apart):.2f} sds apart, and the ratios of sds are {min(ratio):.2f} to {max(ratio):.2f}."
    )


def figure(found: list[np.ndarray], data: Experiment, parameters: dict[str, Any]) -> plt.Figure:
    """The activity of the first and the last replicate, and the expression of all genes in the last."""
    picture, axes = plt.subplots(1, 3, figsize=(12, 3.6), constrained_layout=True)
    for axis, i in zip(axes, (0, len(found) - 1)):
        low, middle, high = np.quantile(found[i], QUANTILES, axis=0)
        axis.fill_between(GRID, low, high, color="C0", alpha=0.25, lw=0, label="95%")
        axis.plot(GRID, middle, color="C0", label="median")
        axis.plot(GRID, data.activity[i], "k--", lw=1, label="truth")
        axis.set(title=f"activity after {i + 1} replicate{'s' if i else ''}", xlabel="hours")
        axis.legend(frameon=False)
    drawn = {name: jnp.asarray(parameters[name]) for name in ("basal", "sensitivity", "decay", "noise")}
    fitted = jax.vmap(lambda f, p: measured(f, None, **p).loc)(jnp.asarray(found[-1]), drawn)
    for j in range(len(BASAL)):
        low, _, high = np.quantile(np.asarray(fitted)[:, j], QUANTILES, axis=0)
        axes[2].fill_between(TIMES, low, high, color=f"C{j}", alpha=0.3, lw=0)
        axes[2].plot(TIMES, data.snapshots[-1].y[j], "o", color=f"C{j}", ms=4, label=f"gene {j + 1}")
    axes[2].set(title="expression, last replicate", xlabel="hours")
    axes[2].legend(frameon=False, ncols=2)
    return picture


def parse(argv: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--replicates", type=int, default=3)
    parser.add_argument("--particles", type=int, default=512)
    parser.add_argument("--draws", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=OUT)
    parser.add_argument("--quick", action="store_true", help="a small version that only shows that it runs")
    args = parser.parse_args(argv)
    if args.quick:
        args.replicates, args.particles, args.draws = 2, 32, 60
    return args


def main(argv: list[str] | None = None) -> dict[str, seqgp.Run]:
    args = parse(argv)
    seqgp.enable_x64()
    matplotlib.use("agg")
    args.out.mkdir(parents=True, exist_ok=True)
    data, runs, found = simulated(args.seed, args.replicates), {}, {}
    for kernel in (seqgp.kernels.SquaredExponential, seqgp.kernels.Matern12):
        name = kernel.__name__
        runs[name], found[name], seconds = sampled(model(kernel), data, args)
        print(f"{name}: {seconds:.0f} s; {'; '.join(runs[name].infos[-1].warnings) or 'no warnings'}", flush=True)
    best, parameters = found["SquaredExponential"], dict(runs["SquaredExponential"].state.parameters)
    reference, seconds = refitted(data, args.draws, args.seed)
    print(f"NumPyro: {seconds:.0f} s", flush=True)
    pieces = [activity_table(best, data.activity), parameter_table(parameters, reference), str(seqgp.compare(runs))]
    text = "\n\n".join(pieces) + "\n"
    (args.out / "tables.md").write_text(text)
    print("\n" + text)
    figure(best, data, parameters).savefig(args.out / "genes.png", dpi=100)
    return runs


if __name__ == "__main__":
    main()
