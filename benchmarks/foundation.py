"""Foundation: distances, sensitivities, listings"""

import itertools
from collections.abc import Iterator

import numpy as np
from scipy import special

from benchmarks.timing import Row, median_time
from dpbayes import compositions, distances, sensitivity


def rows() -> Iterator[Row]:
    rng = np.random.default_rng(0)
    alpha, x = rng.uniform(0.1, 3, 1000), rng.multinomial(10**9, rng.dirichlet(np.ones(1000)))
    yield Row(
        "smooth sensitivity, k = 1000, n = 10⁹",
        median_time(lambda: sensitivity.smooth_sensitivity(alpha, x)),
        "milliseconds",
        "all data sets",
        None,
    )
    yield Row(
        "listing 998 991 compositions, k = 3",
        median_time(lambda: compositions.listing(1412, 3)),
        "well under 1 s",
        "a loop over itertools.combinations",
        median_time(lambda: [(a, b - a - 1, 1413 - b) for a, b in itertools.combinations(range(1414), 2)], repeat=2),
    )
    a = rng.uniform(1, 100, (10**5, 3))
    b = a[:, ::-1].copy()

    def naive() -> object:
        def log_beta(v: np.ndarray) -> np.ndarray:
            return special.gammaln(v).sum(axis=1) - special.gammaln(v.sum(axis=1))

        return np.sqrt(1 - np.exp(log_beta((a + b) / 2) - (log_beta(a) + log_beta(b)) / 2))

    yield Row(
        "10⁵ Hellinger distances, k = 3",
        median_time(lambda: distances.hellinger(a, b)),
        "",
        "`gammaln` without its digits",
        median_time(naive),
    )
