"""A hierarchical model with many parameters in the online sampler, against a long run of NUTS.

python -m experiments.many_parameters [--regions 26] [--steps 10] [--particles 256] [--draws 4000]

Each region has an effect of its own, ``y = f(t, x) + tau effect_region + noise``; with the spread ``tau``, the noise,
and scale and lengthscale of ``f`` that makes four parameters more than regions. The reference samples all of them by
NumPyro's NUTS, with the latent integrated out by one dense covariance of all data.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
from numpyro.infer import MCMC, NUTS

import seqgp
from seqgp.base.info import OnlineInfo

PRIORS = {
    "time.lengthscale": dist.LogNormal(0.5, 0.5),
    "scale": dist.LogNormal(-0.5, 0.5),
    "tau": dist.LogNormal(-0.5, 0.7),
    "noise": dist.LogNormal(-1.2, 0.4),
}
APART, SPACE = 0.5, 0.3


def given(f, context, tau, noise, effects):
    return dist.Normal(f + tau * effects[context["region"]], noise)


def model(regions: int) -> seqgp.Model:
    likelihood = seqgp.likelihoods.Likelihood(
        given,
        pointwise=True,
        tau=PRIORS["tau"],
        noise=PRIORS["noise"],
        effects=[dist.Normal(0.0, 1.0)] * regions,
    )
    time, space = seqgp.kernels.Matern12(PRIORS["time.lengthscale"]), seqgp.kernels.Matern12(SPACE)
    return seqgp.Model(seqgp.Separable(time, space, PRIORS["scale"]), likelihood)


def drawn(regions: int, steps: int, seed: int) -> list[seqgp.Snapshot]:
    rng = np.random.default_rng(seed)
    x = rng.random((regions, 2))
    root = np.linalg.cholesky(np.exp(-np.linalg.norm(x[:, None] - x[None], axis=2) / SPACE))
    effects, decay = 0.7 * rng.standard_normal(regions), np.exp(-APART / 2.0)
    f, snapshots = 0.5 * root @ rng.standard_normal(regions), []
    for i in range(steps):
        y = f + effects + 0.3 * rng.standard_normal(regions)
        snapshots.append(seqgp.Snapshot(APART * i, x, y, {"region": np.arange(regions)}))
        f = decay * f + np.sqrt(1 - decay**2) * 0.5 * root @ rng.standard_normal(regions)
    return snapshots


def reference(snapshots: list[seqgp.Snapshot], draws: int, seed: int) -> dict[str, np.ndarray]:
    """Draws of NUTS, by the names of the model's parameters."""
    x, regions = snapshots[0].x, len(snapshots[0].x)
    t, y = np.array([one.t for one in snapshots]), np.concatenate([one.y for one in snapshots])
    space = np.exp(-np.linalg.norm(x[:, None] - x[None], axis=2) / SPACE)

    def density():
        own = {name: numpyro.sample(name, prior) for name, prior in PRIORS.items()}
        effects = numpyro.sample("effects", dist.Normal(0.0, 1.0).expand([regions]).to_event(1))
        time = jnp.exp(-jnp.abs(t[:, None] - t[None]) / own["time.lengthscale"])
        covariance = own["scale"] ** 2 * jnp.kron(time, space) + own["noise"] ** 2 * jnp.eye(len(y))
        mean = jnp.tile(own["tau"] * effects, len(t))
        numpyro.sample("y", dist.MultivariateNormal(mean, covariance), obs=y)

    chains = MCMC(NUTS(density), num_warmup=500, num_samples=draws, progress_bar=False)
    chains.run(jax.random.key(seed))
    return {name: np.asarray(values) for name, values in chains.get_samples().items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--regions", type=int, default=26)
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--particles", type=int, default=256)
    parser.add_argument("--draws", type=int, default=4000, help="of NUTS")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    seqgp.enable_x64()
    snapshots = drawn(args.regions, args.steps, args.seed)
    sampler = seqgp.OnlineSampler(model(args.regions), particles=args.particles, draws=2000)
    run = seqgp.run(sampler, snapshots, key=jax.random.key(args.seed), progress=False, forecast=False)
    moves = [one for info in run.infos if isinstance(info, OnlineInfo) for one in info.rejuvenations]
    kinds = {kind: sum(one.kind == kind for one in moves) for kind in dict.fromkeys(one.kind for one in moves)}
    truth = reference(snapshots, args.draws, args.seed)
    lines = ["| parameter | bias, reference sds | sd ratio |", "|---|---|---|"]
    biases = []
    for name, values in truth.items():
        found = np.asarray(run.state.parameters[name])
        if name != "effects":
            values, found = np.log(values), np.log(found)
        bias, ratio = (found.mean(0) - values.mean(0)) / values.std(0), found.std(0) / values.std(0)
        biases.append(np.atleast_1d(bias))
        worst = np.abs(bias).max()
        lines.append(
            f"| {name} | {worst:.2f}{' at most' if np.ndim(bias) else ''} | {np.min(ratio):.2f}–{np.max(ratio):.2f} |"
        )
    every = np.abs(np.concatenate(biases))
    lines.append(
        f"\n{len(every)} parameters: bias at most {every.max():.2f} sd, median {np.median(every):.2f}; {kinds}"
    )
    path = Path("out/many_parameters/table.md")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(lines) + "\n")
    print("\n".join(lines), f"\nwritten to {path}")


if __name__ == "__main__":
    main()
