"""Calibrated probabilities: one temperature, from samples that models did not see."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from slce_xp import _backend, _parameters
from slce_xp._data.labels import Labels
from slce_xp._errors import invalid
from slce_xp._folds import as_group_codes, make_folds
from slce_xp._held_out import held_out
from slce_xp._model import Model

# Models of two thirds of the samples are nearly that of all of them, for the price of three.
FOLDS = 3
# The temperature is known to about 1/√n, and looked for until a step changes it by less than this.
STEP, MOST_STEPS = 1e-6, 100
# What a step may change its logarithm by: a likelihood may be flat far from its optimum.
LONGEST_STEP = 1.0


def as_calibration(calibrate: Any, groups: Any, n: int) -> tuple[bool, np.ndarray | None]:
    """Whether to calibrate, and the codes of samples that are held out together."""
    calibrate = _parameters.as_flag(calibrate, "calibrate")
    if groups is None:
        return calibrate, None
    if not calibrate:
        raise invalid(
            "groups", "groups must come with calibrate=True, which holds them out. Leave them out"
        )
    return calibrate, as_group_codes(groups, n)


def calibrated(
    fit: Callable[..., Model],
    model: Model,
    X: Any,
    y: Any,
    matrix: Any,
    labels: Labels,
    groups: np.ndarray | None,
    options: dict[str, Any],
) -> Model:
    """The model with the temperature that makes held-out samples most probable.

    Parameters
    ----------
    fit, model, X, y, matrix, labels, options
        As for `held_out`.
    groups : numpy.ndarray of int, shape (n,), or None
        Codes of samples that are held out together.
    """
    n = len(labels.codes)
    lacking = [(labels.n_unlabeled, "a label")]
    if labels.weights is not None:
        lacking.append((int((labels.weights == 0).sum()), "a weight above 0"))
    for count, what in lacking:
        if count:
            raise invalid(
                "calibrate",
                f"calibrate=True needs {what} for every sample, for all are held out in turn; "
                f"{count} have none. Leave these samples out, or leave out calibrate",
            )
    if not model.n_components:
        return model
    folds = make_folds(labels.codes, FOLDS, options["random_state"], labels.classes, groups)
    # Fewer samples than means leave no spread: probabilities would be those of rounding.
    n_means = len(labels.classes) + (0 if model.batches is None else len(model.batches) - 1)
    if n - np.bincount(folds.codes + 1)[1:].max() <= n_means:
        raise invalid(
            "calibrate",
            "calibrate=True needs more samples: in a fold, those that are not held out are no "
            f"more than the {n_means} means that are estimated, and have no spread about them. "
            "Add samples, or leave out calibrate",
        )
    odds = np.zeros((n, len(labels.classes)))
    found = held_out(fit, model, X, y, matrix, labels, folds, options)
    for fold, held in enumerate(found):
        odds[folds.codes == fold] = _backend.to_host(held.likely)
    seen = folds.codes >= 0
    weights = None if labels.weights is None else labels.weights[seen]
    return dataclasses.replace(
        model, temperature=best_temperature(odds[seen], labels.codes[seen], weights)
    )


def best_temperature(odds: np.ndarray, y: np.ndarray, weights: np.ndarray | None) -> float:
    """The T for which probabilities ∝ exp(odds / T) of the true classes are largest.

    A normal prior of log T, of mean 0 and standard deviation 1, keeps T near 1 if samples say
    nothing of it, as when all are classified correctly whatever it is.

    Parameters
    ----------
    odds : numpy.ndarray, shape (n, K)
    y : numpy.ndarray of int, shape (n,)
    weights : numpy.ndarray, shape (n,), optional
    """
    n = len(y)
    share = np.ones(n) if weights is None else weights * (n / weights.sum())
    odds = odds - odds.max(axis=1, keepdims=True)
    target = float(share @ odds[np.arange(n), y])
    log_beta = 0.0  # β = 1 / T
    for _ in range(MOST_STEPS):
        beta = math.exp(log_beta)
        shares = np.exp(beta * odds)
        shares /= shares.sum(axis=1, keepdims=True)
        means = (shares * odds).sum(axis=1)
        variances = (shares * odds * odds).sum(axis=1) - means * means
        slope = beta * (float(share @ means) - target) + log_beta
        step = slope / (beta * beta * float(share @ variances) + 1.0)
        step = min(max(step, -LONGEST_STEP), LONGEST_STEP)
        log_beta -= step
        if abs(step) <= STEP:
            break
    return math.exp(-log_beta)
