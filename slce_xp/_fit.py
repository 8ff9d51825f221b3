"""validate → plan → statistics → solve → signs → model."""

from __future__ import annotations

import warnings
from types import ModuleType
from typing import Any

from slce_xp import _linalg, _validate, _xp
from slce_xp._model import Model
from slce_xp._moments import class_moments
from slce_xp._operator import CentroidOperator
from slce_xp._solvers import SOLVERS
from slce_xp._source import ArraySource


def fit(
    X: Any,
    y: Any,
    n_components: int | str | None = None,
    *,
    backend: str | ModuleType | None = None,
    device: Any = None,
    solver: str = "auto",
    random_state: int = 0,
) -> Model:
    r"""Fit a Supervised Linear Centroid-Encoder.

    Finds the orthonormal :math:`A` with

    .. math:: \min_{A^T A = I} \lVert \tilde C - X A A^T \rVert_F^2 ,

    where each row of :math:`\tilde C` is the centroid of that sample's class and both are
    centred. The solution is closed: the eigenvectors of :math:`S_b - S_w` (between-class minus
    within-class scatter) for its algebraically largest eigenvalues. The same criterion is
    known as the Maximum Margin Criterion.

    Parameters
    ----------
    X : array, list of rows or data frame of numbers, shape (n, d)
        float32 and float64 are kept; integers and booleans become the library's default
        float, shorter floats are computed in float32. Never changed.
    y : array, list, Series or Categorical, shape (n,)
        Class labels: integers, strings, booleans, dates. On any device or on the host.
    n_components : int, "positive" or None
        Components to return, from 1 to d. None: number of classes − 1. "positive": only
        those that lower the loss, which may be none.
    backend : {"numpy", "cupy", "torch", "jax"}, namespace or None
        None computes where X is. A name moves X there, once.
    device : optional
        A device of the backend, such as "cuda:1"; None is X's own or the backend's default.
    solver : {"auto", "scatter", "gram"}
        The form of the eigenproblem: "scatter" builds d × d, "gram" n × n. They give the
        same answer; "auto" takes the smaller.
    random_state : int
        Seed for directions that are arbitrary by nature (null space of X).

    Returns
    -------
    Model
        Frozen; its arrays live where the fit was computed.

    Examples
    --------
    >>> import numpy as np, slce_xp
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(60, 5))
    >>> y = np.repeat(["a", "b", "c"], 20)
    >>> X[y == "b", 0] += 9
    >>> X[y == "c", 1] += 9
    >>> print(slce_xp.fit(X, y))
    SLCE model: 5 features → 2 components
      fitted on    60 samples of 3 classes
      solved by    scatter form, numpy on cpu, float64
      eigenvalues  1503, 442.1
      loss         96.87 of 2042, 95.3 % removed
      components   all of them lower the loss
    """
    matrix = _validate.as_matrix(X)
    _validate.check_sizes(matrix)
    n, d = matrix.shape
    labels = _validate.as_labels(y, n)
    k = _validate.as_component_count(n_components, len(labels.classes), d)
    seed = _validate.as_seed(random_state)
    form = _choose(solver, n, d)
    place = _validate.find_place(matrix, backend, device)

    source = ArraySource(_xp.move(matrix, place))
    with _xp.careful_arithmetic(place.xp):
        moments = class_moments(source, labels, second=form == "scatter")
        operator = CentroidOperator(source, labels, moments, seed)
        values, vectors, zero = SOLVERS[form](operator, k)
        vectors = _linalg.fix_signs(vectors)
        total_loss = place.xp.sum(operator.between * operator.between)

    n_positive = int((_xp.to_host(values) > zero).sum())
    _tell_useless(n_components, k, n_positive)
    kept = slice(None, n_positive if n_components == "positive" else k)
    return Model(
        components=vectors[:, kept].T,
        eigenvalues=values[kept],
        mean=operator.mean,
        centroids=moments.centroids,
        classes=labels.classes,
        counts=_xp.from_host(labels.counts, place),
        n_positive=n_positive,
        total_loss=float(_xp.to_host(total_loss)),
        solver=form,
    )


def _choose(solver: str, n: int, d: int) -> str:
    if solver == "auto":
        return "scatter" if d <= n else "gram"
    if not isinstance(solver, str) or solver not in SOLVERS:
        valid = ", ".join(repr(name) for name in ("auto", *SOLVERS))
        raise ValueError(f"solver must be one of {valid}; got {solver!r}")
    return solver


def _tell_useless(n_components: int | str | None, k: int, n_positive: int) -> None:
    if n_components == "positive":
        if n_positive == 0:
            warnings.warn(
                "no direction lowers the loss, so the model has no components: the classes "
                "overlap too much. n_components=1 gives the best single direction",
                stacklevel=3,
            )
    elif n_components is not None and n_positive < k:
        warnings.warn(
            f"n_components={k} was asked for, but only the first {n_positive} lower the loss; "
            "n_components='positive' keeps those",
            stacklevel=3,
        )
