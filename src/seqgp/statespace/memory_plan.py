"""The memory that filters of many particles need, before any of it is used."""

from __future__ import annotations

from typing import Literal, NamedTuple

from seqgp.base.errors import SamplerError

FilterKind = Literal["dense", "eigenbasis", "low_rank", "two_level"]
NUMBER = 8  # bytes
COPIES = 2  # of all states: a rejuvenation has the old particles and the new ones


class FilterSize(NamedTuple):
    """What the memory of one particle's filter depends on."""

    num_sites: int  # M
    order: int  # p, over all terms
    num_terms: int = 1  # J
    num_coefficients: int = 0  # q
    rank: int = 0  # R
    gaps: int = 0  # k, the compiled size
    leading: int | None = None  # r; all modes where it is None


class FilterBytes(NamedTuple):
    """Bytes of one particle."""

    state: int  # kept from step to step
    parameters: int  # what its parameters decide, without eigenvectors that are shared
    basis: int  # eigenvectors, once for all particles that share space lengthscales
    work: int  # while it is updated


class MemoryPlan(NamedTuple):
    """How many particles are updated at once, and the largest number of bytes at any time."""

    chunk: int
    total: int
    each: FilterBytes


def filter_bytes(kind: FilterKind, size: FilterSize) -> FilterBytes:
    """The bytes of one particle's filter."""
    m, p, q, k = size.num_sites, size.order, size.num_coefficients, size.gaps
    if kind == "dense":
        n = p * m + q
        numbers = n + n**2, size.num_terms * m**2, 0, 2 * n**2 + 3 * n * m + 3 * m**2
    else:
        rank, gaps = (0, 0) if kind == "eigenbasis" else (size.rank, k)
        r = size.leading if kind == "two_level" and size.leading is not None else m
        rows = rank + gaps
        state = m * (p + p**2 + p * q) + rank * p * r + q**2 + q
        work = 4 * rows * p * r + 4 * rows**2 + 4 * gaps * m + 4 * m * (p**2 + p * (1 + q))
        numbers = state, size.num_terms * m, m**2, work
    return FilterBytes(*(NUMBER * each for each in numbers))


def plan_memory(
    kind: FilterKind, size: FilterSize, num_particles: int, budget: int, num_bases: int | None = None
) -> MemoryPlan:
    """The largest chunk of particles that can be updated at once within ``budget`` bytes.

    Args:
        kind: of the filter.
        size: of one particle's filter.
        num_particles: of the run.
        budget: bytes that all of this may take.
        num_bases: different eigenvector matrices; one for each particle where lengthscales are not shared.

    Raises:
        SamplerError: where not even one particle fits.
    """
    each = filter_bytes(kind, size)
    bases = num_particles if num_bases is None else num_bases
    kept = COPIES * num_particles * (each.state + each.parameters) + bases * each.basis
    if kept + each.work > budget:
        raise SamplerError(
            f"{num_particles} particles of the {kind} filter on {size.num_sites} sites (state of order {size.order}, "
            f"{size.num_terms} term(s), rank {size.rank}, {bases} matrices of eigenvectors) need "
            f"{_gigabytes(kept + each.work)}, and {_gigabytes(budget)} may be used; take fewer particles "
            f"(particles={_fitting(each, budget, num_particles, bases)} would fit), or latent=Knots(…)"
        )
    chunk = min((budget - kept) // max(each.work, 1), num_particles)
    return MemoryPlan(chunk, kept + chunk * each.work, each)


def _fitting(each: FilterBytes, budget: int, num_particles: int, bases: int) -> int:
    """How many particles would fit, with the same number of them to one basis."""
    one = COPIES * (each.state + each.parameters) + each.basis * bases / num_particles
    return max(int((budget - each.work) / one), 0)


def _gigabytes(number: int) -> str:
    return f"{number / 1e9:.1f} GB" if number >= 1e8 else f"{number / 1e6:.3g} MB"
