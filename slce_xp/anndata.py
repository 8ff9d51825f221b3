"""SLCE for AnnData, in the style of scanpy (extra ``anndata``)."""

from __future__ import annotations

from typing import Any

import numpy as np

from slce_xp import _backend, feature_path, fit
from slce_xp._data.labels import as_labels
from slce_xp._errors import invalid, naming, wrong_type
from slce_xp._parameters import as_count


def slce(
    adata: Any,
    label_key: str = "cell_type",
    n_components: int | float | str | None = None,
    *,
    layer: str | None = None,
    use_highly_variable: bool | None = None,
    key_added: str = "slce",
    copy: bool = False,
    **fit_options: Any,
) -> Any:
    r"""Embed cells so that their labels separate, and write the embedding into `adata`.

    .. math:: \min_{A^T A = I} \lVert \tilde C - X A A^T \rVert_F^2

    Each row of :math:`\tilde C` is the mean of the cells with that cell's label; both are centred.
    Sparse counts stay sparse. Scale and log-transform them first, as for a PCA.

    Parameters
    ----------
    adata : anndata.AnnData, shape (n, d)
        Cells × genes. If it is backed by a file, X is read in blocks of cells; the results are in
        memory.
    label_key : str
        The column of `adata.obs` with the labels.
    n_components : int, float, "positive" or None
        As for `slce_xp.fit`.
    layer : str, optional
        A layer to fit instead of `adata.X`.
    use_highly_variable : bool, optional
        Whether to use only the genes that `adata.var["highly_variable"]` marks; None: if that
        column exists. The loadings of the other genes are zero.
    key_added : str
        The name of the results.
    copy : bool
        Write into a copy and return it.
    **fit_options
        Passed to `slce_xp.fit`: `unlabeled="missing"`, `class_weight="balanced"`,
        `backend="cupy"` and the like.

    Returns
    -------
    AnnData or None
        The copy, or None if `adata` itself was written into:

        - ``obsm["X_slce"]``, shape (n, k): the embedding,
        - ``varm["SLCEs"]``, shape (d, k): the components, one per column (``varm["foo_SLCEs"]``
          for ``key_added="foo"``),
        - ``uns["slce"]``: ``eigenvalues``, ``n_positive``, ``loss``, ``total_loss``, ``classes``,
          ``counts`` and the ``params`` of the call.

    See Also
    --------
    slce_xp.fit : For a matrix and labels.

    Examples
    --------
    >>> import anndata, numpy as np, slce_xp.anndata
    >>> rng = np.random.default_rng(0)
    >>> cells = anndata.AnnData(rng.normal(size=(60, 5)))
    >>> cells.obs["cell_type"] = np.repeat(["B", "NK", "T"], 20)
    >>> cells.X[20:40, 0] += 9
    >>> cells.X[40:, 1] += 9
    >>> slce_xp.anndata.slce(cells)
    >>> cells.obsm["X_slce"].shape, cells.varm["SLCEs"].shape
    ((60, 2), (5, 2))
    """
    _check_is_annotated(adata, copy)
    labels = _labels(adata, label_key, fit_options.get("unlabeled"))
    genes = _genes(adata, use_highly_variable)
    X = _used(_matrix(adata, layer), genes)
    model = fit(X, labels, n_components, **fit_options)
    # CuPy's arrays, dense and sparse, have `get`; any other X is on the host.
    model = model if hasattr(X, "get") else model.to("numpy")
    embedding = _backend.to_host(model.transform(X))
    model = model.to("numpy")

    target = adata.copy() if copy else adata
    target.obsm[f"X_{key_added}"] = embedding
    name = "SLCEs" if key_added == "slce" else f"{key_added}_SLCEs"
    # Genes that are not used have zeros.
    loadings = np.zeros((target.shape[1], model.n_components), dtype=model.components.dtype)
    loadings[slice(None) if genes is None else genes] = model.components.T
    target.varm[name] = loadings
    params = {
        "label_key": label_key,
        "n_components": n_components,
        "layer": layer,
        "use_highly_variable": genes is not None,
        **fit_options,
    }
    own = ("loss",) if model.criterion == "centroid" else ("separation", "shrinkage")
    names = ("eigenvalues", "n_positive", *own, "total_loss", "classes", "counts")
    facts = {"params": _storable(params), **{name: getattr(model, name) for name in names}}
    if model.classes.dtype.kind not in "iufbU":  # HDF5 does not store dates and objects
        facts["classes"] = model.classes.astype(str)
    target.uns[key_added] = facts
    return target if copy else None


def select(
    adata: Any,
    label_key: str = "cell_type",
    n_features: int | None = None,
    *,
    n_resamples: int = 0,
    layer: str | None = None,
    use_highly_variable: bool | None = None,
    key_added: str = "slce",
    copy: bool = False,
    **path_options: Any,
) -> Any:
    """Select the genes that reconstruct the means of the labels, and mark them in `adata.var`.

    Genes are those of `slce_xp.feature_path`, an exact lasso, or with resamples those that it
    selects most often (`slce_xp.SLCESelector`, with scikit-learn). Sparse counts stay sparse.

    Parameters
    ----------
    adata : anndata.AnnData, shape (n, d)
        Cells × genes. If it is backed by a file, X is read in blocks of cells.
    label_key : str
        The column of `adata.obs` with the labels.
    n_features : int, optional
        How many genes to select; by default 50, or all if there are fewer.
    n_resamples : int
        Resamples of half the cells for the frequencies; 0: none.
    layer : str, optional
        A layer to use instead of `adata.X`.
    use_highly_variable : bool, optional
        Whether to select only from the genes that `adata.var["highly_variable"]` marks; None: if
        that column exists.
    key_added : str
        The prefix of the results.
    copy : bool
        Write into a copy and return it.
    **path_options
        Passed to `slce_xp.feature_path`: `targets`, `ridge` and the like; `lambdas` only without
        resamples.

    Returns
    -------
    AnnData or None
        The copy, or None if `adata` itself was written into:

        - ``var["slce_selected"]``: whether a gene is selected,
        - ``var["slce_coefficient"]``: the norm of its coefficients at the end of the path,
        - ``var["slce_frequency"]``: the share of the resamples that select it, if there are any,
        - ``uns["slce_selection"]``: ``lambdas``, ``counts`` (of genes for each λ), ``gaps``,
          ``stability`` if there are two resamples or more, and the ``params`` of the call.

    See Also
    --------
    slce_xp.feature_path : For a matrix and labels.

    Examples
    --------
    >>> import anndata, numpy as np, slce_xp.anndata
    >>> rng = np.random.default_rng(0)
    >>> cells = anndata.AnnData(rng.normal(size=(60, 20)))
    >>> cells.obs["cell_type"] = np.repeat(["B", "NK", "T"], 20)
    >>> cells.X[20:40, 3] += 5
    >>> cells.X[40:, 8] += 5
    >>> slce_xp.anndata.select(cells, n_features=2)
    >>> list(cells.var_names[cells.var["slce_selected"]])
    ['3', '8']
    """
    _check_is_annotated(adata, copy)
    labels = _labels(adata, label_key, path_options.get("unlabeled"))
    genes = _genes(adata, use_highly_variable)
    X = _used(_matrix(adata, layer), genes)
    places = np.arange(adata.shape[1]) if genes is None else np.flatnonzero(genes)
    results: dict[str, np.ndarray] = {}
    facts: dict[str, Any] = {}
    if as_count(n_resamples, "n_resamples", 0):
        from slce_xp import SLCESelector  # needs scikit-learn

        count = min(50, len(places)) if n_features is None else n_features
        count = as_count(count, "n_features", 1, len(places))
        options, known, weights = _for_resamples(path_options, labels)
        selector = SLCESelector(count, n_resamples=n_resamples, **options)
        selector.fit(X, known, sample_weight=weights)
        path, chosen = selector.path_, selector.get_support(indices=True)
        results["frequency"] = selector.frequencies_
        if n_resamples > 1:
            facts["stability"] = selector.stability_
    else:
        path = feature_path(X, labels, n_features=n_features, **path_options)
        most = max(map(len, path.supports))
        chosen = path.select(most if n_features is None else min(n_features, most))
    results["coefficient"] = np.zeros(len(places))
    results["coefficient"][path.entered] = path.norms[-1]
    target = adata.copy() if copy else adata
    selected = np.zeros(adata.shape[1], dtype=bool)
    selected[places[chosen]] = True
    target.var[f"{key_added}_selected"] = selected
    for name, values in results.items():
        everyone = np.zeros(adata.shape[1])
        everyone[places] = values
        target.var[f"{key_added}_{name}"] = everyone
    params = {
        "label_key": label_key,
        "n_features": n_features,
        "n_resamples": n_resamples,
        "layer": layer,
        "use_highly_variable": genes is not None,
        **path_options,
    }
    target.uns[f"{key_added}_selection"] = {
        "params": _storable(params),
        "lambdas": path.lambdas,
        "counts": np.array([len(support) for support in path.supports]),
        "gaps": path.gaps,
        **facts,
    }
    return target if copy else None


def _for_resamples(options: dict[str, Any], labels: Any) -> tuple[dict[str, Any], Any, Any]:
    """Return the options of a selector, and labels with weights: 0 without a label."""
    if options.get("lambdas") is not None:
        raise invalid(
            "lambdas",
            "lambdas must be left out with n_resamples > 0, as each resample has a path of its own",
        )
    own = {"lambdas", "sample_weight", "unlabeled"}
    weights, mark = options.get("sample_weight"), options.get("unlabeled")
    if mark is not None:
        encoded = as_labels(labels, len(labels), weights, unlabeled=mark)
        last = len(encoded.classes) - 1
        weights = (encoded.codes <= last) * (1.0 if weights is None else np.asarray(weights))
        labels = encoded.classes[np.minimum(encoded.codes, last)]
    return {name: o for name, o in options.items() if name not in own}, labels, weights


def _used(X: Any, genes: np.ndarray | None) -> Any:
    """Return the columns of the genes to use."""
    if genes is None:
        return X
    return X[:, genes] if _backend.is_array(X) or _backend.is_sparse(X) else _Columns(X, genes)


def _storable(params: dict[str, Any]) -> dict[str, Any]:
    """Return what files store: neither arrays nor devices nor None."""
    return {name: p for name, p in params.items() if isinstance(p, (str, bool, int, float))}


class _Columns:
    """Some columns, by a boolean mask, of a row-sliceable object."""

    def __init__(self, rows: Any, chosen: np.ndarray) -> None:
        self._rows = rows
        self._chosen = chosen
        self.shape = (int(rows.shape[0]), int(chosen.sum()))
        self.dtype = rows.dtype
        self.chunks = getattr(rows, "chunks", None)

    def __getitem__(self, index: slice) -> Any:
        if hasattr(self._rows, "format"):  # sparse
            return self._rows[index][:, self._chosen]
        # In small pieces: the plan counts the chosen genes only.
        count = index.stop - index.start
        step = max(count * self.shape[1] // self._chosen.shape[0], (self.chunks or (1,))[0])
        block = np.empty((count, self.shape[1]), dtype=self.dtype)
        for i in range(0, count, step):
            rows = self._rows[index.start + i : min(index.start + i + step, index.stop)]
            block[i : i + step] = rows[:, self._chosen]
        return block


def _check_is_annotated(adata: Any, copy: bool) -> None:
    if not all(hasattr(adata, name) for name in ("obs", "obsm", "varm", "uns", "layers")):
        raise wrong_type(
            "adata",
            f"adata must be an AnnData; got {type(adata).__name__}. "
            "For a matrix and labels: slce_xp.fit(X, y)",
        )
    if not getattr(adata, "isbacked", False):
        return
    if adata.is_view:
        raise invalid(
            "adata",
            "adata must be all of a file, or in memory; got a view of one that is backed by a "
            "file, which is read-only. Read the view: adata.to_memory()",
        )
    if copy:
        raise invalid(
            "copy",
            f"copy must be False for an adata that is backed by a file; got {copy!r}. Leave it "
            "out: results are written into memory, not into the file",
        )


def _labels(adata: Any, label_key: str, unlabeled: Any) -> Any:
    if label_key not in adata.obs.columns:
        known = ", ".join(map(repr, adata.obs.columns)) or "none"
        message = (
            f"label_key must name a column of adata.obs ({known}); got {label_key!r}. "
            "Choose one of them, or add the labels first"
        )
        raise naming("label_key", KeyError(message))
    labels = adata.obs[label_key]
    missing = int(labels.isna().sum())
    if missing and not (isinstance(unlabeled, str) and unlabeled == "missing"):
        raise invalid(
            "label_key",
            f"adata.obs[{label_key!r}] must have a label for every cell; {missing} of "
            f"{len(labels)} are missing. Pass unlabeled='missing' to use these cells without a "
            f"label, or leave them out: adata[adata.obs[{label_key!r}].notna()].copy()",
        )
    return labels


def _matrix(adata: Any, layer: str | None) -> Any:
    if layer is not None and layer not in adata.layers:
        known = ", ".join(map(repr, adata.layers.keys())) or "none"
        message = (
            f"layer must name one of adata.layers ({known}); got {layer!r}. "
            "Choose one of them, or None for adata.X"
        )
        raise naming("layer", KeyError(message))
    X = adata.X if layer is None else adata.layers[layer]
    if X is None:
        raise invalid("adata", "adata.X must hold a matrix; got None. Set it, or name a layer")
    # Layers are always in memory.
    if layer is None and adata.isbacked and getattr(X, "format", "csr") != "csr":
        raise invalid(
            "adata",
            f"adata.X must be dense or in compressed rows (CSR) to be read from a file; got "
            f"{X.format.upper()}, all of which would be read for each block of cells. "
            "Read it: adata.to_memory(), or store it as CSR",
        )
    return X


def _genes(adata: Any, use_highly_variable: bool | None) -> np.ndarray | None:
    """Return a mask of the genes to use; None for all."""
    marked = "highly_variable" in adata.var.columns
    if use_highly_variable and not marked:
        message = (
            "use_highly_variable=True needs adata.var['highly_variable'], which is not there. "
            "Mark genes first, for example with scanpy.pp.highly_variable_genes"
        )
        raise naming("use_highly_variable", KeyError(message))
    if use_highly_variable is False or not marked:
        return None
    if not adata.var["highly_variable"].isin([True, False]).all():
        raise invalid(
            "use_highly_variable",
            "adata.var['highly_variable'] must be True or False for every gene; got missing or "
            "other values. Correct them, or pass use_highly_variable=False to use all genes",
        )
    genes: np.ndarray = adata.var["highly_variable"].to_numpy(dtype=bool)
    if not genes.any():
        raise invalid(
            "use_highly_variable",
            "adata.var['highly_variable'] must mark at least one gene; got none. "
            "Pass use_highly_variable=False to use all genes",
        )
    return genes
