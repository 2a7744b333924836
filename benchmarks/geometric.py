"""Geometric: lattice noise and tailoring"""

from collections.abc import Callable, Iterator

import numpy as np

import dpbayes
from benchmarks.timing import Row, median_time
from dpbayes.mechanisms import tailoring


def opendp_laplace(x: list[int], epsilon: float) -> Callable[[], object]:
    """OpenDP's discrete Laplace on the counts: no total, no tailoring."""
    import opendp.prelude as dp

    dp.enable_features("contrib")
    space = dp.vector_domain(dp.atom_domain(T="i64")), dp.l1_distance(T="i64")
    measurement = dp.m.make_laplace(*space, scale=2 / epsilon)
    return lambda: measurement(x)


def diffprivlib_geometric(x: list[int], epsilon: float) -> Callable[[], object]:
    """diffprivlib's truncated geometric mechanism on each count: no total, no tailoring."""
    from diffprivlib.mechanisms.geometric import GeometricTruncated

    mechanism = GeometricTruncated(epsilon=epsilon / 2, sensitivity=1, lower=0, upper=sum(x))
    return lambda: [mechanism.randomise(count) for count in x]


def release(k: int, n: int, epsilon: float) -> Callable[[], object]:
    """One release, with nothing remembered from an earlier one."""
    prior, x = dpbayes.Dirichlet(np.ones(k)), [n // k] * k

    def work() -> object:
        tailoring.tailored_pair.cache_clear()
        return dpbayes.Geometric(epsilon).release(prior, x)

    return work


def rows() -> Iterator[Row]:
    for k, n, reach in ((2, 10**9, "≤ 20 ms"), (10, 10**6, ""), (1000, 10**6, "≤ 2 s")):
        for epsilon in (1.0, 0.1):
            mine = median_time(release(k, n, epsilon), 7)
            x = [n // k] * k
            for beside, work in (
                ("OpenDP's discrete Laplace on the counts", opendp_laplace(x, epsilon)),
                ("diffprivlib's GeometricTruncated on the counts", diffprivlib_geometric(x, epsilon)),
            ):
                what = f"Geometric(ε = {epsilon:g}), k = {k}, n = {n:.0e}"
                yield Row(what, mine, reach if epsilon == 1 else "", beside, median_time(work, 7))
