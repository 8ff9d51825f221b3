"""`compare`: SLCE beside other methods, on the same folds."""

from __future__ import annotations

import contextlib
import importlib.util
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from slce_xp import _backend, _parameters
from slce_xp._comparison.folds import Split, cross_validate
from slce_xp._comparison.methods import METHODS, MOST_WORK, Method
from slce_xp._comparison.table import Comparison, summarised
from slce_xp._data import columns
from slce_xp._data import matrix as _matrix
from slce_xp._data.labels import Labels, as_labels
from slce_xp._errors import invalid, naming, not_installed, wrong_type
from slce_xp._folds import as_group_codes, make_folds
from slce_xp._progress import Steps
from slce_xp.core._rows import MemoryRows


def compare(
    X: Any,
    y: Any,
    components: Sequence[int] = (2, 3, 5),
    *,
    methods: Sequence[str] | None = None,
    cv: Any = 5,
    groups: Any = None,
    scale: bool = False,
    impute: bool = False,
    random_state: int | None = 0,
    progress: bool = False,
) -> Comparison:
    """Compare SLCE with other methods of dimensionality reduction by cross-validation.

    All methods are fitted to the same folds. Held-out samples are classified in each embedding by
    their 5 nearest neighbours and by the nearest class mean. Differences to the best are paired,
    sample by sample, and none within two standard errors is called a win. Needs scikit-learn.

    Parameters
    ----------
    X : NumPy array, SciPy sparse matrix, list of rows or data frame of numbers, shape (n, d)
        In memory, on the host. Sparse matrices stay sparse.
    y : array, list, Series or Categorical, shape (n,)
        Class labels, as in `slce_xp.fit`.
    components : sequence of int
        Numbers of components. A method that cannot have so many is run with the most it can have,
        and the table says why.
    methods : sequence of str, optional
        Any of "pca", "lda", "shrinkage-lda" (scikit-learn's with ``solver="eigen"`` and
        ``shrinkage="auto"``), "slce", "separation" (SLCE with ``criterion="separation"``), "nca"
        and "all" (all features, no reduction). By default all of them, except those of scikit-learn
        whose fit takes more than 4e10 operations; the table says so.
    cv : int, splitter or iterable of (train, test)
        The number of stratified folds, or folds as scikit-learn has them. There are fewer than this
        number if a class has fewer samples, or groups; a class with one is only trained on.
    groups : array, list or Series, shape (n,), optional
        What samples were measured on, such as mice, if there are several of each: those of a group
        are in the same fold. A splitter gets them, too.
    scale, impute : bool
        Whether to divide columns by their standard deviations, and to fill missing values with
        means; both are computed from the training samples of each fold.
    random_state : int or None
        Seed of the folds and of the methods. None draws another one for each call.
    progress : bool
        Whether to show a progress bar (needs tqdm).

    Returns
    -------
    Comparison
        Frozen; printing it shows a table.

    Raises
    ------
    ValueError, TypeError
        As in `slce_xp.fit`; also if not two classes have two samples, or groups.

    See Also
    --------
    slce_xp.plot.comparison : Plot the result.

    Notes
    -----
    The standard error is the larger of that over samples and that over folds, the latter with the
    correction of Nadeau and Bengio (2003) for overlapping training sets.

    Examples
    --------
    >>> import slce_xp
    >>> from sklearn.datasets import load_wine
    >>> X, y = load_wine(return_X_y=True)
    >>> found = slce_xp.compare(X, y, (2,), methods=("pca", "lda", "slce"), scale=True)
    >>> for score in found.scores[::2]:
    ...     print(f"{score.method}: {score.accuracy:.3f} ± {score.error:.3f}")
    PCA: 0.966 ± 0.014
    LDA: 0.989 ± 0.010
    SLCE: 0.978 ± 0.011
    >>> print(found.winner())  # nothing is ahead by more than the noise
    None
    """
    if importlib.util.find_spec("sklearn") is None:
        error = ImportError("No module named 'sklearn'")
        raise not_installed("slce_xp.compare", "scikit-learn", error, "scikit-learn")
    matrix = _as_host_matrix(X)
    n = matrix.shape[0]
    labels = as_labels(y, n)
    counts = _as_counts(components)
    chosen = _as_methods(methods)
    seed = _parameters.as_seed(random_state)
    scale, impute = (
        _parameters.as_flag(value, name) for name, value in (("scale", scale), ("impute", impute))
    )
    units = None if groups is None else as_group_codes(groups, n)
    splits, fewer = _as_splits(cv, labels, seed, units)
    _check_finite(matrix, impute)
    bar = Steps(len(splits) * len(chosen)) if progress else None
    with contextlib.closing(bar) if bar else contextlib.nullcontext():
        outcomes = cross_validate(
            matrix,
            labels.codes,
            splits,
            chosen,
            counts,
            scale=scale,
            impute=impute,
            seed=seed,
            most_work=MOST_WORK if methods is None else np.inf,
            report=bar.begin if bar else lambda name: None,
        )
        if bar:
            bar.done()
    prepared = ", ".join(["missing values filled"] * impute + ["columns scaled"] * scale)
    preparation = fewer + f" ({prepared} in each fold)" * bool(prepared)
    return summarised(outcomes, matrix, labels.codes, labels.classes, splits, preparation)


def _as_host_matrix(X: Any) -> Any:
    """Return X as a NumPy array or a SciPy matrix of compressed rows."""
    matrix = _matrix.as_values(X)
    _matrix.check_sizes(matrix)
    if type(matrix) is np.ndarray:
        return matrix
    if _backend.is_sparse(X) and _backend.backend_name(_backend.place_of(matrix).xp) == "numpy":
        return X.tocsr()
    kind = type(X).__name__
    raise wrong_type(
        "X",
        "X must be a NumPy array, a SciPy sparse matrix or a data frame in memory, for the methods "
        f"of scikit-learn; got {kind}. Convert it first, for example numpy.asarray(X)",
    )


def _check_finite(matrix: Any, impute: bool) -> None:
    """Raise the error of a fit for NaN and infinity; NaN may be there to be filled."""
    if not impute:
        wrapped = _backend.Sparse(matrix) if _backend.is_sparse(matrix) else matrix
        MemoryRows(wrapped).raise_if_not_finite()
        return
    facts = columns.statistics(matrix)
    for wrong, what, remedy in (
        (~np.isfinite(facts.std), "infinity or a number too large to be squared", "Correct it"),
        (facts.missing == matrix.shape[0], "no value at all", "Leave it out"),
    ):
        if wrong.any():
            column = int(np.argmax(wrong))
            raise invalid(
                "X", f"X must hold numbers in each column; column {column} has {what}. {remedy}"
            )


def _as_counts(components: Any) -> tuple[int, ...]:
    given = [components] if np.ndim(components) == 0 else list(components)
    if not given:
        raise invalid("components", "components must be one integer or more; got none")
    return tuple(sorted({_parameters.as_count(k, "components", 1) for k in given}))


def _as_methods(methods: Iterable[str] | None) -> dict[str, Method]:
    rule = f"methods must be some of {', '.join(map(repr, METHODS))}"
    names = list(METHODS) if methods is None else methods
    if not isinstance(names, Iterable):
        raise wrong_type("methods", f"{rule}; got {names!r}")
    names = [names] if isinstance(names, str) else list(names)
    strange = [name for name in names if name not in list(METHODS)]
    if strange or not names:
        raise invalid("methods", f"{rule}; got {repr(strange[0]) if strange else 'none'}")
    return {METHODS[name].name: METHODS[name] for name in names}


def _as_splits(
    cv: Any, labels: Labels, seed: int, groups: np.ndarray | None
) -> tuple[list[Split], str]:
    """Return the folds, and what is special about them."""
    y, by = labels.codes, " of groups" * (groups is not None)
    if isinstance(cv, (int, np.integer, float, str)) or cv is None:
        count = _parameters.as_count(cv, "cv", 2)
        folds = make_folds(y, count, seed, labels.classes, groups)
        return folds.splits(), by + f", as {folds.note}" * bool(folds.note)
    from sklearn.model_selection import check_cv

    try:
        parts = list(check_cv(cv, y, classifier=True).split(np.zeros(len(y)), y, groups))
        everyone = np.arange(len(y))
        splits = [(everyone[train], everyone[test]) for train, test in parts]
    except (TypeError, ValueError, IndexError) as error:
        raise naming("cv", error) from None
    if not splits:
        raise invalid("cv", "cv must give at least one fold; got none. Pass a new iterator")
    for train, test in splits:
        if not len(test) or len(np.unique(y[train])) < 2:
            raise invalid("cv", "cv must give folds with test samples and two classes to train on")
        if np.isin(test, train).any():
            raise invalid(
                "cv",
                "cv must hold test samples out of training; sample "
                f"{test[np.isin(test, train)][0]} is in both parts of a fold",
            )
    return splits, by
