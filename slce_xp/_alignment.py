"""A model applied to data whose features are in another order, or of which some are missing."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from slce_xp import _backend
from slce_xp._errors import invalid, warn
from slce_xp._model import Model
from slce_xp._parameters import as_number

# Arrays of a model with one column per feature.
_BY_FEATURE = ("components", "mean", "centroids", "scale", "patterns")


def aligned(model: Model, names: Any, most_missing: float) -> tuple[Model, int]:
    """The model on features of other data, and how many of its own are missing there.

    Features that the data lack are left out of samples and of class means: in the embedding they
    count as if they had the mean of the model. Those that the model does not know have no effect.

    Parameters
    ----------
    model : Model
        With feature names.
    names : sequence of str, length m
        The features of the data, each at most once if the model knows it.
    most_missing : float
        The largest share of the model's features that may be missing.
    """
    most_missing = as_number(most_missing, "max_missing", 0.0, 1.0)
    features = [] if model.feature_names is None else list(map(str, model.feature_names))
    known = {name: j for j, name in enumerate(features)}
    own = np.array([known.get(str(name), -1) for name in names], dtype=np.int64)
    found, counts = np.unique(own[own >= 0], return_counts=True)
    if (counts > 1).any():
        double = [features[j] for j in found[counts > 1][:5]]
        raise invalid(
            "query",
            f"query must have each feature once; {', '.join(double)} occur more often. Make them "
            "unique, or keep one of each",
        )
    missing = model.n_features - len(found)
    lost = sorted(known.keys() - {features[j] for j in found})
    if missing > most_missing * model.n_features or not len(found):
        raise invalid(
            "query",
            f"query must have at least {1 - most_missing:.0%} of the {model.n_features} features "
            f"of the model, and one of them; {missing} are missing, such as {', '.join(lost[:3])}. "
            "Check that both name features alike, or raise max_missing",
        )
    if missing:
        warn(
            f"{missing} of the {model.n_features} features of the model are missing, such as "
            f"{', '.join(lost[:3])}; they are left out, as if at the mean of the model"
        )
    place = _backend.place_of(model.components)
    index = _backend.from_host(np.maximum(own, 0), place)
    is_known = _backend.from_host(own >= 0, place)
    arrays = {}
    for name in _BY_FEATURE:
        if (array := getattr(model, name)) is not None:
            taken = place.xp.take(array, index, axis=-1)
            # Columns are divided by their scale.
            other = (place.xp.ones_like if name == "scale" else place.xp.zeros_like)(taken)
            arrays[name] = place.xp.where(is_known, taken, other)
    return dataclasses.replace(model, feature_names=None, **arrays), missing
