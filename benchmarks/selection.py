"""Feature selection: ``python -m benchmarks.selection --data FOLDER``.

Every .npz file of the folder with ``X`` (n, d) and ``y`` (n,) is split at random, the same for all
methods. Features are selected from the training part, divided by its standard deviations; 5 nearest
neighbours classify the testing part by these features. The stability of Nogueira is that of the
selections from all training parts.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import sys
import time
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import sklearn
from sklearn.feature_selection import f_classif
from sklearn.linear_model import LogisticRegression, enet_path
from sklearn.multiclass import OneVsRestClassifier
from sklearn.neighbors import KNeighborsClassifier
from sklearn.svm import l1_min_c

import slce_xp
from benchmarks.accuracy import TEST_SHARE, load
from benchmarks.paper.protocol import NEIGHBOURS
from benchmarks.report import write_between_markers
from slce_xp._stability import stability

COUNTS = (10, 25, 50, 100)
GAP = 1e-5
TIME_LIMIT = 60.0  # seconds of a first repetition, above which a method leaves out a set
ALL = "all features"

# A selector returns, for each number of features, as many of them as it can.
Selection = dict[int, np.ndarray]


def slce(X: np.ndarray, y: np.ndarray, counts: Sequence[int], **options: Any) -> Selection:
    path = slce_xp.feature_path(X, y, n_features=max(counts), gap=GAP, **options)
    most = max(map(len, path.supports))
    return {k: path.select(min(k, most)) for k in counts}


def anova(X: np.ndarray, y: np.ndarray, counts: Sequence[int]) -> Selection:
    values, _ = f_classif(X, y)
    order = np.argsort(-np.nan_to_num(values, nan=-1.0), kind="stable")
    return {k: order[:k] for k in counts}


def logistic(X: np.ndarray, y: np.ndarray, counts: Sequence[int]) -> Selection:
    """L1 logistic regression, one class against the rest, with a penalty that falls."""
    weight = 1.2 * l1_min_c(X, y, loss="log")
    found: Selection = {}
    for _ in range(25):
        one = _one_class(weight)
        model = OneVsRestClassifier(one).fit(X, y)
        norms = np.linalg.norm([e.coef_.ravel() for e in model.estimators_], axis=0)
        found = _first_with(found, norms, counts)
        if len(found) == len(counts):
            break
        weight *= 1.5
    return _completed(found, norms, counts)


def _one_class(weight: float) -> LogisticRegression:
    # From scikit-learn 1.8 on, a penalty is chosen by l1_ratio alone.
    newer = tuple(map(int, sklearn.__version__.split(".")[:2])) >= (1, 8)
    kind: dict[str, Any] = {"l1_ratio": 1.0} if newer else {"penalty": "l1"}
    return LogisticRegression(C=weight, solver="liblinear", random_state=0, **kind)


def multi_task_lasso(X: np.ndarray, y: np.ndarray, counts: Sequence[int]) -> Selection:
    """scikit-learn's path, of the same problem as SLCE's at the same penalties and gap."""
    Y, lambdas = _same_problem(X, y, counts)
    centred = np.asfortranarray(X - X.mean(axis=0))
    start = time.perf_counter()
    _, paths, _ = enet_path(centred, Y, l1_ratio=1.0, alphas=lambdas, tol=GAP / 2, max_iter=10**5)
    multi_task_lasso.seconds = time.perf_counter() - start  # type: ignore[attr-defined]
    return _along(np.linalg.norm(paths, axis=0).T, counts)


def skglm_lasso(X: np.ndarray, y: np.ndarray, counts: Sequence[int]) -> Selection:
    """The path of skglm, likewise; its compilation is not counted."""
    from skglm import MultiTaskLasso

    Y, lambdas = _same_problem(X, y, counts)
    centred = np.asfortranarray(X - X.mean(axis=0))
    model = MultiTaskLasso(fit_intercept=False, tol=1e-6)
    model.path(centred[:, :50], Y, lambdas[:2])
    start = time.perf_counter()
    _, paths, *_ = model.path(centred, Y, lambdas)
    skglm_lasso.seconds = time.perf_counter() - start  # type: ignore[attr-defined]
    return _along(np.linalg.norm(np.asarray(paths), axis=1).T, counts)


def _same_problem(
    X: np.ndarray, y: np.ndarray, counts: Sequence[int]
) -> tuple[np.ndarray, np.ndarray]:
    path = slce_xp.feature_path(X, y, n_features=max(counts), gap=GAP)
    Y = path.class_targets[np.searchsorted(path.classes, y)]
    return np.asfortranarray(Y - Y.mean(axis=0)), path.lambdas


def _along(norms: np.ndarray, counts: Sequence[int]) -> Selection:
    """Selections from the norms of the coefficients at each penalty, shape (L, d)."""
    found: Selection = {}
    for row in norms:
        found = _first_with(found, row, counts)
    return _completed(found, norms[-1], counts)


def _first_with(found: Selection, norms: np.ndarray, counts: Sequence[int]) -> Selection:
    """Add the counts that these coefficients are the first to reach."""
    order = np.argsort(-norms, kind="stable")
    reached = [k for k in counts if k not in found and k <= (norms > 0).sum()]
    return found | {k: order[:k] for k in reached}


def _completed(found: Selection, norms: np.ndarray, counts: Sequence[int]) -> Selection:
    order = np.argsort(-norms, kind="stable")[: int((norms > 0).sum())]
    return {k: found.get(k, order[:k]) for k in counts}


METHODS: dict[str, Callable[[np.ndarray, np.ndarray, Sequence[int]], Selection]] = {
    "SLCE": slce,
    "SLCE, scores": lambda X, y, counts: slce(X, y, counts, targets="scores"),
    "ANOVA": anova,
    "L1 logistic": logistic,
    "MultiTaskLasso": multi_task_lasso,
}
if importlib.util.find_spec("skglm") is not None:
    METHODS["skglm"] = skglm_lasso


def measure(X: np.ndarray, y: np.ndarray, method: str, repetitions: int) -> dict[str, Any]:
    """Accuracies in per cent, the stability and the seconds of a method on one set."""
    counts = [k for k in COUNTS if k < X.shape[1]]
    right: dict[int, list[float]] = {k: [] for k in counts}
    masks: dict[int, list[np.ndarray]] = {k: [] for k in counts}
    seconds = []
    for repetition in range(repetitions):
        order = np.random.default_rng(repetition).permutation(len(y))
        n_test = round(TEST_SHARE * len(y))
        test, train = order[:n_test], order[n_test:]
        means = np.nan_to_num(np.nanmean(X[train], axis=0))
        seen, unseen = (np.where(np.isnan(X[part]), means, X[part]) for part in (train, test))
        spread = seen.std(axis=0)
        spread[spread == 0] = 1.0
        seen, unseen = seen / spread, unseen / spread
        start = time.perf_counter()
        if method == ALL:
            found = {k: np.arange(X.shape[1]) for k in counts[:1]}
        else:
            found = METHODS[method](seen, y[train], counts)
        spent = time.perf_counter() - start
        seconds.append(getattr(METHODS.get(method), "seconds", spent))
        for k, chosen in found.items():
            neighbours = KNeighborsClassifier(NEIGHBOURS).fit(seen[:, chosen], y[train])
            right[k].append(100 * float(neighbours.score(unseen[:, chosen], y[test])))
            mask = np.zeros(X.shape[1], dtype=bool)
            mask[chosen] = True
            masks[k].append(mask)
        if spent > TIME_LIMIT:
            raise TimeoutError(f"took {spent:.0f} s for one repetition")
    at = 50 if 50 in counts else counts[-1]
    agree = stability(np.array(masks[at])).value if method != ALL and repetitions > 1 else None
    return {
        "accuracy": {k: float(np.mean(v)) for k, v in right.items() if v},
        "error": {k: float(np.std(v) / max(1, len(v) - 1) ** 0.5) for k, v in right.items() if v},
        "stability": agree,
        "seconds": float(np.median(seconds)),
    }


def table(report: dict[str, dict[str, dict[str, Any]]]) -> str:
    """The results in Markdown."""
    lines = [
        "| set | method | " + " | ".join(map(str, COUNTS)) + " | stability | seconds |",
        "|---" * (len(COUNTS) + 4) + "|",
    ]
    for name, methods in report.items():
        for method, found in methods.items():
            if "error" in found and isinstance(found["error"], str):
                lines.append(f"| {name} | {method} | {found['error']}" + " |" * (len(COUNTS) + 3))
                continue
            shares = {int(k): v for k, v in found["accuracy"].items()}
            errors = {int(k): v for k, v in found["error"].items()}
            cells = [f"{shares[k]:.1f} ± {errors[k]:.1f}" if k in shares else "" for k in COUNTS]
            agree = "" if found["stability"] is None else f"{found['stability']:.2f}"
            spent = "" if method == ALL else f"{found['seconds']:.2g}"
            lines.append(f"| {name} | {method} | {' | '.join(cells)} | {agree} | {spent} |")
    return "\n".join(lines)


def main(given: Sequence[str] | None = None) -> str:
    """Run what was asked for, print the table and return it."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.selection", description=__doc__)
    parser.add_argument("--data", type=Path, default=os.environ.get("SLCE_XP_DATA"),
                        help="folder of .npz files (default: $SLCE_XP_DATA)")  # fmt: skip
    parser.add_argument("--sets", nargs="+", help="only these files, without .npz")
    parser.add_argument("--repetitions", type=int, default=10)
    parser.add_argument("--output", type=Path, default=Path("benchmarks/results"),
                        help="folder for selection.json (%(default)s)")  # fmt: skip
    parser.add_argument("--write", type=Path, help="Markdown file whose table to write anew")
    parser.add_argument("--redraw", action="store_true",
                        help="only the table, from the results in --output")  # fmt: skip
    options = parser.parse_args(given)
    target = options.output / "selection.json"
    if options.redraw:
        report = json.loads(target.read_text(encoding="utf-8"))
    else:
        paths = sorted(Path(options.data or ".").glob("*.npz"))
        paths = [p for p in paths if not options.sets or p.stem in options.sets]
        if not paths:
            parser.error(f"--data must name a folder with .npz files; {options.data} has none")
        report = {}
        for path in paths:
            X, y = load(path)
            report[path.stem] = {}
            for method in (*METHODS, ALL):
                try:
                    with warnings.catch_warnings():
                        warnings.simplefilter("ignore")
                        found = measure(X, y, method, options.repetitions)
                except Exception as error:  # the others go on
                    found = {"error": str(error)}
                report[path.stem][method] = found
                print(f"{path.stem}, {method}: {found}", file=sys.stderr, flush=True)
            options.output.mkdir(parents=True, exist_ok=True)
            target.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    text = table(report)
    print(text)
    if options.write:
        write_between_markers(options.write, "selection", text)
    return text


if __name__ == "__main__":
    main()
