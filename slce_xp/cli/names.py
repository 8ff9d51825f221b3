"""Names of columns: looked up, chosen by patterns, made distinct."""

from __future__ import annotations

import difflib
import fnmatch
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from slce_xp.cli.table import Chosen, TableError


def as_names(names: Iterable[Any]) -> np.ndarray:
    """Convert names to text, from bytes in HDF5."""
    return np.array(
        [name.decode() if isinstance(name, bytes) else str(name) for name in names], dtype=np.str_
    )


# ---------------------------------------------------------------- the columns that are features


class Features(NamedTuple):
    """The columns that are features.

    Attributes
    ----------
    positions : list of int
        Where they are in the file.
    names : list of str
        Their names, all different.
    passed_over : tuple of str
        Other columns that are not used.
    """

    positions: list[int]
    names: list[str]
    passed_over: tuple[str, ...] = ()


def features(
    names: Sequence[str], chosen: Chosen, path: Path, others: Iterable[int] = ()
) -> Features:
    """Return the columns that are features: all, those chosen, or those of the model.

    `others` are the positions of columns that hold something else.
    """
    taken = {*others}
    free = [i for i in range(len(names)) if i not in taken]
    if chosen.drop:
        dropped = matching(chosen.drop, names, "--drop", path)
        free = [i for i in free if i not in dropped]
    if chosen.only:
        kept = matching(chosen.only, [names[i] for i in free], "--features", path)
        free = [free[i] for i in sorted(kept)]
    distinct = [names[i] for i in free]
    if chosen.duplicates == "suffix":
        distinct = _with_suffixes(distinct)
    if chosen.features is None:
        check_distinct(distinct, path)
        return Features(free, distinct)
    return _features_of_model(dict(zip(free, distinct, strict=True)), names, taken, chosen, path)


def _features_of_model(
    free: dict[int, str], names: Sequence[str], taken: set[int], chosen: Chosen, path: Path
) -> Features:
    """Return the columns that have the names of the model's features, in its order."""
    assert chosen.features is not None
    wanted = [str(name) for name in chosen.features]
    position = {name: i for i, name in free.items()}
    absent = [name for name in wanted if name not in position]
    for name in {names[i] for i in taken}.intersection(absent):
        raise TableError(
            f"{path}: {name!r} is a feature of the model; name another --id or --label"
        )
    if absent:
        raise TableError(
            f"{path} must have the {len(wanted)} columns that the model was fitted to; it has no "
            f"{some(absent)}{nearest(absent[0], names)}"
        )
    used = set(wanted)
    check_distinct([name for name in free.values() if name in used], path)
    passed_over = tuple(name for name in free.values() if name not in used)
    return Features([position[name] for name in wanted], wanted, passed_over)


def matching(entries: Iterable[str], names: Sequence[str], option: str, path: Path) -> set[int]:
    """Return the positions of all columns that an option names.

    An entry is a name, a pattern such as ``batch*``, or several separated by commas.
    """
    found: set[int] = set()
    there = set(names)
    for entry in entries:
        parts = [entry] if entry in there else [part.strip() for part in entry.split(",")]
        for part in filter(None, parts):
            if part not in there and any(letter in part for letter in "*?["):
                hits = {i for i, name in enumerate(names) if fnmatch.fnmatchcase(name, part)}
                if not hits:
                    raise TableError(
                        f"{option}: {path} has no column like {part!r}; it has {some(names, 8)}"
                    )
            else:
                name = find(part, names, option, path)
                hits = {i for i, other in enumerate(names) if other == name}
            found |= hits
    return found


def drop_values(names: Sequence[str]) -> list[str]:
    """Return the values of --drop for some columns: one list, unless a name has a comma."""
    return list(names) if any("," in name for name in names) else [",".join(names)]


# ---------------------------------------------------------------- names that appear twice


def check_distinct(names: Sequence[str], path: Path, what: str = "columns") -> None:
    """Raise TableError if two columns have the same name."""
    twice = [name for name, count in Counter(names).items() if count > 1 and name]
    if twice:
        raise TableError(
            f"{path} must have different names for its {what}; {some(twice)} "
            f"appear{'s' * (len(twice) == 1)} more than once. Rename or drop them, or append "
            "numbers",
            {"--duplicates": "suffix"},
        )


def _with_suffixes(names: Sequence[str]) -> list[str]:
    """Append .1, .2, ... to names that appear again, as R and pandas do."""
    taken, count, found = set(names), Counter[str](), []
    for name in names:
        new = name
        if count[name]:
            while (new := f"{name}.{count[name]}") in taken:
                count[name] += 1
            taken.add(new)
        count[name] += 1
        found.append(new)
    return found


# ---------------------------------------------------------------- looking a name up


def nearest_name(name: str, names: Sequence[str]) -> str:
    """Return the name that is most like another one; "" if none is."""
    lower = {str(other).lower(): str(other) for other in names}
    close = difflib.get_close_matches(name.lower(), lower, n=1)
    return lower[close[0]] if close else ""


def find(name: str, names: Sequence[str], option: str, path: Path) -> str:
    """Return a name if it exists; otherwise raise TableError with the nearest one."""
    if name in names:
        return name
    close = nearest_name(name, names)
    changes = {option: close} if close and option in ("--label", "--id") else {}
    raise TableError(f"{option}: {path} has no {name!r}{nearest(name, names)}", changes)


def nearest(name: str, names: Sequence[str]) -> str:
    """Return a suggestion for the end of a message."""
    close = nearest_name(name, names)
    if close:
        return f"; did you mean {close!r}?"
    return f"; it has {some(names, 8)}" if len(names) else "; it has nothing of the kind"


def some(names: Sequence[Any], most: int = 5) -> str:
    """Format names for a message: all, or the first few and the number of others."""
    shown = ", ".join(repr(str(name)) for name in names[:most])
    return shown if len(names) <= most else f"{shown} and {len(names) - most} more"
