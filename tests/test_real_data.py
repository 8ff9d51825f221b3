"""Real data sets, from the folder that SLCE_XP_DATA names."""

import numpy as np
import oracle
import pytest
from conftest import load_set
from sklearn.neighbors import KNeighborsClassifier

import slce_xp


def test_mnist_gives_the_paper_s_accuracies(data_folder):
    X, y = load_set(data_folder, "mnist")
    model = slce_xp.fit(X[:60000], y[:60000], 3)
    train, test = model.transform(X[:60000]), model.transform(X[60000:])
    for k, paper in [(2, 45.74), (3, 69.72)]:
        classifier = KNeighborsClassifier(5).fit(train[:, :k], y[:60000])
        assert round(100 * classifier.score(test[:, :k], y[60000:]), 2) == paper


@pytest.mark.parametrize("name", ["usps", "coil20", "ionosphere", "yale", "har_meanstd66"])
def test_forms_agree_with_the_oracle_on_real_data(data_folder, name):
    X, y = load_set(data_folder, name)
    X = X[:: 1 + len(X) // 2000].astype(np.float64)
    y = y[:: 1 + len(y) // 2000]
    values, vectors = oracle.eigenpairs(X, y)
    positive = int((values > 1e-9 * values[0]).sum())
    for solver in ("scatter", "gram"):
        model = slce_xp.fit(X, y, "positive", solver=solver)
        assert model.n_positive == positive
        assert oracle.largest_angle(model.components, vectors[:positive]) < 1e-8


@pytest.mark.parametrize("name", ["colon", "arcene", "olivetti", "tcga_luad"])
def test_wide_real_data(data_folder, name):
    """Too wide for the oracle: the residual of M, applied without forming it, must vanish."""
    X, y = load_set(data_folder, name)
    X = X.astype(np.float64)
    X = np.log2(X + 1.0) if name == "tcga_luad" else X
    model = slce_xp.fit(X, y)
    assert model.n_positive == len(model.classes) - 1
    Xc, C, A = oracle.centred(X), oracle.centroid_rows(X, y), model.components.T
    MA = Xc.T @ (C @ A) + C.T @ (Xc @ A) - Xc.T @ (Xc @ A)
    residual = np.linalg.norm(MA - A * model.eigenvalues, axis=0)
    assert residual.max() <= 1e-11 * np.linalg.norm(Xc, 2) ** 2
