"""What the paper prints: numbers copied from its tables and text, and claims to be checked.

Ghosh and Kirby, "Yet Another Algorithm for Supervised Principal Component Analysis: Supervised
Linear Centroid-Encoder". Accuracies are in per cent: mean and standard deviation of 25
repetitions.
"""

from __future__ import annotations

# Table "Classification accuracies (%) of 5-NN classifier on the 2D and 3D embedded data".
_METHODS_1 = ("SLCE", "LDA", "PCA", "HSIC SPCA", "Bair's SPCA")
_TABLE_1 = {
    2: {
        "usps": ((55.64, 0.95), (47.20, 0.77), (39.83, 0.91), (45.67, 1.16), (40.88, 0.92)),
        "mnist": ((45.74, 0.0), (46.03, 0.0), (42.43, 0.0), (44.17, 0.0), (41.92, 0.0)),
        "activity": ((65.20, 0.87), (64.18, 1.36), (51.83, 1.46), (63.26, 1.26), (53.05, 1.76)),
        "mice_protein": ((65.56, 2.83), (51.50, 2.37), (44.91, 2.82), (51.54, 3.59), (64.57, 9.24)),
        "arcene": ((83.61, 5.05), (63.71, 5.70), (67.71, 7.63), (71.80, 6.25), (68.98, 5.14)),
        "pancan": ((88.42, 2.44), (94.23, 4.78), (94.63, 1.71), (94.65, 1.95), (94.55, 2.27)),
    },
    3: {
        "usps": ((76.69, 0.69), (69.37, 1.15), (47.12, 0.78), (66.99, 0.81), (48.79, 1.80)),
        "mnist": ((69.72, 0.0), (67.51, 0.0), (48.75, 0.0), (63.59, 0.0), (49.90, 0.0)),
        "activity": ((77.98, 1.21), (70.57, 1.02), (66.96, 1.04), (70.87, 1.16), (66.91, 1.13)),
        "mice_protein": ((80.56, 2.94), (68.50, 3.32), (64.46, 3.11), (67.89, 2.70), (77.09, 5.05)),
        "arcene": ((84.00, 6.62), (62.54, 8.70), (71.22, 6.90), (76.68, 5.82), (69.07, 6.89)),
        "pancan": ((98.94, 0.89), (99.09, 0.85), (98.60, 0.73), (94.53, 1.12), (98.28, 1.01)),
    },
}

# Table "Comparison of classification results between SLCE and LRPCA", two dimensions. The
# numbers of LRPCA are those that Ritchie et al. published, the paper says.
_METHODS_2 = ("SLCE", "LRPCA (CV)", "LRPCA (MLE)")
_TABLE_2 = {
    "colon": ((83.08, 7.22), (80.80, 10.40), (80.80, 12.50)),
    "ionosphere": ((86.03, 4.36), (83.90, 4.20), (85.90, 2.60)),
    "arcene": ((83.41, 6.51), (80.67, 11.20), (81.00, 8.40)),
}

# (experiment, set, method, dimensions) → (mean, standard deviation)
ACCURACIES: dict[tuple[int, str, str, int], tuple[float, float]] = {
    **{
        (1, name, method, p): value
        for p, table in _TABLE_1.items()
        for name, row in table.items()
        for method, value in zip(_METHODS_1, row, strict=True)
    },
    **{
        (2, name, method, 2): value
        for name, row in _TABLE_2.items()
        for method, value in zip(_METHODS_2, row, strict=True)
    },
    # In the text on Arcene: "classification accuracy using the first eigenvector".
    (1, "arcene", "SLCE", 1): (83.12, 6.28),
}

# Table "Descriptions of the data sets": samples, features, classes.
DESCRIPTIONS = {
    "usps": (11000, 256, 10),
    "mnist": (70000, 784, 10),
    "activity": (5744, 561, 6),
    "ionosphere": (354, 34, 2),
    "colon": (62, 2000, 2),
    "mice_protein": (975, 77, 8),
    "arcene": (900, 10000, 2),
    "pancan": (801, 20531, 5),
    "olivetti": (400, 4096, 20),
    "yale": (165, 1024, 15),
    "coil20": (1440, 1024, 20),
}
