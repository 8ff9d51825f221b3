"""The methods that SLCE is compared with, as scikit-learn transformers.

PCA and LDA are scikit-learn's. The others have no well-kept implementation in Python and are
written here from their papers, small enough to be read beside them:

- Bair, Hastie, Paul & Tibshirani (2006), Prediction by supervised principal components.
- Barshan, Ghodsi, Azimifar & Zolghadri Jahromi (2011), Supervised principal component analysis.
- Ritchie, Scott, Balzano, Kessler & Sripada (2019), Supervised principal component analysis via
  manifold optimization; Ritchie, Balzano, Kessler, Sripada & Scott (2020), Supervised PCA: a
  multiobjective approach.
- Ghosh & Kirby (2022), Supervised dimensionality reduction and visualization using
  centroid-encoder.

`METHODS` names them as the report does.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import scipy.linalg
import scipy.optimize
import scipy.special
import torch
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.decomposition import PCA
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.neighbors import KNeighborsClassifier
from sklearn.utils.validation import check_is_fitted

import slce_xp
from slce_xp import _backend, _parameters
from slce_xp._data import labels as _labels
from slce_xp._data import matrix as _matrix

NEIGHBOURS = 5  # of the classifier that the paper judges every embedding by

# ---------------------------------------------------------------- what the methods share


class _Peer(TransformerMixin, BaseEstimator):
    """A transformer whose fit begins with checked data.

    Linear ones leave `mean_`, `scale_` and `components_`, and need no transform of their own.
    """

    def _start(self, X: Any, y: Any) -> tuple[Any, _labels.Labels]:
        X = _as_floats(X)
        n, d = X.shape
        xp, _ = _backend.place_of(X)
        if not bool(xp.all(xp.isfinite(X))):
            raise ValueError("X must be finite; got NaN or infinity. Impute or remove them first")
        labels = _labels.as_labels(y, n)
        _parameters.as_count(self.n_components, "n_components", 1, min(n - 1, d))
        self.classes_ = labels.classes
        self.n_features_in_ = d
        return X, labels

    def transform(self, X: Any) -> Any:
        """Embed samples, shape (n, d), in k dimensions, shape (n, k)."""
        check_is_fitted(self)
        # The mean is taken off in k dimensions: no copy of X in d.
        axes = (self.components_ / self.scale_).T
        return _as_floats(X) @ axes - self.mean_ @ axes


def _as_floats(X: Any) -> Any:
    """X as a matrix of its own library that can be computed with: pixels are often integers."""
    X = _matrix.as_matrix(X)
    xp, _ = _backend.place_of(X)
    return xp.astype(X, _backend.working_dtype(X), copy=False)


def _standardisation(X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean and standard deviation of each feature; 1 for a constant one, which stays zero."""
    mean, deviation = X.mean(axis=0), X.std(axis=0)
    constant = deviation <= 1e-12 * np.maximum(np.abs(mean), 1e-300)
    return mean, np.where(constant, 1.0, deviation)


def _one_hot(codes: np.ndarray, n_classes: int) -> np.ndarray:
    return (codes[:, None] == np.arange(n_classes)).astype(np.float64)


def _principal_axes(X: Any, k: int) -> Any:
    """The k directions of largest variance of centred X, shape (d, k), by its smaller side."""
    xp, _ = _backend.place_of(X)
    n, d = X.shape
    if d <= n:
        return _backend.largest_eigenpairs(X.T @ X, k)[1][:, :k]
    samples = _backend.largest_eigenpairs(X @ X.T, k)[1][:, :k]
    # The columns are orthogonal but for rounding: QR gives them length one.
    return xp.linalg.qr(X.T @ samples)[0]


def _in_row_space(X: np.ndarray) -> tuple[np.ndarray, np.ndarray | None]:
    """Coordinates of X that lose nothing, and their axes: X = Z Aᵀ with orthonormal columns A.

    Shapes (n, n) and (d, n) where X is wider than tall; X itself and None where it is not.
    """
    n, d = X.shape
    if d <= n:
        return X, None
    axes, triangle = scipy.linalg.qr(X.T, mode="economic", check_finite=False)
    return np.ascontiguousarray(triangle.T), axes


def _by_class(codes: np.ndarray, seed: int) -> np.ndarray:
    """Positions of the samples, class after class, within each in random order."""
    order = np.random.default_rng(seed).permutation(len(codes))
    return order[np.argsort(codes[order], kind="stable")]


def _thinned(codes: np.ndarray, most: int, seed: int) -> np.ndarray:
    """Positions of at most `most` samples, each class in its proportion."""
    if len(codes) <= most:
        return np.arange(len(codes))
    even = np.linspace(0, len(codes) - 1, most).round().astype(int)
    return np.sort(_by_class(codes, seed)[even])


def _folds(codes: np.ndarray, n_folds: int, seed: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Positions inside and outside of each fold, classes in proportion, of one sample too."""
    fold = np.empty(len(codes), dtype=int)
    fold[_by_class(codes, seed)] = np.arange(len(codes)) % n_folds
    for i in range(n_folds):
        yield np.flatnonzero(fold != i), np.flatnonzero(fold == i)


# ---------------------------------------------------------------- LDA


class LDA(_Peer):
    """Fisher's discriminants: scikit-learn's LinearDiscriminantAnalysis, capped.

    There are only number of classes − 1 discriminants. Asked for more, this gives those there
    are, as the paper does ("the LDA classification occurs in 1-dimensional space").

    Parameters
    ----------
    n_components : int
    """

    def __init__(self, n_components: int = 2) -> None:
        self.n_components = n_components

    def fit(self, X: np.ndarray, y: Any) -> LDA:
        """Fit to samples, shape (n, d), and their labels, shape (n,)."""
        X, labels = self._start(X, y)
        k = min(self.n_components, len(labels.classes) - 1)
        self.lda_ = LinearDiscriminantAnalysis(n_components=k).fit(X, labels.codes)
        return self

    def transform(self, X: np.ndarray) -> np.ndarray:
        """Embed samples, shape (n, d), in at most k dimensions."""
        check_is_fitted(self)
        return self.lda_.transform(X)


# ---------------------------------------------------------------- Bair


class BairSPCA(_Peer):
    """Supervised principal components of Bair et al.: PCA on the features that tell classes.

    A feature's score is the size of its standardised regression coefficient on the label, which
    is its correlation; with several classes, the largest of those with each class against the
    rest. PCA is done on the features that score at least a threshold. With "cv" the threshold is
    the one whose embedding a 5-nearest-neighbour classifier predicts held-out labels best from;
    of equals, the one that keeps most features. The SLCE paper says neither how it scored several
    classes nor what its cross-validation measured, and both matter.

    Parameters
    ----------
    n_components : int
    threshold : "cv" or float
        From 0, which keeps all features and is PCA, to 1. At least k features are kept.
    n_thresholds : int
        Candidates of the cross-validation: they keep numbers of features in a geometric row,
        from k to d.
    n_folds : int
    max_samples : int
        The threshold is chosen on a stratified subsample of at most so many.
    random_state : int

    Attributes
    ----------
    threshold_ : float
    scores_ : numpy.ndarray, shape (d,)
    kept_ : numpy.ndarray of bool, shape (d,)
    """

    def __init__(
        self,
        n_components: int = 2,
        threshold: float | str = "cv",
        *,
        n_thresholds: int = 12,
        n_folds: int = 5,
        max_samples: int = 4000,
        random_state: int = 0,
    ) -> None:
        self.n_components = n_components
        self.threshold = threshold
        self.n_thresholds = n_thresholds
        self.n_folds = n_folds
        self.max_samples = max_samples
        self.random_state = random_state

    def fit(self, X: np.ndarray, y: Any) -> BairSPCA:
        """Fit to samples, shape (n, d), and their labels, shape (n,)."""
        X, labels = self._start(X, y)
        codes, k = labels.codes, self.n_components
        self.scores_ = _label_scores(X, codes)
        if self.threshold == "cv":
            self.threshold_ = self._cross_validated(X, codes)
        else:
            self.threshold_ = _as_number(self.threshold, "threshold", "'cv'", 1.0)
        self.kept_ = _keep(self.scores_, self.threshold_, k)
        self.mean_ = X.mean(axis=0)
        self.scale_ = 1.0
        self.components_ = np.zeros((k, X.shape[1]))
        kept = X[:, self.kept_] - self.mean_[self.kept_]
        self.components_[:, self.kept_] = _principal_axes(kept, k).T
        return self

    def _cross_validated(self, X: np.ndarray, codes: np.ndarray) -> float:
        d = X.shape[1]
        counts = np.geomspace(d, self.n_components, self.n_thresholds).round().astype(int)
        thresholds = np.sort(self.scores_)[::-1][np.unique(counts)[::-1] - 1]
        rows = _thinned(codes, self.max_samples, self.random_state)
        correct = np.zeros(len(thresholds))
        for inside, outside in _folds(codes[rows], self.n_folds, self.random_state):
            inside, outside = rows[inside], rows[outside]
            scores = _label_scores(X[inside], codes[inside])
            centred, mean = X[inside] - X[inside].mean(axis=0), X[inside].mean(axis=0)
            for i, threshold in enumerate(thresholds):
                kept = _keep(scores, threshold, self.n_components)
                axes = _principal_axes(centred[:, kept], self.n_components)
                classifier = KNeighborsClassifier(NEIGHBOURS).fit(
                    centred[:, kept] @ axes, codes[inside]
                )
                found = classifier.predict((X[outside][:, kept] - mean[kept]) @ axes)
                correct[i] += (found == codes[outside]).sum()
        return float(thresholds[np.argmax(correct)])


def _label_scores(X: np.ndarray, codes: np.ndarray) -> np.ndarray:
    """Largest |correlation| of each feature with a class against the rest, shape (d,)."""
    Y = _one_hot(codes, codes.max() + 1)
    Y = Y - Y.mean(axis=0)
    lengths = np.sqrt(X.shape[0]) * X.std(axis=0)
    # Y is centred, X need not be.
    products = np.abs(Y.T @ X) / np.maximum(np.linalg.norm(Y, axis=0), 1e-300)[:, None]
    return products.max(axis=0) / np.where(lengths > 0, lengths, np.inf)


def _keep(scores: np.ndarray, threshold: float, least: int) -> np.ndarray:
    """Features that reach the threshold; the best `least` where fewer do."""
    return scores >= min(threshold, np.partition(scores, -least)[-least])


def _as_number(value: Any, name: str, words: str, most: float) -> float:
    rule = f"{name} must be {words} or a number from 0 to {most:g}"
    if isinstance(value, (bool, str)) or not np.isscalar(value):
        raise TypeError(f"{rule}; got {value!r}")
    if not 0.0 <= value <= most:
        raise ValueError(f"{rule}; got {value!r}")
    return float(value)


# ---------------------------------------------------------------- Barshan


class HSICSPCA(_Peer):
    """Supervised PCA of Barshan et al.: the directions that depend most on the label.

    Dependence is the Hilbert–Schmidt independence criterion with a linear kernel on the
    embedding: the components are the leading eigenvectors of Q = Xᵀ H L H X, with L the kernel
    matrix of the labels and H the centring matrix. L = T Tᵀ has few columns T, so that the left
    singular vectors of XᵀHT, d × K, are the answer for any n and d: neither Q nor L is formed.

    Q has a rank of at most number of classes − 1. Components beyond it are eigenvectors of
    eigenvalue zero, which the criterion does not tell apart; those of largest variance are taken.

    Runs on the array library and the device of X.

    Parameters
    ----------
    n_components : int
    label_kernel : {"delta", "linear"}
        "delta": 1 for two samples of one class, else 0, the linear kernel on one-hot labels.
        "linear": the product of the labels, which must be numbers; Q is then of rank 1.

    Attributes
    ----------
    components_ : array, shape (k, d)
        Orthonormal rows.
    rank_ : int
        How many of them the labels determine.
    """

    def __init__(self, n_components: int = 2, label_kernel: str = "delta") -> None:
        self.n_components = n_components
        self.label_kernel = label_kernel

    def fit(self, X: Any, y: Any) -> HSICSPCA:
        """Fit to samples, shape (n, d), and their labels, shape (n,)."""
        X, labels = self._start(X, y)
        xp, _ = place = _backend.place_of(X)
        k = self.n_components
        T = self._label_features(labels)
        T = _backend.from_host(T - T.mean(axis=0), place, X.dtype)
        U, values, _ = xp.linalg.svd(X.T @ T, full_matrices=False)
        values = _backend.to_host(values)
        eps = float(xp.finfo(X.dtype).eps)
        self.rank_ = min(k, int((values > 100 * eps * values[0]).sum()))
        U = U[:, : self.rank_]
        self.mean_ = xp.mean(X, axis=0)
        self.scale_ = 1.0
        if self.rank_ < k:
            rest = X - self.mean_
            rest = rest - (rest @ U) @ U.T
            U = xp.concat([U, _principal_axes(rest, k - self.rank_)], axis=1)
            U = xp.linalg.qr(U)[0]  # orthogonal already, but for the rounding of `rest`
        self.components_ = U.T
        return self

    def _label_features(self, labels: _labels.Labels) -> np.ndarray:
        """T, shape (n, q), such that T Tᵀ is the kernel matrix of the labels."""
        match self.label_kernel:
            case "delta":
                return _one_hot(labels.codes, len(labels.classes))
            case "linear":
                if labels.classes.dtype.kind not in "biuf":
                    raise TypeError(
                        "y must hold numbers for label_kernel='linear'; got "
                        f"{labels.classes[0]!r}. Use label_kernel='delta' for names"
                    )
                return labels.classes.astype(np.float64)[labels.codes][:, None]
        raise ValueError(
            f"label_kernel must be 'delta' or 'linear'; got {self.label_kernel!r}. "
            "Use 'delta' for classes"
        )


# ---------------------------------------------------------------- Ritchie

# The weights λ that cross-validation chooses from, each solved from the one before, in so many
# iterations: on the way to a λ, and to compare several, near is enough.
LAMBDAS = (0.05, 0.2, 0.5, 1.0, 3.0, 10.0, 100.0)
PATH_ITERATIONS = 60
# Where the likelihood has no maximum (labels predicted without error), λ ends here.
LARGEST_LAMBDA = 1000.0
# On the coefficients of the logistic regression, in mean log-loss of samples of mean square length
# one. The smallest of 1e-4, 1e-2 and 0.1, which were tried: larger ones hold data wider than tall
# nearer to PCA.
RIDGE = 1e-4


class _Objective:
    """f(θ) = share of the variance not captured + λ · loss of predicting the labels.

    The subspace is the span of W, shape (r, k), the first entries of θ. W is free: f captures
    variance by the projector on its span, so that the gradient keeps its columns independent
    and plain L-BFGS walks on the Grassmannian.
    """

    def __init__(self, X: np.ndarray, codes: np.ndarray, n_classes: int, k: int) -> None:
        self.k = k
        self.mean = X.mean(axis=0)
        self.X = X - self.mean
        self.Y = _one_hot(codes, n_classes)
        self.scatter = self.X.T @ self.X
        self.X_square = float(np.trace(self.scatter))

    def start(self) -> np.ndarray:
        """θ at the principal axes, where λ = 0 has its optimum."""
        return _backend.largest_eigenpairs(self.scatter, self.k)[1][:, : self.k].ravel()

    def basis(self, theta: np.ndarray) -> np.ndarray:
        """An orthonormal basis of the subspace, shape (r, k)."""
        return np.linalg.qr(self._weights(theta))[0]

    def missed(self, theta: np.ndarray) -> float:
        """The share of the variance outside the subspace."""
        Q = self.basis(theta)
        return 1.0 - float((Q * (self.scatter @ Q)).sum()) / self.X_square

    def solve(self, lam: float, theta: np.ndarray, max_iter: int) -> np.ndarray:
        """The θ that L-BFGS reaches from another."""
        options = {"maxiter": max_iter, "ftol": 1e-9, "gtol": 1e-6}
        return scipy.optimize.minimize(
            self.value_and_gradient, theta, (lam,), "L-BFGS-B", jac=True, options=options
        ).x

    def _weights(self, theta: np.ndarray) -> np.ndarray:
        return theta[: self.X.shape[1] * self.k].reshape(-1, self.k)


class _LeastSquares(_Objective):
    """LSPCA: the loss is ‖Y − Ŷ‖² / ‖Y‖², Ŷ the regression of the one-hot labels Y on XW."""

    def __init__(self, X: np.ndarray, codes: np.ndarray, n_classes: int, k: int) -> None:
        super().__init__(X, codes, n_classes, k)
        self.Y_mean = self.Y.mean(axis=0)
        self.Y = self.Y - self.Y_mean
        self.cross = self.X.T @ self.Y
        self.Y_square = float((self.Y**2).sum())

    def value_and_gradient(self, theta: np.ndarray, lam: float) -> tuple[float, np.ndarray]:
        """The objective and its gradient, from moments of the data alone."""
        Q, R = np.linalg.qr(self._weights(theta))
        captured, predicted = self.scatter @ Q, Q.T @ self.cross
        coefficients = np.linalg.solve(Q.T @ captured, predicted)
        lam = lam / self.Y_square
        value = 1.0 - (Q * captured).sum() / self.X_square
        value += lam * (self.Y_square - (predicted * coefficients).sum())
        gradient = -2.0 / self.X_square * captured
        gradient += 2.0 * lam * (captured @ coefficients - self.cross) @ coefficients.T
        # f depends on the span alone: its gradient is orthogonal to it.
        gradient -= Q @ (Q.T @ gradient)
        return value, scipy.linalg.solve_triangular(R, gradient.T).T.ravel()

    def error(self, theta: np.ndarray, X: np.ndarray, codes: np.ndarray) -> float:
        """Sum of squared errors of prediction on other samples."""
        Q = self.basis(theta)
        coefficients = np.linalg.solve(Q.T @ self.scatter @ Q, Q.T @ self.cross)
        found = (X - self.mean) @ Q @ coefficients + self.Y_mean
        return float(((found - _one_hot(codes, len(self.Y_mean))) ** 2).sum())

    def label_weight(self, theta: np.ndarray) -> float:
        """What the loss counts in twice the negative log-likelihood of a label's entry.

        The residuals are normal with the variance that fits them: 1 / share not explained.
        """
        value, _ = self.value_and_gradient(theta, 1.0)
        return 1.0 / max(value - self.missed(theta), 1e-12)


class _Logistic(_Objective):
    """LRPCA: the loss is the mean log-loss of a multinomial logistic regression on XW.

    θ holds W, the coefficients B, shape (k, K), and the intercepts. The ridge on WB makes
    the optimum exist where classes can be separated.
    """

    def __init__(self, X: np.ndarray, codes: np.ndarray, n_classes: int, k: int) -> None:
        super().__init__(X, codes, n_classes, k)
        self.length = np.sqrt(self.X_square / len(X))

    def start(self) -> np.ndarray:
        """θ at the principal axes, with coefficients of zero."""
        _, n_classes = self.Y.shape
        return np.concatenate([super().start(), np.zeros((self.k + 1) * n_classes)])

    def value_and_gradient(self, theta: np.ndarray, lam: float) -> tuple[float, np.ndarray]:
        """The objective and its gradient: two passes over X."""
        W, B, intercepts = self._parts(theta)
        Q, R = np.linalg.qr(W)
        captured = self.scatter @ Q
        value = 1.0 - (Q * captured).sum() / self.X_square
        outside = captured - Q @ (Q.T @ captured)
        W_gradient = -2.0 / self.X_square * scipy.linalg.solve_triangular(R, outside.T).T

        Z = self.X @ (W / self.length)
        log_shares = scipy.special.log_softmax(Z @ B + intercepts, axis=1)
        WB = W @ B
        value += lam * (0.5 * RIDGE * (WB**2).sum() - (log_shares * self.Y).sum() / len(Z))
        residuals = (np.exp(log_shares) - self.Y) / len(Z)
        W_gradient += lam * (self.X.T @ (residuals @ B.T) / self.length + RIDGE * WB @ B.T)
        B_gradient = lam * (Z.T @ residuals + RIDGE * W.T @ WB)
        rest = [B_gradient.ravel(), lam * residuals.sum(axis=0)]
        return value, np.concatenate([W_gradient.ravel(), *rest])

    def error(self, theta: np.ndarray, X: np.ndarray, codes: np.ndarray) -> float:
        """How many of other samples are classified wrongly."""
        W, B, intercepts = self._parts(theta)
        found = (X - self.mean) @ (W / self.length) @ B + intercepts
        return float((found.argmax(axis=1) != codes).sum())

    def label_weight(self, theta: np.ndarray) -> float:
        """What the loss counts in twice the negative log-likelihood of a sample's label."""
        return 2.0

    def _parts(self, theta: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        n_classes = self.Y.shape[1]
        rest = theta[self.X.shape[1] * self.k :].reshape(self.k + 1, n_classes)
        return self._weights(theta), rest[:-1], rest[-1]


class _RitchieSPCA(_Peer):
    """What LSPCA and LRPCA share: all but the loss."""

    _objective: type[_LeastSquares] | type[_Logistic]

    def __init__(
        self,
        n_components: int = 2,
        lam: float | str = "cv",
        *,
        standardize: bool = True,
        n_folds: int = 5,
        max_samples: int = 2000,
        max_iter: int = 300,
        random_state: int = 0,
    ) -> None:
        self.n_components = n_components
        self.lam = lam
        self.standardize = standardize
        self.n_folds = n_folds
        self.max_samples = max_samples
        self.max_iter = max_iter
        self.random_state = random_state

    def fit(self, X: np.ndarray, y: Any) -> _RitchieSPCA:
        """Fit to samples, shape (n, d), and their labels, shape (n,)."""
        X, labels = self._start(X, y)
        codes = labels.codes
        self.mean_, self.scale_ = _standardisation(X)
        if not self.standardize:
            self.scale_ = 1.0
        # A direction outside the row space neither captures nor predicts anything.
        Z, axes = _in_row_space((X - self.mean_) / self.scale_)
        problem = self._problem(Z, codes)
        if self.lam == "ml":
            theta = self._most_likely(problem, X.shape[1])
        else:
            if self.lam == "cv":
                self.lam_ = self._cross_validated(Z, codes)
            else:
                self.lam_ = _as_number(self.lam, "lam", "'cv', 'ml'", LARGEST_LAMBDA)
            few = _thinned(codes, self.max_samples, self.random_state)
            near = problem if len(few) == len(Z) else self._problem(Z[few], codes[few])
            below = [lam for lam in LAMBDAS if lam < self.lam_]
            theta = self._path(near, [*below, self.lam_])[-1]
            theta = problem.solve(self.lam_, theta, self.max_iter)
        basis = problem.basis(theta)
        self.components_ = (basis if axes is None else axes @ basis).T
        return self

    def _problem(self, Z: np.ndarray, codes: np.ndarray) -> _LeastSquares | _Logistic:
        return self._objective(Z, codes, len(self.classes_), self.n_components)

    def _path(self, problem: _Objective, lams: list[float] | tuple[float, ...]) -> list[np.ndarray]:
        """The solution for each λ, from that before; the first from the principal axes."""
        thetas = [problem.start()]
        for lam in lams:
            thetas.append(problem.solve(lam, thetas[-1], PATH_ITERATIONS))
        return thetas[1:]

    def _cross_validated(self, Z: np.ndarray, codes: np.ndarray) -> float:
        rows = _thinned(codes, self.max_samples, self.random_state)
        Z, codes = Z[rows], codes[rows]
        errors = np.zeros(len(LAMBDAS))
        for inside, outside in _folds(codes, self.n_folds, self.random_state):
            problem = self._problem(Z[inside], codes[inside])
            thetas = self._path(problem, LAMBDAS)
            errors += [problem.error(theta, Z[outside], codes[outside]) for theta in thetas]
        return LAMBDAS[int(np.argmin(errors))]

    def _most_likely(self, problem: _LeastSquares | _Logistic, d: int) -> np.ndarray:
        """Alternate between the subspace and the variances, which give λ."""
        k = self.n_components
        theta, self.lam_ = problem.start(), np.inf
        for _ in range(20):
            # Variances across and along the subspace, in units of the mean feature's variance.
            missed = problem.missed(theta)
            noise = max(missed * d / max(d - k, 1), 1e-12)
            signal = max((1.0 - missed) * d / k - noise, 0.0)
            weight = signal / (noise * (noise + signal))
            wanted = problem.label_weight(theta)
            before = self.lam_
            self.lam_ = wanted / weight if wanted < LARGEST_LAMBDA * weight else LARGEST_LAMBDA
            if abs(self.lam_ - before) <= 1e-3 * self.lam_:
                break
            theta = problem.solve(self.lam_, theta, self.max_iter)
        return theta


class LSPCA(_RitchieSPCA):
    """Least-squares supervised PCA of Ritchie et al.

    Minimises ‖X − XLᵀL‖² / ‖X‖² + λ ‖Y − XLᵀβ‖² / ‖Y‖² over orthonormal rows L and
    coefficients β, with Y the centred one-hot labels. The SLCE paper writes λ before the other
    term, 1 / λ here.

    The data are standardised, as the MATLAB code named below does. L-BFGS starts from the principal
    axes and follows rising λ. The problem is not convex: the answer is a local optimum. Data
    wider than tall are first rotated into their row space, which is exact.

    Parameters
    ----------
    n_components : int
    lam : "cv", "ml" or float
        The weight λ ≥ 0 of the labels; 0 is PCA. "cv": the one of `LAMBDAS` with the least error
        of prediction in cross-validation, of equals the smallest. "ml": maximum likelihood, with
        X normal of one variance along the subspace and another across it. The log-likelihoods
        of X and of the labels both count as means over their entries, as in the MATLAB code for
        the method (lrpca_MLE.m in github.com/WEIYujie1996/LSPCA): as sums, the d entries of a
        sample would drown its label, and the answer be PCA.
    standardize : bool
        Whether to divide each feature by its standard deviation.
    n_folds : int
        Of the cross-validation; features are standardised once, before it.
    max_samples : int
        λ is chosen by cross-validation on a stratified subsample of at most so many, and the
        solution for larger data starts from that for the subsample.
    max_iter : int
        Of L-BFGS for the λ chosen; `PATH_ITERATIONS` for those on the way to it.
    random_state : int
        Of the folds and the subsample.

    Attributes
    ----------
    components_ : numpy.ndarray, shape (k, d)
        Orthonormal rows, which apply to standardised data.
    lam_ : float
    """

    _objective = _LeastSquares


class LRPCA(_RitchieSPCA):
    """Logistic-regression supervised PCA of Ritchie et al.

    Minimises ‖X − XLᵀL‖² / ‖X‖² + λ · mean log-loss of a multinomial logistic regression on
    XLᵀ, over orthonormal rows L and the regression's coefficients. A small ridge, `RIDGE`, bounds
    these where the classes can be separated, as they nearly always can where d > n: there a
    subspace next to PCA's predicts without error once the coefficients are large enough, so that
    the answer depends on the ridge, which the MATLAB code has not. The error of prediction in
    cross-validation is the share of wrong classes.

    All else, parameters and attributes are as in `LSPCA`.
    """

    _objective = _Logistic


# ---------------------------------------------------------------- Centroid-Encoder


class CentroidEncoder(_Peer):
    """Centroid-Encoder of Ghosh & Kirby: an autoencoder that maps a sample to its class's centroid.

    The encoder d → hidden → k and the decoder back, with tanh between, are trained by Adam on the
    mean square distance to the centroid, on standardised data. Small, as a point of reference:
    one fixed number of steps for every data set, no layer-wise pre-training and no tuning, both
    of which the authors do. Data wider than tall are first rotated into their row space, which
    keeps all distances.

    Parameters
    ----------
    n_components : int
    hidden : tuple of int
        Widths of the encoder's layers; () gives a linear network.
    n_steps : int
        Steps of Adam, whose rate falls to zero along a half cosine.
    batch_size : int
    learning_rate : float
    random_state : int
        The same bits for the same seed, machine and number of threads.

    Attributes
    ----------
    loss_ : float
        Mean square distance to the centroids of the training data, per feature of unit variance.
    initial_loss_ : float
        The same before training.
    """

    def __init__(
        self,
        n_components: int = 2,
        *,
        hidden: tuple[int, ...] = (100, 50),
        n_steps: int = 1000,
        batch_size: int = 256,
        learning_rate: float = 3e-3,
        random_state: int = 0,
    ) -> None:
        self.n_components = n_components
        self.hidden = hidden
        self.n_steps = n_steps
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.random_state = random_state

    def fit(self, X: np.ndarray, y: Any) -> CentroidEncoder:
        """Fit to samples, shape (n, d), and their labels, shape (n,)."""
        X, labels = self._start(X, y)
        self.mean_, self.scale_ = _standardisation(X)
        Z, self.axes_ = _in_row_space((X - self.mean_) / self.scale_)
        self.unit_ = np.sqrt((Z**2).mean())  # rotated data have fewer and larger entries
        Z /= self.unit_
        counts = np.bincount(labels.codes)[:, None]
        centroids = _one_hot(labels.codes, len(counts)).T @ Z / counts
        inputs = torch.asarray(Z, dtype=torch.float32)
        targets = torch.asarray(centroids, dtype=torch.float32)[torch.asarray(labels.codes)]
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(self.random_state)
            self._train(inputs, targets)
        return self

    def _train(self, inputs: torch.Tensor, targets: torch.Tensor) -> None:
        n, width = inputs.shape
        self.encoder_ = _network([width, *self.hidden, self.n_components])
        decoder = _network([self.n_components, *reversed(self.hidden), width])
        network = torch.nn.Sequential(self.encoder_, decoder)
        measure = torch.nn.functional.mse_loss
        with torch.no_grad():
            self.initial_loss_ = float(measure(network(inputs), targets))
        optimiser = torch.optim.Adam(network.parameters(), self.learning_rate, fused=True)
        schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, self.n_steps)
        order = torch.randperm(n)
        at = 0
        for _ in range(self.n_steps):
            if at >= n:
                order, at = torch.randperm(n), 0
            batch = order[at : at + self.batch_size]
            at += self.batch_size
            optimiser.zero_grad()
            measure(network(inputs[batch]), targets[batch]).backward()
            optimiser.step()
            schedule.step()
        with torch.no_grad():
            self.loss_ = float(measure(network(inputs), targets))

    def transform(self, X: np.ndarray) -> np.ndarray:
        """Embed samples, shape (n, d), in k dimensions, shape (n, k)."""
        check_is_fitted(self)
        Z = (X - self.mean_) / self.scale_
        if self.axes_ is not None:
            Z = Z @ self.axes_
        with torch.no_grad():
            return self.encoder_(torch.asarray(Z / self.unit_, dtype=torch.float32)).numpy()


def _network(widths: list[int]) -> torch.nn.Sequential:
    """Layers of these widths, with tanh between: the last is linear."""
    layers: list[torch.nn.Module] = []
    for i, (before, after) in enumerate(itertools.pairwise(widths)):
        layers += [torch.nn.Tanh()] if i else []
        layers += [torch.nn.Linear(before, after)]
    return torch.nn.Sequential(*layers)


# ---------------------------------------------------------------- all of them

# Each takes the number of components and a seed.
METHODS: dict[str, Callable[[int, int], Any]] = {
    "SLCE": lambda k, seed: slce_xp.SLCE(k, random_state=seed),
    "LDA": lambda k, seed: LDA(k),
    # ARPACK: exact, and for a few components of wide data far quicker than the whole SVD.
    "PCA": lambda k, seed: PCA(k, svd_solver="arpack", random_state=seed),
    "HSIC SPCA": lambda k, seed: HSICSPCA(k),
    "Bair's SPCA": lambda k, seed: BairSPCA(k, random_state=seed),
    "LRPCA (CV)": lambda k, seed: LRPCA(k, "cv", random_state=seed),
    "LRPCA (MLE)": lambda k, seed: LRPCA(k, "ml", random_state=seed),
    "LSPCA (CV)": lambda k, seed: LSPCA(k, "cv", random_state=seed),
    "LSPCA (MLE)": lambda k, seed: LSPCA(k, "ml", random_state=seed),
    "Centroid-Encoder": lambda k, seed: CentroidEncoder(k, random_state=seed),
}
