"""Plots of embeddings by models."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

from slce_xp import CrossEmbedding, Model, _backend, cross_embed
from slce_xp._errors import invalid
from slce_xp.plot._given import as_components, as_model, embed, feature_names, is_model
from slce_xp.plot._looks import natural_order
from slce_xp.plot._points import points

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def embedding(
    model: Any,
    X: Any = None,
    y: Any = None,
    *,
    X_test: Any = None,
    y_test: Any = None,
    cv: int = 10,
    groups: Any = None,
    arrows: int = 0,
    names: Iterable[Any] | None = None,
    **options: Any,
) -> Axes:
    """Plot samples: ``embedding(X, y)`` out of fold, ``embedding(model, X, y)`` by a given model.

    ``embedding(X, y)`` draws each sample by a model that did not see it, and an ellipse for the
    mean of each class: see `slce_xp.cross_embed`. With a model, samples of the fit are filled, and
    test samples open. Classes look better apart in the samples of the fit than they are; if only
    these are drawn, the title says so.

    Parameters
    ----------
    model : Model or fitted SLCE, optional
    X : anything that `slce_xp.fit` takes, shape (n, d)
        Samples; with a model, those of its fit.
    y : labels, shape (n,)
        With a model, they are optional: samples with missing labels (NaN, None, an empty string)
        are grey.
    X_test, y_test : optional
        Samples for a given model that are not of its fit, with or without labels. Labels that are
        not classes of the model share one look.
    cv, groups : optional
        The folds of ``embedding(X, y)``, as for `slce_xp.cross_embed`.
    arrows : int
        How many features to draw as arrows: those of the largest correlations with the components
        that are drawn, `Model.structure`.
    names : d names, optional
        Names of the features; those of the model by default, or numbers from 1.
    **options
        Those of `points`: components, title, palette, ax, figsize.

    Returns
    -------
    Axes

    Examples
    --------
    >>> import numpy as np, slce_xp, slce_xp.plot
    >>> y = np.repeat(["B", "NK", "T"], 20)
    >>> X = np.random.default_rng(0).normal(size=(60, 5))
    >>> X[y == "NK", 0] += 9
    >>> X[y == "T", 1] += 7
    >>> print(slce_xp.plot.embedding(X, y).get_title())
    out of fold: 100.0 % right, 100.0 % balanced
    10 folds, 95 % regions of class means
    >>> model = slce_xp.fit(X, y)
    >>> ax = slce_xp.plot.embedding(model, X[::2], y[::2], X_test=X[1::2], y_test=y[1::2])
    >>> print(ax.get_xlabel())
    component 1 (76.4 % of class structure)
    """
    components = options.get("components")
    if y is None and not is_model(model):
        X, y = model, X
        if X_test is not None or y is None:
            raise invalid(
                "model", "model must be given to draw samples without y, or test samples; got none"
            )
        found = cross_embed(X, y, 1 + max(components or (1,)), cv, groups)
        drawn = _feature_arrows(found.model, X, arrows, names, components)
        return cross_embedding(found, arrows=drawn, **options)
    model = as_model(model)
    if y is not None and X_test is None:
        options = {"title": "in-sample: embedding of the samples of the fit", **options}
    return points(
        embed(model, X),
        y,
        Z_test=None if X_test is None else embed(model, X_test),
        y_test=y_test,
        classes=natural_order(model.classes),
        shares=_backend.to_host(model.loss_shares) if model.criterion == "centroid" else None,
        arrows=_feature_arrows(model, X, arrows, names, components),
        **options,
    )


def cross_embedding(found: CrossEmbedding, **options: Any) -> Axes:
    """Plot samples by models that did not see them, with 95 % ellipses of the class means.

    Parameters
    ----------
    found : CrossEmbedding
        The result of `slce_xp.cross_embed`. Samples that are in all training sets are not drawn.
    **options
        Those of `points`: components, arrows, title, palette, ax, figsize. The default title states
        the accuracy.

    Returns
    -------
    Axes
    """
    held = found.folds >= 0
    title = title_of(found, options.get("components"))
    return points(
        found.scores[held],
        found.y[held],
        classes=natural_order(found.classes),
        ellipses=found.ellipses,
        **{"title": title, **options},
    )


def title_of(found: CrossEmbedding, components: Any = None, *, in_page: bool = False) -> str:
    """What a plot of components shows, in one line for a page.

    Pages, and plots of others than the first two components, have no regions.
    """
    k = found.scores.shape[1]
    has_regions = not in_page and sorted(as_components(components, k)) == list(range(k))[:2]
    in_groups = found.unit == "groups"
    by, means = (" of groups", "means of groups") if in_groups else ("", "class means")
    separator = ", " if in_page else "\n"
    return (
        f"out of fold: {100 * found.accuracy:.1f} % right, "
        f"{100 * found.balanced_accuracy:.1f} % balanced{separator}"
        f"{found.n_folds} folds{by}{f', 95 % regions of {means}' * has_regions}"
    )


def _feature_arrows(
    model: Model, X: Any, count: int, names: Iterable[Any] | None, components: Any
) -> dict[str, np.ndarray]:
    """Return the correlations of the features that correlate most with the drawn components."""
    if not count:
        return {}
    listed = feature_names(names, model, model.n_features)
    found = _backend.to_host(model.structure(X))
    chosen = as_components(components, found.shape[1])
    largest = np.argsort(-np.linalg.norm(found[:, chosen], axis=1), kind="stable")[:count]
    return {listed[j]: found[j] for j in largest}
