"""The public artifact: what a mechanism published, how it was drawn, and how private that is. No count of the data is in it.

A release is a frozen value and a JSON file. The file follows `release.schema.json` beside this module, is written whole or
not at all, and reads back as an equal release.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import math
import os
import re
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from dpbayes.dirichlet import Beta, Dirichlet
from dpbayes.errors import DataError, DpbayesError
from dpbayes.inference import NoiseAwarePosterior, noise_aware
from dpbayes.mechanisms import Geometric, by_name
from dpbayes.mechanisms.base import Calibration, Guarantee, Mechanism
from dpbayes.mechanisms.laplace import _complete, _Laplace

__all__ = [
    "NEIGHBOURS",
    "Release",
    "check_new_file",
    "check_writable_categories",
    "model_of",
    "one_line",
    "unwritten",
    "write_whole",
]

#: What two neighbouring data sets are, without groups and with them.
NEIGHBOURS = "one unit's record replaced; the number of units is public"
GROUP_NEIGHBOURS = (
    "one unit's record replaced within its group; the group of each unit and the number of units in each group are public"
)


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


def _software() -> str:
    from dpbayes import __version__  # not defined yet while the package is being imported

    return f"dpbayes {__version__}"


@dataclass(frozen=True)
class Release:
    """A published posterior. Everything in it is public.

    `counts` are the released counts (a candidate, of total n, except where the mechanism says otherwise), and
    `noisy_counts` what was drawn before it was tailored, where the mechanism has two steps. `unit` names the column whose
    values are protected each as a whole; None where every row is a unit. `group` names the column of a release by group and
    `group_value` the group that this one is of; all releases of one `Session.release_by` have the same `release_id`.
    """

    prior: Dirichlet
    n: int
    mechanism: Mechanism
    guarantee: Guarantee
    counts: tuple[int, ...]
    noisy_counts: tuple[int, ...]
    unit: str | None = None
    release_id: str = field(default_factory=lambda: uuid.uuid4().hex)
    time: str = field(default_factory=_now)
    software: str = field(default_factory=_software)
    group: str | None = None
    group_value: Any = None

    @property
    def neighbours(self) -> str:
        """Between which data sets the guarantee holds, in words."""
        return NEIGHBOURS if self.group is None else GROUP_NEIGHBOURS

    @property
    def categories(self) -> tuple[Any, ...] | None:
        """The names of the categories, if the prior has them."""
        return self.prior.categories

    @property
    def posterior(self) -> Dirichlet:
        """The prior updated with the released counts: the candidate itself, the noise not counted."""
        a = [alpha + count for alpha, count in zip(self.prior.alpha.tolist(), self.counts, strict=True)]
        return model_of(a, self.categories)

    def noise_aware(self) -> NoiseAwarePosterior:
        """What the release really says about the proportions, the noise counted: see `dpbayes.inference`."""
        return noise_aware(self)

    def to_json(self) -> str:
        """The text of the public file.

        >>> import dpbayes
        >>> text = dpbayes.Geometric(0.5).release([1, 1], [6, 14]).to_json()
        >>> sorted(json.loads(text))[:3]
        ['categories', 'counts', 'format']
        """
        content = {
            "format": "dpbayes release",
            "schema_version": 1,
            "release_id": self.release_id,
            "time": self.time,
            "software": self.software,
            "neighbours": self.neighbours,
            "unit": self.unit,
            "group": self.group,
            "group_value": None if self.group is None else _category_to_json(self.group_value, "group_value"),
            "n": self.n,
            "categories": None if self.categories is None else [_category_to_json(c, "categories") for c in self.categories],
            "prior": self.prior.alpha.tolist(),
            "mechanism": _mechanism_to_json(self.mechanism),
            "guarantee": dataclasses.asdict(self.guarantee),
            "noisy_counts": list(self.noisy_counts),
            "counts": list(self.counts),
            "posterior": self.posterior.alpha.tolist(),
        }
        return json.dumps(content, indent=2, ensure_ascii=False, allow_nan=False) + "\n"

    def save(self, path: str | os.PathLike[str], *, overwrite: bool = False) -> None:
        """Write the public file, whole or not at all. `FileExistsError` if there is one and `overwrite` is not said.

        >>> import dpbayes, tempfile
        >>> release = dpbayes.Geometric(0.5).release([1, 1], [6, 14])
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     release.save(f"{folder}/outcome.json")
        ...     Release.load(f"{folder}/outcome.json") == release
        True
        """
        write_whole(path, self.to_json(), overwrite=overwrite)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Release:
        """Read a public file; `DataError` where it does not follow the schema or contradicts itself."""
        target = Path(path)
        try:
            with target.open("rb") as file:  # no more than that, of a device without end too
                content = file.read(_LARGEST_FILE + 1)
            if len(content) > _LARGEST_FILE:
                raise DataError(f"{target.name} has more than {_LARGEST_FILE} bytes; accepted is the file of a release")
            text = content.decode()
        except UnicodeDecodeError:
            raise DataError(f"{target.name} is not UTF-8 text; accepted is the file of a release") from None
        except OSError as problem:
            raise type(problem)(f"{target} cannot be read ({problem.strerror}); accepted is the file of a release") from None
        try:
            return cls.from_json(text)
        except DataError as problem:
            raise DataError(f"{target.name} is no release: {problem}") from None

    @classmethod
    def from_json(cls, text: str) -> Release:
        """The release that a text of `to_json` stands for; checked as in `load`."""
        if not isinstance(text, str):
            raise TypeError(f"text is of type {type(text).__name__}; accepted is the text of a release")
        content = _parsed(text)
        k, n = len(content["prior"]), content["n"]
        names = content["categories"]
        for key in ("counts", "noisy_counts", "posterior", *(["categories"] if names is not None else [])):
            if len(content[key]) != k:
                raise DataError(f"{key} has {len(content[key])} entries, and prior has {k}")
        if not all(type(number) is int for number in (n, *content["counts"], *content["noisy_counts"])):
            raise DataError("n, counts or noisy_counts holds a number with a decimal point")
        if not all(0 <= count <= n for count in content["counts"]):
            raise DataError("counts holds a number outside 0..n")
        try:
            categories = None if names is None else [_category_from_json(label, "categories") for label in names]
            prior = model_of(content["prior"], categories)
            mechanism = _mechanism_from_json(content["mechanism"], prior, n)
            release = cls(
                prior, n, mechanism, _checked_guarantee(content["guarantee"], mechanism, prior, n),
                tuple(content["counts"]), tuple(content["noisy_counts"]), content["unit"],
                content["release_id"], _checked_time(content["time"]), content["software"], *_group_from_json(content),
            )  # fmt: skip
            posterior = release.posterior.alpha.tolist()
        except (ValueError, TypeError, ArithmeticError, NotImplementedError, DpbayesError) as problem:
            raise DataError(str(problem)) from None
        if content["neighbours"] != release.neighbours:
            raise DataError(f"neighbours is not that of a release {'without' if release.group is None else 'of'} a group")
        if posterior != content["posterior"]:
            raise DataError("posterior is not the prior plus the counts")
        if mechanism.fixes_total and not sum(release.counts) == sum(release.noisy_counts) == n:
            raise DataError("counts or noisy_counts have another total than n")
        if release.counts != release.noisy_counts and not isinstance(mechanism, Geometric):
            raise DataError("noisy_counts are others than counts, which mechanism publishes as drawn")
        if isinstance(mechanism, _Laplace):
            noised = np.array([release.counts[: mechanism._noised(k)]])
            if tuple(_complete(noised, n, k)[0].tolist()) != release.counts:
                raise DataError("counts do not end with what the others leave of n, as those of mechanism do")
        return release


def model_of(alpha: Sequence[float], categories: Sequence[Any] | None) -> Dirichlet:
    """The Dirichlet with these parameters; of two, the Beta that it is, however the prior was given and wherever it was kept.

    >>> model_of([1, 2], None), model_of([1, 2, 3], None)
    (Beta(1, 2), Dirichlet([1, 2, 3]))
    """
    return Beta(alpha[0], alpha[1], categories) if len(alpha) == 2 else Dirichlet(alpha, categories)


#: Control characters, line ends of Unicode, halves of letters, and marks that turn the direction of writing.
_UNFIT = re.compile("[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


def one_line(text: str) -> str:
    """The text as people may see it: a name in the data, or of a file, must not move the cursor or hide what is beside it.

    >>> one_line("north\\nward")
    'north�ward'
    """
    return _UNFIT.sub("\N{REPLACEMENT CHARACTER}", text)


#: Bytes of a file beyond which it is no release (10⁶ categories would fit).
_LARGEST_FILE = 200_000_000


def write_whole(path: str | os.PathLike[str], content: str | bytes, *, overwrite: bool = False) -> None:
    """Write a file under a temporary name, sync it, and only then give it its name."""
    target = Path(path)
    if not overwrite:
        _check_free(target)
    try:
        with _temporary_file(target.parent) as (handle, temporary):
            with os.fdopen(handle, "wb") as file:
                file.write(content if isinstance(content, bytes) else content.encode())
                file.flush()
                os.fsync(file.fileno())
            if overwrite:
                os.replace(temporary, target)
            else:
                os.link(temporary, target)  # fails where somebody else made the file meanwhile
    except FileExistsError:
        raise FileExistsError(_taken(target)) from None
    except OSError as problem:
        raise unwritten(target, problem) from None


@contextlib.contextmanager
def _temporary_file(folder: Path) -> Iterator[tuple[int, str]]:
    """A new file, open, and its name, which is short whatever the name to be is; the name is gone afterwards.

    Its permissions are those of any new file of the user: readers need them, and the umask says who reads.
    """
    temporary = str(folder / f".dpbayes-{uuid.uuid4().hex}.part")
    handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), 0o666)
    try:
        yield handle, temporary
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary)


def check_new_file(path: str | os.PathLike[str]) -> None:
    """Refuse, before anything is spent, a path at which no new file can be written: by making one beside it."""
    target = Path(path)
    _check_free(target)
    try:
        with _temporary_file(target.parent) as (handle, temporary):
            os.close(handle)
            os.link(temporary, f"{temporary}2")
            os.unlink(f"{temporary}2")
    except OSError as problem:
        accepted = "accepted is a path in one that can"
        raise type(problem)(f"the folder of {target} cannot be written to ({problem.strerror}); {accepted}") from None


def _check_free(target: Path) -> None:
    try:
        target.lstat()  # a link that leads nowhere is taken too
    except FileNotFoundError:
        if not target.parent.is_dir():
            raise FileNotFoundError(f"the folder of {target} does not exist; accepted is a path in a folder that does") from None
    except OSError as problem:  # a name that is too long, or a file in place of a folder
        raise unwritten(target, problem) from None
    else:
        raise FileExistsError(_taken(target))


def unwritten(target: Path, problem: OSError) -> OSError:
    """The same error with a sentence that names the file."""
    return type(problem)(f"{target} cannot be written ({problem.strerror}); accepted is a path for a new file")


def _taken(target: Path) -> str:
    return f"{target} exists already; accepted is a new path, or to say that it is to be overwritten"


def check_writable_categories(categories: tuple[Any, ...], name: str = "categories") -> None:
    """Refuse labels that the public file cannot hold."""
    for label in categories:
        _category_to_json(label, name)


def _category_to_json(label: Any, name: str) -> Any:
    if isinstance(label, (str, bool, int)):
        return label
    if isinstance(label, date) and not isinstance(label, datetime):
        return {"date": label.isoformat()}
    raise TypeError(f"{name} holds a name of type {type(label).__name__}; a file takes text, integers, booleans and dates")


def _category_from_json(label: Any, name: str) -> Any:
    if isinstance(label, float):
        raise DataError(f"{name} holds a number with a decimal point")
    try:
        return date.fromisoformat(label["date"]) if isinstance(label, dict) else label
    except ValueError:
        raise DataError(f"{name} holds a date that no calendar has") from None


def _group_from_json(content: dict[str, Any]) -> tuple[str | None, Any]:
    """The column and the label of the group, which files without groups may leave out."""
    group, value = content.get("group"), content.get("group_value")
    if (group is None) != (value is None):
        raise DataError("group or group_value is given without the other")
    return group, _category_from_json(value, "group_value")


def _checked_time(text: str) -> str:
    try:
        datetime.fromisoformat(text)
    except ValueError:
        raise DataError("time is none that a clock shows") from None
    return text


def _checked_guarantee(content: dict[str, Any], mechanism: Mechanism, prior: Dirichlet, n: int) -> Guarantee:
    """The guarantee of a file, if it is the one that the mechanism has; its reason stays as it was written.

    A calibration is not computed again: what its file says is for reading, and never enough to release with.
    """
    calibration, reason = mechanism.calibration, content["reason"]
    if calibration is None:
        expected = dataclasses.replace(mechanism.guarantee(prior, n), reason=reason)
    elif calibration.loss <= mechanism.epsilon:
        expected = Guarantee(mechanism.epsilon, 0.0, "exact audit", reason)
    else:
        raise DataError("mechanism has a calibration whose loss is above its epsilon")
    if Guarantee(**content) != expected:
        raise DataError("guarantee is not the one that mechanism has for this prior and n")
    return expected


def _unknown_loss(_posterior: Any, _candidate: Any) -> Any:
    """Stands for a caller's own loss, which a file does not keep: it chose the counts and is needed no more."""
    raise ValueError("the loss of this release was a function, which its file does not keep")


def _mechanism_to_json(mechanism: Mechanism) -> dict[str, Any]:
    content: dict[str, Any] = {"name": mechanism.name}
    for parameter in dataclasses.fields(mechanism):
        value = getattr(mechanism, parameter.name)
        if parameter.name == "calibration":
            if value is not None:
                content["calibration"] = {"scale": value.scale, "loss": value.loss}
        else:
            content[parameter.name] = "function" if callable(value) else value
    return content


def _mechanism_from_json(content: dict[str, Any], prior: Dirichlet, n: int) -> Mechanism:
    settings = dict(content)
    kind = by_name(settings.pop("name"))
    calibration = settings.pop("calibration", None)
    if settings.get("distance") == "function":
        settings["distance"] = _unknown_loss
    accepted = {parameter.name for parameter in dataclasses.fields(kind)} - {"calibration"}
    if set(settings) != accepted:
        raise DataError(f"mechanism has other parameters than {kind.__name__} takes: {', '.join(sorted(accepted))}")
    if calibration is not None:
        if kind is Geometric:
            raise DataError("mechanism is Geometric, which has no calibration")
        settings["calibration"] = Calibration(Dirichlet(prior.alpha), n, float(calibration["scale"]), float(calibration["loss"]))
    return kind(**settings)


@lru_cache(maxsize=1)
def _schema() -> Any:
    import jsonschema

    schema = json.loads((Path(__file__).parent / "release.schema.json").read_text(encoding="utf-8"))
    return jsonschema.Draft202012Validator(schema)


def _parsed(text: str) -> dict[str, Any]:
    def refuse(name: str) -> Any:
        raise DataError(f"the text holds {name}, which JSON does not have")

    def distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        if len(dict(pairs)) < len(pairs):
            raise DataError("the text names a key twice")
        return dict(pairs)

    def finite(number: str) -> float:
        if not math.isfinite(float(number)):
            raise DataError("the text holds a number beyond floats")
        return float(number)

    try:
        content = json.loads(text, parse_constant=refuse, object_pairs_hook=distinct, parse_float=finite)
        json.dumps(content, ensure_ascii=False).encode()  # an escape can stand for half a letter
    except (ValueError, RecursionError):
        raise DataError("the text is not JSON") from None
    try:
        problem = min(_schema().iter_errors(content), key=lambda error: len(error.absolute_path), default=None)
    except RecursionError:
        raise DataError("the text is nested too deep") from None
    if problem is not None:
        place = ".".join(str(part) for part in problem.absolute_path) or "the whole"
        raise DataError(f"{place} does not follow the schema ({problem.validator})")
    return dict(content)
