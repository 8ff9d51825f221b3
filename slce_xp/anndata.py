"""SLCE for AnnData, with the conventions of scanpy (extra ``anndata``)."""

from __future__ import annotations

import dataclasses
import warnings
from typing import Any

import numpy as np

from slce_xp import Model, SLCEWarning, _backend, _load, feature_path, fit
from slce_xp._alignment import aligned
from slce_xp._data import columns
from slce_xp._data.labels import as_labels
from slce_xp._errors import invalid, naming, wrong_type
from slce_xp._model import contents_of
from slce_xp._parameters import as_count

__all__ = ["predict", "select", "slce", "transform"]

# scanpy's default of `mask_var`: "highly_variable", if genes are marked so.
_MARKED = "highly_variable"
_DEFAULT: Any = object()


def slce(
    adata: Any,
    labels: str = "cell_type",
    n_comps: int | float | str | None = None,
    *,
    layer: str | None = None,
    obsm: str | None = None,
    mask_var: Any = _DEFAULT,
    batch_key: str | None = None,
    random_state: Any = 0,
    key_added: str | None = None,
    copy: bool = False,
    return_info: bool = False,
    **fit_options: Any,
) -> Any:
    r"""Embed cells so that their labels separate, and write the embedding into `adata`.

    .. math:: \min_{A^T A = I} \lVert \tilde C - X A A^T \rVert_F^2

    Each row of :math:`\tilde C` is the mean of the cells with that cell's label; both are centred.
    Parameters and results are named as those of `scanpy.pp.pca`. Sparse counts stay sparse. Scale
    and log-transform them first, as for a PCA.

    Parameters
    ----------
    adata : anndata.AnnData, shape (n, d)
        Cells × genes: an array, CSR, CSC, of CuPy, a Dask array, or views of them. If it is backed
        by a file, X is read in blocks of cells; the results are in memory.
    labels : str
        The column of `adata.obs` with the labels.
    n_comps : int, float, "positive" or None
        As `n_components` of `slce_xp.fit`. None: number of labels − 1, but two for two labels, so
        that there is a plane to plot.
    layer : str, optional
        A layer to fit instead of `adata.X`.
    obsm : str, optional
        An embedding, such as "X_pca", to fit instead of `adata.X`.
    mask_var : str, array of bool, shape (d,), or None
        The genes to use: a column of `adata.var`, or a mask. None: all. By default those that
        `adata.var["highly_variable"]` marks, if that column exists. The loadings of other genes are
        zero.
    batch_key : str, optional
        A column of `adata.obs` with batches, whose additive effects are removed: see `batch` of
        `slce_xp.fit`.
    random_state : int, numpy.random.RandomState, numpy.random.Generator or None
        As for `slce_xp.fit`; a generator draws a seed.
    key_added : str, optional
        The key of all results, verbatim. By default ``obsm["X_slce"]``, ``varm["SLCEs"]`` and
        ``uns["slce"]``.
    copy : bool
        Write into a copy and return it.
    return_info : bool
        Return the fitted `slce_xp.Model`, too.
    **fit_options
        Passed to `slce_xp.fit`: `criterion="separation"`, `unlabeled="missing"`,
        `class_weight="balanced"`, `backend="cupy"` and the like.

    Returns
    -------
    AnnData, Model or None
        The copy, the model, both in this order, or None. Written into `adata`, or into the copy:

        - ``obsm["X_slce"]``, shape (n, k): the embedding,
        - ``varm["SLCEs"]``, shape (d, k): the components, one per column; not with `obsm`,
        - ``uns["slce"]``: ``eigenvalues``, ``n_positive``, ``loss``, ``total_loss``, ``classes``,
          ``counts``, the ``params`` of the call, and the ``model``, for `transform` and `predict`.

    See Also
    --------
    predict : Transfer the labels to other cells.
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
    values = _labels(adata, labels, fit_options.get("unlabeled"))
    X = _matrix(adata, layer, obsm)
    genes, mask_name = (None, None) if obsm is not None else _genes(adata, mask_var)
    if obsm is None:
        _check_names(adata.var_names if genes is None else adata.var_names[genes])
    used = _of_genes(X, genes)
    batch = _batch(adata, batch_key)
    options = {"batch": batch, "random_state": _seed(random_state), **fit_options}
    model = _fit_with_plane(used, values, n_comps, options)
    # CuPy's arrays, dense and sparse, have `get`; any other X is on the host.
    model = model if hasattr(used, "get") else model.to("numpy")
    embedding = _embedding(model, used, batch)
    model = model.to("numpy")

    target = adata.copy() if copy else adata
    keys = ("X_slce", "SLCEs", "slce") if key_added is None else (key_added,) * 3
    target.obsm[keys[0]] = embedding
    if obsm is None:  # genes that are not used have zeros
        chosen = slice(None) if genes is None else genes
        names = np.asarray(adata.var_names[chosen], dtype=str)
        model = dataclasses.replace(model, feature_names=names)
        loadings = np.zeros((target.shape[1], model.n_components), dtype=model.components.dtype)
        loadings[chosen] = model.components.T
        target.varm[keys[1]] = loadings
    params = {"labels": labels, "n_comps": n_comps, "layer": layer, "obsm": obsm}
    params |= {"mask_var": mask_name, "batch_key": batch_key, **fit_options}
    target.uns[keys[2]] = _facts(model, params)
    found = [target] * copy + [model] * return_info
    return tuple(found) if len(found) == 2 else found[0] if found else None


def transform(
    query: Any,
    reference: Any,
    *,
    key: str | None = None,
    layer: str | None = None,
    batch_key: str | None = None,
    max_missing: float = 0.2,
    key_added: str | None = None,
    copy: bool = False,
) -> Any:
    """Embed cells by the components of a reference, and write the embedding into `query`.

    Genes are matched by name. A gene that the query lacks counts as if it had the mean of the
    reference, with a warning.

    Parameters
    ----------
    query : anndata.AnnData, shape (n, d)
        Cells to embed, normalised as the reference was.
    reference : anndata.AnnData
        What `slce` wrote into.
    key : str, optional
        The `key_added` of that call.
    layer : str, optional
        A layer of the query instead of its X.
    batch_key : str, optional
        The column of `query.obs` with batches, if the reference was fitted with some. Cells of
        other batches than its own are not corrected, with a warning.
    max_missing : float
        The largest share of the reference's genes that the query may lack.
    key_added : str, optional
        The key of the embedding in `query.obsm`; ``"X_slce"`` by default.
    copy : bool
        Write into a copy and return it.

    Returns
    -------
    AnnData or None
        The copy, or None if `query` itself was written into.

    Examples
    --------
    >>> import anndata, numpy as np, slce_xp.anndata
    >>> rng = np.random.default_rng(0)
    >>> cells = anndata.AnnData(rng.normal(size=(60, 5)))
    >>> cells.obs["cell_type"] = np.repeat(["B", "NK", "T"], 20)
    >>> slce_xp.anndata.slce(cells)
    >>> query = cells[:10, ::-1].copy()  # genes in another order
    >>> slce_xp.anndata.transform(query, cells)
    >>> bool(np.allclose(query.obsm["X_slce"], cells.obsm["X_slce"][:10]))
    True
    """
    model, X = _applied(query, reference, key, layer, max_missing, copy)
    target = query.copy() if copy else query
    embedding = _embedding(model, X, _batch(query, batch_key))
    target.obsm[key_added or "X_slce"] = embedding
    return target if copy else None


def predict(
    query: Any,
    reference: Any,
    *,
    key: str | None = None,
    layer: str | None = None,
    batch_key: str | None = None,
    max_missing: float = 0.2,
    key_added: str = "slce",
    copy: bool = False,
) -> Any:
    """Transfer labels from a reference to other cells.

    Genes are matched by name, as by `transform`; those that the query lacks are left out of the
    class means, too. A cell of a type that the reference does not have gets the label of another:
    neither a small probability nor a large distance detects it reliably.

    Parameters
    ----------
    query : anndata.AnnData, shape (n, d)
        Cells to label, normalised as the reference was.
    reference : anndata.AnnData
        What `slce` wrote into.
    key : str, optional
        The `key_added` of that call.
    layer : str, optional
        A layer of the query instead of its X.
    batch_key : str, optional
        The column of `query.obs` with batches, if the reference was fitted with some. Cells of
        other batches than its own are not corrected, with a warning.
    max_missing : float
        The largest share of the reference's genes that the query may lack.
    key_added : str
        The key of the labels in `query.obs`, and the prefix of what comes with them.
    copy : bool
        Write into a copy and return it.

    Returns
    -------
    AnnData or None
        The copy, or None if `query` itself was written into:

        - ``obs["slce"]``: the labels, a categorical,
        - ``obs["slce_probability"]``: the probability of that label,
        - ``obs["slce_distance"]``: the distance to the nearest class mean in the embedding,
        - ``obsm["slce_probabilities"]``, shape (n, K): of all labels, in the order of the
          categories.

    Examples
    --------
    >>> import anndata, numpy as np, slce_xp.anndata
    >>> rng = np.random.default_rng(0)
    >>> cells = anndata.AnnData(rng.normal(size=(60, 5)))
    >>> cells.obs["cell_type"] = np.repeat(["B", "NK", "T"], 20)
    >>> cells.X[20:40, 0] += 9
    >>> cells.X[40:, 1] += 9
    >>> slce_xp.anndata.slce(cells)
    >>> query = cells[::20, ::-1].copy()
    >>> slce_xp.anndata.predict(query, cells)
    >>> list(query.obs["slce"])
    ['B', 'NK', 'T']
    """
    model, X = _applied(query, reference, key, layer, max_missing, copy)
    embedding = _embedding(model, X, _batch(query, batch_key))
    probabilities = model._probabilities(embedding)
    centres = model._embedded(model._place.xp, model.centroids)
    nearest = [np.linalg.norm(embedding - centre, axis=1) for centre in centres]
    target = query.copy() if copy else query
    target.obs[key_added] = model.classes[probabilities.argmax(axis=1)]
    labels = target.obs[key_added].astype("category")
    target.obs[key_added] = labels.cat.set_categories(model.classes)
    target.obs[f"{key_added}_probability"] = probabilities.max(axis=1)
    target.obs[f"{key_added}_distance"] = np.min(nearest, axis=0)
    target.obsm[f"{key_added}_probabilities"] = probabilities
    return target if copy else None


def select(
    adata: Any,
    labels: str = "cell_type",
    n_features: int | None = None,
    *,
    n_resamples: int = 0,
    layer: str | None = None,
    mask_var: Any = _DEFAULT,
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
    labels : str
        The column of `adata.obs` with the labels.
    n_features : int, optional
        How many genes to select; by default 50, or all if there are fewer.
    n_resamples : int
        Resamples of half the cells for the frequencies; 0: none.
    layer : str, optional
        A layer to use instead of `adata.X`.
    mask_var : str, array of bool, shape (d,), or None
        The genes to select from, as for `slce`.
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
    values = _labels(adata, labels, path_options.get("unlabeled"))
    genes, mask_name = _genes(adata, mask_var)
    X = _of_genes(_matrix(adata, layer, None), genes)
    places = np.arange(adata.shape[1]) if genes is None else np.flatnonzero(genes)
    results: dict[str, np.ndarray] = {}
    facts: dict[str, Any] = {}
    if as_count(n_resamples, "n_resamples", 0):
        from slce_xp import SLCESelector  # needs scikit-learn

        count = min(50, len(places)) if n_features is None else n_features
        count = as_count(count, "n_features", 1, len(places))
        options, known, weights = _for_resamples(path_options, values)
        selector = SLCESelector(count, n_resamples=n_resamples, **options)
        selector.fit(X, known, sample_weight=weights)
        path, chosen = selector.path_, selector.get_support(indices=True)
        results["frequency"] = selector.frequencies_
        if n_resamples > 1:
            facts["stability"] = selector.stability_
    else:
        path = feature_path(X, values, n_features=n_features, **path_options)
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
    params = {"labels": labels, "n_features": n_features, "n_resamples": n_resamples}
    params |= {"layer": layer, "mask_var": mask_name, **path_options}
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


def _fit_with_plane(X: Any, y: Any, n_comps: Any, options: dict[str, Any]) -> Model:
    """The model, by default with a second component to plot that of two labels against."""
    has_second = X.shape[1] > 1 and options.get("criterion") != "separation"
    if n_comps is not None or y.nunique() != 2 or not has_second:
        return fit(X, y, n_comps, **options)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "(n_components=2|of 2 components)", SLCEWarning)
        return fit(X, y, 2, **options)


def _applied(
    query: Any, reference: Any, key: str | None, layer: str | None, max_missing: float, copy: bool
) -> tuple[Model, Any]:
    """The model of a reference on the genes of a query, and the matrix of the query."""
    _check_is_annotated(query, copy, "query")
    _check_is_annotated(reference, False, "reference")
    key = "slce" if key is None else key
    contents = _stored(reference.uns.get(key))
    if contents is None:
        known = [repr(k) for k, facts in reference.uns.items() if _stored(facts) is not None]
        message = (
            f"reference.uns must have a model of slce() under key={key!r}; it has models under "
            f"{', '.join(known) or 'no key'}. Fit the reference first, or pass its key"
        )
        raise naming("reference", KeyError(message))
    model = _load.from_contents(contents)
    if model.feature_names is None:
        raise invalid(
            "reference",
            f"reference must be fitted to genes; its {key!r} is of an embedding (obsm=). Fit it to "
            "X or a layer",
        )
    return aligned(model, query.var_names, max_missing)[0], _matrix(query, layer, None)


def _facts(model: Model, params: dict[str, Any]) -> dict[str, Any]:
    """What `uns` has of a model, all of which files can store."""
    own = ("loss",) if model.criterion == "centroid" else ("separation", "shrinkage")
    names = ("eigenvalues", "n_positive", *own, "total_loss", "classes", "counts")
    facts = {"params": _storable(params), **{name: getattr(model, name) for name in names}}
    facts["model"] = contents_of(model)
    # HDF5 does not store dates and objects.
    for part in (facts, facts["model"]):
        if part["classes"].dtype.kind not in "iufbU":
            part["classes"] = part["classes"].astype(str)
    return facts


def _stored(facts: Any) -> dict[str, np.ndarray] | None:
    """The contents of a model in an entry of `uns`, as they were before a file of AnnData."""
    if not hasattr(facts, "get") or facts.get("model") is None:
        return None
    contents = {name: np.asarray(value) for name, value in facts["model"].items()}
    return {n: a.astype(str) if a.dtype.kind in "OT" else a for n, a in contents.items()}


def _storable(params: dict[str, Any]) -> dict[str, Any]:
    """Return what files store: neither arrays nor devices nor None."""
    return {name: p for name, p in params.items() if isinstance(p, (str, bool, int, float))}


def _embedding(model: Model, X: Any, batch: Any) -> np.ndarray:
    """The embedding on the host, of the chunks of a Dask array, too."""
    embedding = model.transform(X, batch=batch)
    return _backend.to_host(embedding.compute() if _backend.is_dask(X) else embedding)


def _check_names(names: Any) -> None:
    """Raise ValueError for genes of the same name: others are matched by it."""
    double = names[names.duplicated()].unique()
    if len(double):
        raise invalid(
            "adata",
            "adata.var_names must be unique among the genes that are used; "
            f"{', '.join(map(str, double[:5]))} occur more than once. Make them unique: "
            "adata.var_names_make_unique()",
        )


def _batch(adata: Any, batch_key: str | None) -> Any:
    return None if batch_key is None else _named(adata, "obs", batch_key, "batch_key")


def _named(adata: Any, group: str, key: str, parameter: str, remedy: str = "") -> Any:
    """An entry of `adata.obs`, `adata.var`, `adata.layers` or `adata.obsm`."""
    entries = getattr(adata, group)
    if key not in entries:
        known = ", ".join(map(repr, entries)) or "none"
        message = f"{parameter} must name one of adata.{group} ({known}); got {key!r}. "
        raise naming(parameter, KeyError(message + (remedy or "Choose one of them")))
    return entries[key]


def _seed(random_state: Any) -> Any:
    """A seed, which a generator draws."""
    for draw in ("integers", "randint"):
        if hasattr(random_state, draw):
            return int(getattr(random_state, draw)(2**31))
    return random_state


def _check_is_annotated(adata: Any, copy: bool, name: str = "adata") -> None:
    if not all(hasattr(adata, name) for name in ("obs", "obsm", "varm", "uns", "layers")):
        raise wrong_type(
            name,
            f"{name} must be an AnnData; got {type(adata).__name__}. "
            "For a matrix and labels: slce_xp.fit(X, y)",
        )
    if not getattr(adata, "isbacked", False):
        return
    if adata.is_view:
        raise invalid(
            name,
            f"{name} must be all of a file, or in memory; got a view of one that is backed by a "
            f"file, which is read-only. Read the view: {name}.to_memory()",
        )
    if copy:
        raise invalid(
            "copy",
            f"copy must be False for an AnnData that is backed by a file; got {copy!r}. Leave it "
            "out: results are written into memory, not into the file",
        )


def _labels(adata: Any, key: str, unlabeled: Any) -> Any:
    labels = _named(adata, "obs", key, "labels", "Choose one of them, or add the labels first")
    missing = int(labels.isna().sum())
    if missing and not (isinstance(unlabeled, str) and unlabeled == "missing"):
        raise invalid(
            "labels",
            f"adata.obs[{key!r}] must have a label for every cell; {missing} of "
            f"{len(labels)} are missing. Pass unlabeled='missing' to use these cells without a "
            f"label, or leave them out: adata[adata.obs[{key!r}].notna()].copy()",
        )
    return labels


def _matrix(adata: Any, layer: str | None, obsm: str | None) -> Any:
    if layer is not None and obsm is not None:
        raise invalid("obsm", f"obsm must be None with a layer; got {obsm!r} and {layer!r}")
    remedy = "Choose one of them, or None for adata.X"
    if obsm is not None:
        return _named(adata, "obsm", obsm, "obsm", remedy)
    X = adata.X if layer is None else _named(adata, "layers", layer, "layer", remedy)
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


def _genes(adata: Any, mask_var: Any) -> tuple[np.ndarray | None, str | None]:
    """A mask of the genes to use, or None for all, and the name of its column."""
    if mask_var is _DEFAULT:
        mask_var = _MARKED if _MARKED in adata.var.columns else None
    if mask_var is None:
        return None, None
    name = mask_var if isinstance(mask_var, str) else None
    if name is not None:
        remedy = "Mark genes first, for example with scanpy.pp.highly_variable_genes, or pass None"
        mask_var = _named(adata, "var", name, "mask_var", f"{remedy} for all").to_numpy()
    mask = np.asarray(mask_var)
    is_mask = mask.shape == (adata.shape[1],) and {bool, np.bool_}.issuperset(map(type, mask))
    if not (is_mask and mask.any()):
        got = "other or missing values, or no True" if mask.ndim == 1 else f"shape {mask.shape}"
        raise invalid(
            "mask_var",
            f"mask_var must be True or False for each of the {adata.shape[1]} genes, and True for "
            f"at least one; {name or 'the mask'} has {len(mask)} values: {got}. Correct it, or "
            "pass None to use all genes",
        )
    return mask.astype(bool), name


def _of_genes(X: Any, genes: np.ndarray | None) -> Any:
    """The columns of the genes to use."""
    return X if genes is None else columns.only(X, np.flatnonzero(genes))
