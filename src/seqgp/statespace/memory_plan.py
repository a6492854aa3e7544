"""The memory that the filter of a particle needs, from its sizes alone."""

from __future__ import annotations

from typing import Literal, NamedTuple

FilterKind = Literal["dense", "eigenbasis", "low_rank", "two_level"]
NUMBER = 8  # bytes


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
