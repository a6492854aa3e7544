"""``python -m tests.fuzz --cases 1000 --seed 0``: random programs against the oracles."""

from __future__ import annotations

import argparse
import os
import sys

QUICKLY = (
    "--xla_backend_optimization_level=0 --xla_cpu_use_fusion_emitters=false --xla_cpu_parallel_codegen_split_count=1"
)


def main() -> int:
    """Run cases, print findings; the exit code says whether there were any."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--shape", type=int, help="only the shape of this number")
    parser.add_argument("--per-shape", type=int, default=25, help="cases that share a compilation")
    parser.add_argument("--no-shrink", action="store_true")
    given = parser.parse_args()
    os.environ["XLA_FLAGS"] = f"{QUICKLY} {os.environ.get('XLA_FLAGS', '')}".strip()
    os.environ.setdefault("SEQGP_CACHE", "off")
    import seqgp

    seqgp.enable_x64()
    from .campaign import campaign

    found = campaign(given.cases, given.seed, given.per_shape, given.shape, shrink=not given.no_shrink)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
