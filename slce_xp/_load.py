"""Model files, read."""

from __future__ import annotations

import dataclasses
import math
import os
from types import ModuleType
from typing import Any

import numpy as np

from slce_xp import _files, _parameters
from slce_xp._model import LABELS, NAMES_IN_FILES, Model
from slce_xp._planning.plan import Plan


def load(
    path: str | os.PathLike[str], backend: str | ModuleType | None = None, device: Any = None
) -> Model:
    """Load a model that `Model.save` wrote.

    Parameters
    ----------
    path : path
    backend : str or namespace, optional
        The array library of the model; NumPy by default, whatever it was fitted with.
    device : optional
        A device of that backend.

    Returns
    -------
    Model

    Raises
    ------
    ValueError
        If the file is not a model, or damaged.

    See Also
    --------
    slce_xp.Model.save : Writes the file.

    Examples
    --------
    >>> import os, tempfile, slce_xp
    >>> model = slce_xp.fit([[0.0], [1.0], [5.0], [6.0]], [0, 0, 1, 1])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "model.npz")
    ...     model.save(path)
    ...     slce_xp.load(path)
    <slce_xp.Model: 1 features → 1 components, 2 classes, numpy on cpu>
    """
    model = _files.read(path, from_contents)
    return model if backend is None and device is None else model.to(backend or "numpy", device)


def from_contents(contents: dict[str, np.ndarray]) -> Model:
    """The model of which these are the arrays."""
    facts = _files.facts_of(contents)
    values = {**facts, **contents}
    for name in LABELS & contents.keys():
        values[name] = _files.unpack_labels(contents[name], facts[name])
    values["plan"] = Plan.from_facts(facts["plan"])
    values["n_positive_bounds"] = tuple(facts.get("n_positive_bounds", (facts["n_positive"],) * 2))
    values["angle_bounds"] = _angle_bounds(facts, len(contents["eigenvalues"]))
    names = [
        (field.name, NAMES_IN_FILES.get(field.name, field.name))
        for field in dataclasses.fields(Model)
    ]
    model = Model(**{name: values[key] for name, key in names if key in values})
    _check(model, contents)
    return model


def _angle_bounds(facts: dict[str, Any], k: int) -> np.ndarray | None:
    """Bounds of angles; earlier versions wrote one for all components."""
    if "angle_bounds" in facts:
        return None if facts["angle_bounds"] is None else np.array(facts["angle_bounds"], float)
    if facts.get("criterion", "centroid") != "centroid":
        return None
    bounds = np.full(k, math.inf)
    bounds[k - 1 :] = float(facts.get("angle_bound", math.inf))
    return bounds


def _check(model: Model, contents: dict[str, np.ndarray]) -> None:
    """Raise ValueError for arrays that do not belong together."""
    (k, d), n_classes = model.components.shape, model.classes.shape[0]
    expected = {
        "components": (k, d), "eigenvalues": (k,), "mean": (d,), "centroids": (n_classes, d),
        "counts": (n_classes,), "weights": (n_classes,), "scale": (d,), "feature_names": (d,),
        "patterns": (k, d), "log_odds": (n_classes,),
        "batch_shifts": (len(contents.get("batches", ())), k),
    }  # fmt: skip
    kinds = {"counts": "i", "feature_names": "U"}
    if model.criterion not in _parameters.CRITERIA or (
        (model.criterion == "separation") != ("patterns" in contents)
    ):
        raise ValueError(f"its criterion is {model.criterion!r}")
    if not 0 <= model.n_positive <= k:
        raise ValueError(f"its n_positive is {model.n_positive} of {k}")
    for name in expected.keys() & contents.keys():
        array = contents[name]
        if array.shape != expected[name] or array.dtype.kind != kinds.get(name, "f"):
            raise ValueError(f"its {name} have shape {array.shape} and dtype {array.dtype}")
