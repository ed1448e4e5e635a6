"""Choice of the cheapest form of the class error (Eq. 4), from the sizes alone.

Work is counted in multiplications of large float32 products on one core, as measured by assets/benchmarks/head.py.
Products whose result is as large as their factors count twice, because they wait for memory. Gradients take about twice
the work of the forward pass in each form.

Shape letters: way classes, p pool rows, r locations per map, d channels, n = queries * r query locations.
"""


def whitened_pays(p: int, d: int) -> bool:
    """Return whether the whitened pool (p, d) and a damping (p, p) take less work than the residual operator (d, d)."""
    return p * (p + d) < d * d


def moments_pay(way: int, p: int, queries: int, r: int, d: int) -> bool:
    """Return whether the second moments of `queries` maps take less work than their locations one by one."""
    n = queries * r
    by_location = n * way * (p * (p + d) if whitened_pays(p, d) else d * d)
    return 2 * d**2 * (n + queries * way) + way * d**3 < by_location
