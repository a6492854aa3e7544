"""Labels over time: simulated fields of log odds, each new time beside a refit of everything with NumPyro.

python -m experiments.classification [--datasets 2] [--steps 5] [--particles 128] [--quick]

Twenty stations report a zero or a one at each time; their log odds are a field that drifts. After each time the
probabilities on a grid between the stations are found: by the online sampler, which has seen each snapshot once, and by
NumPyro's NUTS on all data so far, started anew. Scored against labels that nobody saw, and against the true
probabilities. Writes a figure and the tables to ``out/classification``.
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
from scipy.special import expit

import seqgp
from experiments.comparison import markdown

OUT = Path("out/classification")
PRIORS = {
    "time.lengthscale": dist.LogNormal(1.5, 0.5),
    "space.lengthscale": dist.LogNormal(-0.7, 0.5),
    "scale": dist.LogNormal(0.7, 0.4),
    "mean": dist.Normal(0.0, 1.0),
}
ONLINE, REFIT, KNOWN = "online", "NumPyro, refitted", "true probabilities"


class DataSet(NamedTuple):
    """Simulated labels, and what they were simulated from."""

    snapshots: list[seqgp.Snapshot]
    grid: np.ndarray  # (n, 2): where probabilities are found
    probability: np.ndarray  # (steps, n): true ones there
    label: np.ndarray  # (steps, n): drawn from them


def model(time: Any = seqgp.kernels.Matern32) -> seqgp.Model:
    """Log odds that drift over several times, and vary over half the square."""
    return seqgp.Model(
        kernel=seqgp.Separable(
            time(PRIORS["time.lengthscale"]), seqgp.kernels.Matern32(PRIORS["space.lengthscale"]), PRIORS["scale"]
        ),
        mean=PRIORS["mean"],
        likelihood=seqgp.likelihoods.Bernoulli(),
    )


def matern32(r: Any) -> Any:
    """The correlation at a scaled distance."""
    return (1 + 3**0.5 * r) * jnp.exp(-(3**0.5) * r)


def covariance(points: Any, others: Any, time: Any, space: Any, scale: Any) -> Any:
    """Of points ``(t, x_1, x_2)``."""
    t = jnp.abs(points[:, None, 0] - others[None, :, 0])
    square = jnp.sum((points[:, None, 1:] - others[None, :, 1:]) ** 2, axis=-1)
    apart = jnp.where(square > 0, jnp.sqrt(jnp.where(square > 0, square, 1.0)), 0.0)
    return scale**2 * matern32(t / time) * matern32(apart / space)


def with_time(t: float, x: np.ndarray) -> np.ndarray:
    return np.column_stack([np.full(len(x), t), x])


def simulated(seed: int, n: int, side: int, steps: int) -> DataSet:
    """A field of log odds from the model at fixed parameters, and labels at stations and on a grid."""
    rng = np.random.default_rng(seed)
    stations = rng.random((n, 2))
    middle = (np.arange(side) + 0.5) / side
    grid = np.stack(np.meshgrid(middle, middle, indexing="ij"), axis=-1).reshape(-1, 2)
    both = np.concatenate([stations, grid])
    points = np.concatenate([with_time(t, both) for t in range(steps)])
    prior = np.asarray(covariance(points, points, 5.0, 0.5, 2.0))
    f = np.linalg.cholesky(prior + 1e-8 * np.eye(len(points))) @ rng.standard_normal(len(points))
    probability = expit(f).reshape(steps, -1)
    label = (rng.random(probability.shape) < probability).astype(float)
    snapshots = [seqgp.Snapshot(float(t), stations, label[t, :n]) for t in range(steps)]
    return DataSet(snapshots, grid, probability[:, n:], label[:, n:])


def online(data: DataSet, particles: int, draws: int, seed: int) -> tuple[seqgp.Run, np.ndarray, float]:
    """Draws of the probabilities on the grid after each snapshot, ``(steps, draws, n)``, and seconds."""
    sampler, found = seqgp.OnlineSampler(model(), particles=particles, draws=draws, paths=0), []
    key_run, key_grid = jax.random.split(jax.random.key(seed))

    def note(state: seqgp.State, info: seqgp.Info) -> None:
        key = jax.random.fold_in(key_grid, info.step)
        found.append(expit(np.asarray(seqgp.predict(key, sampler.model, state, data.grid).f)))

    start = time.perf_counter()
    run = seqgp.run(sampler, data.snapshots, key_run, callbacks=note, forecast=False)
    return run, np.stack(found), time.perf_counter() - start


def refit_model(points: Any, y: Any, seen: Any) -> None:
    """The same model, written for NumPyro; what was not seen yet takes no part."""
    drawn = {name: numpyro.sample(name, prior) for name, prior in PRIORS.items()}
    lengthscales = drawn["time.lengthscale"], drawn["space.lengthscale"], drawn["scale"]
    white = numpyro.sample("white", dist.Normal(jnp.zeros(len(points)), 1.0).to_event(1))
    root = jnp.linalg.cholesky(covariance(points, points, *lengthscales) + 1e-8 * jnp.eye(len(points)))
    f = numpyro.deterministic("f", drawn["mean"] + root @ white)
    with numpyro.handlers.mask(mask=seen):
        numpyro.sample("y", dist.Bernoulli(logits=f), obs=y)


def on_grid(key: Any, points: Any, grid: Any, time: Any, space: Any, scale: Any, mean: Any, f: Any) -> Any:
    """A draw of the probabilities on the grid, given the log odds at all points."""
    root = jnp.linalg.cholesky(covariance(points, points, time, space, scale) + 1e-8 * jnp.eye(len(points)))
    half = jax.scipy.linalg.solve_triangular(root, covariance(points, grid, time, space, scale), lower=True)
    middle = mean + half.T @ jax.scipy.linalg.solve_triangular(root, f - mean, lower=True)
    left = covariance(grid, grid, time, space, scale) - half.T @ half
    spread = jnp.linalg.cholesky(left + 1e-6 * jnp.eye(len(grid)))
    return jax.nn.sigmoid(middle + spread @ jax.random.normal(key, middle.shape))


def refitted(data: DataSet, warmup: int, draws: int, seed: int) -> tuple[np.ndarray, float]:
    """The same by NUTS on all data so far, anew after each snapshot; compiled once, for all times."""
    points = np.concatenate([with_time(s.t, s.x) for s in data.snapshots])
    y = np.concatenate([s.y for s in data.snapshots])
    mcmc = numpyro.infer.MCMC(
        numpyro.infer.NUTS(refit_model),
        num_warmup=warmup,
        num_samples=draws,
        progress_bar=False,
        jit_model_args=True,
    )
    spread = jax.jit(jax.vmap(on_grid, in_axes=(0, None, None, 0, 0, 0, 0, 0)))
    found, start = [], time.perf_counter()
    for i, snapshot in enumerate(data.snapshots):
        key_fit, key_grid = jax.random.split(jax.random.fold_in(jax.random.key(seed), i))
        mcmc.run(key_fit, points, y, points[:, 0] <= snapshot.t)
        drawn = mcmc.get_samples()
        keys = jax.random.split(key_grid, draws)
        probability = spread(
            keys, points, with_time(snapshot.t, data.grid), *(drawn[name] for name in PRIORS), drawn["f"]
        )
        found.append(np.asarray(probability))
    return np.stack(found), time.perf_counter() - start


def log_loss(probability: np.ndarray, label: np.ndarray) -> float:
    return float(-np.mean(np.log(np.where(label == 1, probability, 1 - probability))))


def row_of(name: str, sets: list[DataSet], found: list[np.ndarray], seconds: str) -> list[str]:
    """Log loss of labels, error of the mean probability, how often 95% bands hold the true one."""
    loss = np.mean([log_loss(each.mean(axis=1), data.label) for each, data in zip(found, sets)])
    error = np.sqrt(np.mean([(each.mean(axis=1) - data.probability) ** 2 for each, data in zip(found, sets)]))
    inside = []
    for each, data in zip(found, sets):
        low, high = np.quantile(each, [0.025, 0.975], axis=1)
        inside.append(np.mean((low <= data.probability) & (data.probability <= high)))
    return [name, f"{loss:.4f}", f"{error:.4f}", f"{np.mean(inside):.1%}", seconds]


def figure(data: DataSet, found: dict[str, np.ndarray]) -> plt.Figure:
    """Probabilities on the grid after the last snapshot, and the bands of both methods against each other."""
    picture, axes = plt.subplots(1, 4, figsize=(13, 3.4), constrained_layout=True)
    side, stations = round(len(data.grid) ** 0.5), data.snapshots[-1]
    maps = {"truth": data.probability[-1]} | {name: each[-1].mean(axis=0) for name, each in found.items()}
    image = None
    for axis, (name, values) in zip(axes, maps.items()):
        image = axis.imshow(
            values.reshape(side, side).T, origin="lower", extent=(0, 1, 0, 1), vmin=0, vmax=1, cmap="coolwarm"
        )
        axis.scatter(*stations.x.T, c=stations.y, cmap="coolwarm", edgecolors="k", s=25)
        axis.set(title=name, xticks=[], yticks=[])
    assert image is not None
    picture.colorbar(image, ax=axes[2], label="probability")
    for q, colour in ((0.025, "C0"), (0.5, "k"), (0.975, "C3")):
        ours, theirs = (np.quantile(each, q, axis=1).ravel() for each in found.values())
        axes[3].plot(theirs, ours, ".", color=colour, ms=3, label=f"{q:.1%}")
    axes[3].plot([0, 1], [0, 1], color="0.7", lw=1, zorder=0)
    axes[3].set(title="quantiles, all times", xlabel=REFIT, ylabel=ONLINE)
    axes[3].legend(frameon=False)
    return picture


def parse(argv: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--datasets", type=int, default=2)
    parser.add_argument("--n", type=int, default=20, help="stations")
    parser.add_argument("--side", type=int, default=6, help="points of the grid along each side")
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--particles", type=int, default=128)
    parser.add_argument("--draws", type=int, default=300, help="of each method, after each time")
    parser.add_argument("--warmup", type=int, default=200, help="of NUTS")
    parser.add_argument("--out", type=Path, default=OUT)
    parser.add_argument("--quick", action="store_true", help="a small version that only shows that it runs")
    args = parser.parse_args(argv)
    if args.quick:
        args.datasets, args.n, args.side, args.steps, args.particles, args.draws, args.warmup = 1, 4, 2, 2, 16, 50, 50
    return args


def main(argv: list[str] | None = None) -> list[list[str]]:
    args = parse(argv)
    seqgp.enable_x64()
    matplotlib.use("agg")
    args.out.mkdir(parents=True, exist_ok=True)
    sets = [simulated(seed, args.n, args.side, args.steps) for seed in range(args.datasets)]
    ours, theirs, runs, seconds = [], [], {}, np.zeros(2)
    for seed, data in enumerate(sets):
        run, found, spent = online(data, args.particles, args.draws, seed)
        again, more = refitted(data, args.warmup, args.draws, seed)
        ours.append(found)
        theirs.append(again)
        seconds += spent, more
        runs.setdefault("Matern32", run)
        print(f"data set {seed}: online {spent:.0f} s, NumPyro {more:.0f} s", flush=True)
    rougher = seqgp.OnlineSampler(model(seqgp.kernels.Matern12), particles=args.particles, draws=args.draws, paths=0)
    runs["Matern12"] = seqgp.run(rougher, sets[0].snapshots, jax.random.key(0), forecast=False)
    exact = [data.probability[:, None] for data in sets]
    rows = [
        row_of(ONLINE, sets, ours, f"{seconds[0]:.0f}"),
        row_of(REFIT, sets, theirs, f"{seconds[1]:.0f}"),
        [*row_of(KNOWN, sets, exact, "")[:3], "", ""],
    ]
    apart = np.mean([np.abs(a.mean(axis=1) - b.mean(axis=1)) for a, b in zip(ours, theirs)])
    head = ["", "log loss", "rms error of probabilities", "95% bands hold the true one", "s"]
    text = f"{markdown(head, rows)}\n\nMean probabilities differ by {apart:.4f} on average.\n\n{seqgp.compare(runs)}\n"
    (args.out / "tables.md").write_text(text)
    print("\n" + text)
    figure(sets[0], {ONLINE: ours[0], REFIT: theirs[0]}).savefig(args.out / "classification.png", dpi=100)
    return rows


if __name__ == "__main__":
    main()
