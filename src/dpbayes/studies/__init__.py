"""Each figure, table and statement of the papers, computed again: one file a study.

>>> by_name("tables").source
'001 Tables 1 and 2'
"""

from __future__ import annotations

from dpbayes.studies import (
    bounds,
    calibration,
    coverage,
    epsilon_delta,
    lemmas,
    local_maximum,
    other_distances,
    priors,
    privacy,
    probabilities,
    sensitivity,
    size_balanced,
    size_unbalanced,
    statements,
    tables,
    variance_dimension,
    winners,
)
from dpbayes.studies.base import Finding, Result, Setting, Study, Table, as_record, setting, write

__all__ = ["REGISTRY", "Finding", "Result", "Setting", "Study", "Table", "as_record", "by_name", "setting", "write"]

#: Name → study, in the order of the page "The papers". A new study is one file and one entry here.
REGISTRY: dict[str, Study] = {
    module.STUDY.name: module.STUDY
    for module in (
        sensitivity,
        local_maximum,
        probabilities,
        size_balanced,
        size_unbalanced,
        priors,
        variance_dimension,
        privacy,
        tables,
        statements,
        epsilon_delta,
        lemmas,
        bounds,
        winners,
        other_distances,
        calibration,
        coverage,
    )
}


def by_name(name: str) -> Study:
    """The study of this name."""
    if name not in REGISTRY:
        raise ValueError(f"the study {name!r} is unknown; accepted are all, {', '.join(REGISTRY)}")
    return REGISTRY[name]
