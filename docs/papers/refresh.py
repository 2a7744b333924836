"""Bring `docs/papers.md` up to date with a full run of the studies:

    dpbayes study all -o build/studies --json > build/studies.json
    python docs/papers/refresh.py build/studies.json

It copies the pictures, keeps the findings in `findings.json`, and writes them between the page's markers; studies that were not run keep
theirs. The tests compare the page with `findings.json`, and that with the studies themselves where they are quick. The findings of a run
with --quick go to `tests/data/quick_findings.json`, with which the tests compare every study.
"""

from __future__ import annotations

import json
import re
import shutil
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
PAGE = HERE.parent / "papers.md"
QUICK = HERE.parents[1] / "tests/data/quick_findings.json"
_BLOCK = re.compile(r"(<!-- findings: ([a-z-]+) -->\n).*?(<!-- end -->)", re.DOTALL)


def rendered(study: dict[str, Any]) -> str:
    """A study's findings as a table."""
    lines = ["| claim | where | | figures |", "|---|---|---|---|"]
    for finding in study["findings"]:
        verdict = "holds" if finding["holds"] else "**does not hold**"
        cells = [finding["claim"], finding["reference"], verdict, finding["number"]]
        lines.append(
            "| " + " | ".join(cell.replace("|", "\\|").replace("*", "\\*") if cell != verdict else cell for cell in cells) + " |"
        )
    return "\n".join(lines) + "\n"


def refreshed(page: str, studies: list[dict[str, Any]]) -> str:
    """The page with every block rendered again."""
    by_name = {study["name"]: study for study in studies}
    return _BLOCK.sub(lambda block: f"{block[1]}{rendered(by_name[block[2]])}{block[3]}", page)


def main(results: Path) -> None:
    """Pictures, findings, page; of a quick run the findings that the tests expect."""
    record = json.loads(results.read_text(encoding="utf-8"))
    pictures = [Path(file) for study in record["studies"] for file in study.pop("files") if file.endswith(".png")]
    if record["quick"]:
        QUICK.write_text(json.dumps(record["studies"], indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
        return
    for picture in pictures:
        shutil.copyfile(picture, HERE / picture.name)
    ran = {study["name"]: study for study in record["studies"]}
    studies = [ran.get(study["name"], study) for study in json.loads((HERE / "findings.json").read_text(encoding="utf-8"))]
    studies += [study for study in ran.values() if study not in studies]
    (HERE / "findings.json").write_text(json.dumps(studies, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    PAGE.write_text(refreshed(PAGE.read_text(encoding="utf-8"), studies), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
