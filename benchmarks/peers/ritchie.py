"""Supervised PCA by optimisation: Ritchie, Scott, Balzano, Kessler & Sripada (2019, 2020).

Supervised principal component analysis via manifold optimization; Supervised PCA: a
multiobjective approach.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.linalg
import scipy.optimize
import scipy.special

from benchmarks.peers.base import (
    Peer,
    as_number,
    folds,
    in_row_space,
    one_hot,
    standardisation,
    thinned,
)
from slce_xp import _backend

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
        self.Y = one_hot(codes, n_classes)
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
        return float(((found - one_hot(codes, len(self.Y_mean))) ** 2).sum())

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


class _RitchieSPCA(Peer):
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
        self.mean_, self.scale_ = standardisation(X)
        if not self.standardize:
            self.scale_ = 1.0
        # A direction outside the row space neither captures nor predicts anything.
        Z, axes = in_row_space((X - self.mean_) / self.scale_)
        problem = self._problem(Z, codes)
        if self.lam == "ml":
            theta = self._most_likely(problem, X.shape[1])
        else:
            if self.lam == "cv":
                self.lam_ = self._cross_validated(Z, codes)
            else:
                self.lam_ = as_number(self.lam, "lam", "'cv', 'ml'", LARGEST_LAMBDA)
            few = thinned(codes, self.max_samples, self.random_state)
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
        rows = thinned(codes, self.max_samples, self.random_state)
        Z, codes = Z[rows], codes[rows]
        errors = np.zeros(len(LAMBDAS))
        for inside, outside in folds(codes, self.n_folds, self.random_state):
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
