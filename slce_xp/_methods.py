"""The sentences on a model for the methods section of a paper."""

from __future__ import annotations

import sys
from typing import Any

from slce_xp import _backend

_PAPER = "Ghosh and Kirby, Pattern Recognition 2024, doi:10.1016/j.patcog.2024.110634"


def methods(model: Any) -> str:
    """What was computed, of what, and what came out, with the numbers of a model."""
    version = sys.modules[__name__.partition(".")[0]].__version__
    k, d = model.n_components, model.n_features
    scaled = ", divided by their scale," * (model.scale is not None)
    sentences = [
        f"{model.n_samples} samples of {len(model.classes)} classes with {d} features{scaled} were "
        f"embedded in {k} dimension{'s' * (k != 1)} by a supervised linear centroid-encoder "
        f"(SLCE; {_PAPER}), computed exactly with slce_xp {version} ({model.solver} form, "
        f"{_backend.dtype_name(model.mean.dtype)})."
    ]
    if model.criterion == "separation":
        sentences.append(
            "Components separate pairs of classes best in the metric of the covariance within "
            f"classes, shrunk towards its diagonal with the weight {model.shrinkage:.3g}."
        )
    else:
        shares = _backend.to_host(model.loss_shares)[: model.n_positive]
        sentences.append(
            f"{model.n_positive} component{'s' * (model.n_positive != 1)} lowered the loss, by "
            f"{100 * float(shares.sum()):.1f} % together."
        )
    if model.n_unlabeled:
        sentences.append(f"{model.n_unlabeled} of the samples had no label.")
    if model.filled:
        sentences.append(
            f"Missing values ({100 * model.filled:.2g} % of all) were replaced by column means."
        )
    if model.batches is not None:
        sentences.append(
            f"Additive effects of {len(model.batches)} batches were estimated together with the "
            "class means by least squares, and removed."
        )
    return " ".join(sentences)
