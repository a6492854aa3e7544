"""A solver as the likelihood, step after step: the online and the sequential sampler against the exact posterior.

python -m experiments.solver_stream [--datasets 3] [--seeds 2] [--steps 4] [--quick]

The diffusion of `experiments.diffusion`, measured at a few times. The exact posterior is that of paths of the whole
stream, drawn by `seqgp.smooth` and weighted by the ratio of the likelihood to the linearisations that the filters took
the data by. Its effective number of draws says how good it is; it is made from a run of its own, with twice the
particles and another seed than those it is compared with, and sees only where those particles are. Writes a table to
`out/solver_stream`.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

import seqgp
from experiments import diffusion
from experiments.comparison import markdown
from experiments.long_run import sampled
from seqgp.samplers.online.update import solver_data
from seqgp.statespace.linearise import log_likelihood

OUT = Path("out/solver_stream")


class Weighted(NamedTuple):
    """The exact posterior after the last snapshot, as weighted draws."""

    z: Float[np.ndarray, "draws d"]
    f: Float[np.ndarray, "draws N"]
    weights: Float[np.ndarray, " draws"]

    @property
    def ess(self) -> float:
        """The effective number of draws."""
        return float(1 / np.sum(self.weights**2))

    def moments(self, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Weighted mean and standard deviation."""
        mean = self.weights @ values
        return mean, np.sqrt(self.weights @ (values - mean) ** 2)


def exact(sampler: seqgp.OnlineSampler, state: seqgp.OnlineState) -> Weighted:
    """Paths of all times, weighted by likelihood over linearisation at each."""
    model, z = sampler.model, np.asarray(state.z)
    times = [snapshot.t for snapshot in state.snapshots]
    paths = seqgp.smooth(jax.random.key(5), sampler, state, times, draws=state.draws)
    parameters = jax.vmap(model.parameters)(jnp.asarray(z))
    log_weights = np.zeros(len(z))
    for snapshot, linearised, f in zip(state.snapshots, state.linearised_snapshots, paths.latent):
        assert linearised is not None
        data, line = solver_data(snapshot), linearised.line

        def log_ratio(one: Any, data: Any = data, line: Any = line) -> Any:
            f, parameters = one
            taken = line.log_density(model.likelihood, *data, parameters, f)
            return log_likelihood(model.likelihood, data, parameters, f) - taken

        ratios = np.asarray(jax.lax.map(log_ratio, (jnp.asarray(f), parameters)))
        log_weights += ratios - linearised.log_correction(z[:, list(sampler.ssm.in_particles)])
    weights = np.exp(log_weights - log_weights.max())
    return Weighted(z, np.asarray(paths.latent[-1]), weights / weights.sum())


def row_of(truth: Weighted, state: Any) -> dict[str, float]:
    """How far draws are from the exact posterior."""
    mean, sd = truth.moments(truth.z)
    f, f_sd = truth.moments(truth.f)
    z, found = np.asarray(state.z), np.asarray(state.latent)
    return {
        "largest bias of a parameter": float(np.abs((z.mean(axis=0) - mean) / sd).max()),
        "bias of f": float(np.sqrt(np.mean(((found.mean(axis=0) - f) / f_sd) ** 2))),
        "latent variance over exact": float(np.mean(found.var(axis=0) / f_sd**2)),
    }


def main() -> None:
    seqgp.enable_x64()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--datasets", type=int, default=3)
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--steps", type=int, default=4)
    parser.add_argument("--draws", type=int, default=3000)
    parser.add_argument("--particles", type=int, default=256)
    parser.add_argument("--quick", action="store_true", help="a small version that only shows that it runs")
    args = parser.parse_args()
    if args.quick:
        args.datasets, args.seeds, args.steps, args.draws, args.particles = 1, 1, 2, 100, 32
    model, body = diffusion.model(), []
    samplers = {
        "online": seqgp.OnlineSampler(model, particles=args.particles, draws=args.draws),
        "sequential": seqgp.SequentialSampler(model, draws=min(args.draws, 2000)),
    }
    apart = seqgp.OnlineSampler(model, particles=2 * args.particles, draws=args.draws)
    for data in range(args.datasets):
        snapshots = diffusion.simulate(data, args.steps).snapshots
        truth = exact(apart, sampled(apart, apart, snapshots, args.seeds)[0])
        for name, sampler in samplers.items():
            for seed in range(args.seeds):
                state, _, seconds = sampled(sampler, sampler, snapshots, seed)
                row = row_of(truth, state)
                cells = [f"{value:.2f}" for value in row.values()]
                body.append([str(data), name, str(seed), *cells, f"{truth.ess:.0f}", f"{seconds:.0f}"])
                print(*body[-1], flush=True)
    header = ["data", "sampler", "seed", "largest bias of a parameter, sd", "bias of f, sd"]
    header += ["latent variance over exact", "effective draws of the exact posterior", "s"]
    text = f"N = {diffusion.KNOTS}, T = {args.steps}\n\n{markdown(header, body)}\n"
    OUT.mkdir(parents=True, exist_ok=True)
    (OUT / "table.md").write_text(text)
    print("\n" + text)


if __name__ == "__main__":
    main()
