"""The noise-aware posterior: marginals and intervals"""

import time
from collections.abc import Iterator

import numpy as np
from scipy import special

import dpbayes
from benchmarks.timing import Row, median_time


def _gibbs_seconds(release: dpbayes.Release, error: float, sweeps: int) -> float:
    """Seconds that a Gibbs sampler needs until the means of the proportions have `error` times their standard deviations.

    It draws θ given x, and then pairs (x_i, x_j) given their sum and θ. The effective number of its draws is taken from
    the means of 20 batches, the slowest category; the time is extrapolated from `sweeps`.
    """
    rng, y, k = np.random.default_rng(0), np.array(release.noisy_counts), release.prior.k
    x, rate, means = np.array(release.counts), 0.5 * release.mechanism.epsilon, np.empty((sweeps, k))
    reach = int(40 / rate)
    start = time.perf_counter()
    for sweep in range(sweeps):
        theta = rng.dirichlet(release.prior.alpha + x)
        for i, j in rng.permutation(k)[: k // 2 * 2].reshape(-1, 2):
            total = x[i] + x[j]
            values = np.arange(max(0, min(x[i], y[i]) - reach), min(total, max(x[i], y[i]) + reach) + 1)
            share = theta[i] / (theta[i] + theta[j])
            log_weight = values * np.log(share) + (total - values) * np.log1p(-share)
            log_weight -= special.gammaln(values + 1) + special.gammaln(total - values + 1)
            log_weight -= rate * (np.abs(values - y[i]) + np.abs(total - values - y[j]))
            cumulative = np.cumsum(special.softmax(log_weight))
            x[i] = values[min(np.searchsorted(cumulative, rng.random()), len(values) - 1)]
            x[j] = total - x[i]
        means[sweep] = (release.prior.alpha + x) / (release.prior.total + release.n)
    seconds = time.perf_counter() - start
    kept = means[sweeps // 5 :]
    batches = kept[: len(kept) // 20 * 20].reshape(20, -1, k).mean(axis=1)
    relative = batches.std(axis=0, ddof=1) / np.sqrt(20) / np.sqrt(release.noise_aware().variance)
    return seconds * float(np.max(relative) / error) ** 2


def rows() -> Iterator[Row]:
    for k, n, epsilon, reach in ((10, 10**6, 0.1, "≤ 1 s"), (3, 1000, 1.0, ""), (2, 10**9, 1.0, ""), (1000, 10**6, 1.0, "")):
        x = np.random.default_rng(k).multinomial(n, np.random.default_rng(k).dirichlet(np.ones(k)))
        release = dpbayes.Geometric(epsilon).release(np.ones(k), x)

        def read(release: dpbayes.Release = release) -> object:
            posterior = release.noise_aware()
            return posterior.mean, posterior.variance, posterior.interval(0.95)

        yield Row(
            f"moments and intervals, k = {k}, n = {n:.0e}, ε = {epsilon:g}",
            median_time(read, 3 if k < 1000 else 1),
            reach,
            "Gibbs sampling to an error of 1 % of the standard deviations",
            _gibbs_seconds(release, 0.01, 2000) if k in (3, 10) else None,
        )
