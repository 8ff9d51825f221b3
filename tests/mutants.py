"""Faults planted in slce_xp, one at a time: a test must catch each.

``python tests/mutants.py [NAME ...]`` copies the checkout, replaces a piece of code and runs the
tests that the table names; without a fault they must pass. Run it before a release, and whenever
tests are removed. With ``--all`` the whole suite, but for JAX, looks for the fault: slow, and the
way to find out what catches a new one.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
COPIED = ("slce_xp", "tests", "benchmarks", "docs", "pyproject.toml", "README.md")


class Mutant(NamedTuple):
    """A fault and who must notice it.

    Attributes
    ----------
    fault : str
    file : str
        In slce_xp.
    old, new : str
        A piece of code that is there once, and what takes its place.
    tests : str
        Arguments of pytest: at least one of these tests must fail.
    """

    fault: str
    file: str
    old: str
    new: str
    tests: str


MUTANTS = {
    # ------------------------------------------------------------ devices
    "device-signs": Mutant(
        "a forgotten device= in the rule for signs",
        "core/_eigen.py",
        "xp.arange(count, dtype=first.dtype, device=device)",
        "xp.arange(count, dtype=first.dtype)",
        "tests/test_fit.py::test_backends_agree_in_sign_and_order",
    ),
    "device-classes": Mutant(
        "a forgotten device= in one-hot codes",
        "_backend/class_sums.py",
        "marks = codes[:, None] == xp.arange(height, dtype=codes.dtype, device=device)[None, :]",
        "marks = codes[:, None] == xp.arange(height, dtype=codes.dtype)[None, :]",
        "tests/test_core.py::test_class_sums_on_every_library",
    ),
    "hidden-read": Mutant(
        "a value that is read without to_host",
        "core/_centred.py",
        "    scores = rows @ columns\n",
        "    scores = rows @ columns\n    bool(scores[0, 0] == 0)\n",
        "tests/test_fit.py::test_model_attributes",
    ),
    "upload-wait": Mutant(
        "a block that is used before it has arrived",
        "_backend/uploads.py",
        "self._streams.computing.wait_event(coming.arrived)",
        "pass",
        "tests/test_uploads.py::test_blocks_arrive_in_time",
    ),
    "buffer-wait": Mutant(
        "a buffer that is written to before its copy has left it",
        "_backend/uploads.py",
        "buffer.left.synchronize()",
        "pass",
        "tests/test_uploads.py::test_blocks_arrive_in_time",
    ),
    # ------------------------------------------------------------ the caller's data
    "write-to-x": Mutant(
        "rows that are centred in place",
        "core/_centred.py",
        "            return block - centre\n",
        "            block -= centre\n            return block\n",
        "tests/test_fit.py::test_huge_offsets_lose_no_accuracy",
    ),
    "write-to-weights": Mutant(
        "weights that are scaled in place",
        "core/_groups.py",
        "scaled = np.ldexp(weights, -exponent)",
        "scaled = np.ldexp(weights, -exponent, out=weights)",
        "tests/test_core.py::test_nothing_that_is_given_is_changed",
    ),
    # ------------------------------------------------------------ weights and labels
    "weight-of-products": Mutant(
        "products with X that drop the weights",
        "core/_centred.py",
        "    rows = frame.rows(block, root)\n    scores =",
        "    rows = frame.rows(block)\n    scores =",
        "tests/test_weights.py::test_forms_and_backends_agree_with_the_oracle",
    ),
    "weight-of-sums": Mutant(
        "class sums of many classes that drop the weights",
        "_backend/class_sums.py",
        "np.ones(len(codes), rows.dtype) if weights is None else weights",
        "np.ones(len(codes), rows.dtype)",
        "tests/test_core.py::test_class_sums_on_every_library",
    ),
    "weight-balanced": Mutant(
        "balanced classes that forget the weights of samples",
        "_data/sample_weights.py",
        "np.bincount(codes, single, minlength=n_classes)",
        "np.bincount(codes, minlength=n_classes)",
        "tests/test_weights.py::test_balanced_gives_every_class_the_same_weight",
    ),
    "weight-zero": Mutant(
        "samples of weight zero that take the place of others",
        "core/_rows.py",
        "self.place.xp.take(x, self._kept[index], axis=0)",
        "x[index, :]",
        "tests/test_weights.py::test_forms_and_backends_agree_with_the_oracle",
    ),
    "unlabeled-sign": Mutant(
        "the wrong sign of samples without a label",
        "core/_groups.py",
        "np.where(self.codes < self.n_classes, 1.0, -1.0)",
        "np.where(self.codes < self.n_classes, 1.0, 1.0)",
        "tests/test_semisupervised.py::test_forms_and_backends_agree_with_the_oracle",
    ),
    "unlabeled-weight": Mutant(
        "λ in the place of its root",
        "core/_groups.py",
        "math.sqrt(self.unlabeled_weight)",
        "self.unlabeled_weight",
        "tests/test_semisupervised.py::test_forms_and_backends_agree_with_the_oracle",
    ),
    # ------------------------------------------------------------ sums
    "stale-mean": Mutant(
        "merged moments whose sums stay about the old mean",
        "core/_moments.py",
        "sums = self.sums - self.weights[:, None] * step",
        "sums = self.sums",
        "tests/test_core.py::test_moments_of_shards_are_those_of_the_whole",
    ),
    "last-row-of-memory": Mutant(
        "blocks in memory that lack their last row",
        "core/_rows.py",
        "return (slice(a, b) for a, b in itertools.pairwise(edges))\n\n\ndef _slices",
        "return (slice(a, b - 1) for a, b in itertools.pairwise(edges))\n\n\ndef _slices",
        "tests/test_model.py::test_results_do_not_depend_on_blocks",
    ),
    "last-row-of-file": Mutant(
        "blocks of a file that overlap",
        "_data/file_rows.py",
        "min(i + step, rows.stop)",
        "min(i + step + 1, rows.stop)",
        "tests/test_streaming.py::test_forms_agree_with_the_oracle",
    ),
    "sparse-centre": Mutant(
        "sparse rows that are not centred on their way back",
        "core/_centred.py",
        "        product -= centre[:, None] * xp.sum(columns, axis=0)\n",
        "",
        "tests/test_sparse.py::test_weights_and_unlabelled_samples",
    ),
    # ------------------------------------------------------------ eigenpairs and what is stated
    "order-numpy": Mutant(
        "NumPy's eigenvectors in ascending order",
        "_backend/linalg.py",
        "values[::-1].copy(), vectors[:, ::-1].copy()",
        "values[::-1].copy(), vectors.copy()",
        "tests/test_fit.py::test_forms_and_backends_agree_with_the_oracle",
    ),
    "order-others": Mutant(
        "eigenvectors of other libraries in ascending order",
        "_backend/linalg.py",
        "xp.take(vectors, descending, axis=1)",
        "vectors",
        "tests/test_fit.py::test_forms_and_backends_agree_with_the_oracle",
    ),
    "seed": Mutant(
        "a seed that is ignored",
        "_backend/transfer.py",
        "np.random.default_rng(seed)",
        "np.random.default_rng(0)",
        "tests/test_krylov.py::test_the_seed_changes_nothing_but_rounding",
    ),
    "silent-nan": Mutant(
        "NaN of an eigensolver that is returned",
        "core/_eigen.py",
        "        if not np.isfinite(part).all():\n            raise",
        "        if False:\n            raise",
        "tests/test_fit.py::test_nan_from_an_eigensolver_raises",
    ),
    "nan-in-x": Mutant(
        "NaN in X that is not looked for",
        "core/_moments.py",
        "            rows.raise_if_not_finite()\n",
        "            pass\n",
        "tests/test_validate.py::test_first_non_finite_value_is_located",
    ),
    "certificate": Mutant(
        "a certificate that forgets what lies beyond the space",
        "core/_coordinates.py",
        "_above_one(inner + residual / level)",
        "_above_one(inner)",
        "tests/test_certificates.py::test_what_is_stated_is_true",
    ),
    "count-bound": Mutant(
        "an upper number of positive eigenvalues without room for rounding",
        "core/_solution.py",
        "high = min(int((values > zero_level - rounding).sum()), most)",
        "high = min(int((values > zero_level + rounding).sum()), most)",
        "tests/test_exact_counts.py::test_eigenvalues_within_rounding_of_the_level_are_left_open",
    ),
    "angle-bound": Mutant(
        "bounds of angles without the residuals",
        "core/_solution.py",
        "np.sqrt(np.cumsum(np.square(lengths))) + rounding",
        "np.full(len(values), rounding)",
        "tests/test_certificates.py::test_a_stopped_iteration_states_less",
    ),
    "dtype": Mutant(
        "components in the dtype of the sums",
        "_make_model.py",
        "components=xp.astype(vectors.T, dtype, copy=False)",
        "components=vectors.T",
        "tests/test_fit.py::test_forms_and_backends_agree_with_the_oracle",
    ),
    "plan": Mutant(
        "a plan that forgets matrices of the dense form",
        "_planning/problem.py",
        "block + 3 * d * d * item, ((1 + solver) * d * d",
        "block + d * d * item, (d * d",
        "tests/test_max_memory.py::test_unlabelled_and_weighted_samples_stay_within_the_plan",
    ),
    # ------------------------------------------------------------ models and scores
    "transform-centre": Mutant(
        "an embedding that is not centred",
        "_model.py",
        "    rows = rows - mean\n    if fills:",
        "    if fills:",
        "tests/test_model.py::test_embedding_and_reconstruction_follow_their_formulas",
    ),
    "inverse-centre": Mutant(
        "a reconstruction without the mean",
        "_model.py",
        "    restored += xp.astype(self.mean, rows.dtype)\n",
        "    pass\n",
        "tests/test_model.py::test_embedding_and_reconstruction_follow_their_formulas",
    ),
    "priors": Mutant(
        "probabilities of classes without their shares",
        "_model.py",
        "scores = scores + xp.log(weights / xp.max(weights, axis=0))",
        "pass",
        "tests/test_separation.py::test_predictions_are_those_of_discriminant_analysis",
    ),
    "fold-leak": Mutant(
        "folds that are fitted to the samples that they hold out",
        "_folds.py",
        "(np.flatnonzero(self.codes != fold), ",
        "(np.arange(len(self.codes)), ",
        "tests/test_compare.py::test_accuracies_are_those_of_pipelines",
    ),
    "resample-weights": Mutant(
        "resamples that forget the weights of samples",
        "_importance.py",
        "sample_weight=counts * weights",
        "sample_weight=counts",
        "tests/test_importance.py::test_interval_is_that_of_fits_to_resamples",
    ),
    "holm": Mutant(
        "adjusted p-values in the order of the p-values",
        "_permutation.py",
        "found[order] = np.maximum.accumulate(",
        "found = np.maximum.accumulate(",
        "tests/test_permutation.py::test_pairs_by_holm",
    ),
    "leak": Mutant(
        "a score of the samples that were fitted",
        "_comparison/folds.py",
        "_prepared(X[train], X[test], scale, impute)",
        "_prepared(X, X[test], scale, impute)",
        "tests/test_compare.py::test_accuracies_are_those_of_pipelines",
    ),
    "ellipse": Mutant(
        "ellipses with their axes transposed",
        "plot/_points.py",
        "(centre + circle @ axes)[:, chosen]",
        "(centre + circle @ axes.T)[:, chosen]",
        "tests/test_plot.py::test_ellipses_are_where_their_quadratic_form_is_one",
    ),
    "in-sample": Mutant(
        "an embedding of the samples of the fit that does not say so",
        "plot/_embedding.py",
        "if y is not None and X_test is None:",
        "if y is not None and X_test is not None:",
        "tests/test_plot.py::test_samples_of_the_fit_are_called_so",
    ),
    "hidden": Mutant(
        "names of classes that hide small ones",
        "plot/_labels.py",
        "hidden + PER_HEIGHT * HEIGHTS",
        "PER_HEIGHT * HEIGHTS",
        "tests/test_plot.py::test_names_hide_no_small_class",
    ),
}


def copied(folder):
    """A copy of the checkout in which faults can be planted."""
    ignored = shutil.ignore_patterns("__pycache__", "_build", "*.pyc")
    for name in COPIED:
        source, target = ROOT / name, folder / name
        if source.is_dir():
            shutil.copytree(source, target, ignore=ignored)
        else:
            shutil.copy(source, target)


def run(folder, tests, *options):
    """Run tests on a copy; return the exit status of pytest and the names of those that failed."""
    environment = {
        **os.environ,
        "PYTHONPATH": str(folder),
        "PYTHONDONTWRITEBYTECODE": "1",
        "OPENBLAS_NUM_THREADS": "1",
        "OMP_NUM_THREADS": "1",
    }
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist"]
    done = subprocess.run(
        [*command, "-k", "not jax", "-m", "not slow", *options, *tests],
        cwd=folder, env=environment, capture_output=True, text=True,
    )  # fmt: skip
    failed = dict.fromkeys(re.findall(r"^(?:FAILED|ERROR) ([^\s\[]+)", done.stdout, re.MULTILINE))
    return done.returncode, list(failed), done.stdout


def planted(folder, mutant):
    """Plant a fault; return the file and its text before, or None if the code is gone."""
    path = folder / "slce_xp" / mutant.file
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    if text.count(mutant.old) != 1:
        return None
    changed = text.replace(mutant.old, mutant.new)
    compile(changed, path, "exec")
    path.write_text(changed, encoding="utf-8")
    return path, text


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help="faults; all by default")
    parser.add_argument("--all", action="store_true", help="run the whole suite on each fault")
    options = parser.parse_args()
    unknown = set(options.names) - set(MUTANTS)
    if unknown:
        parser.error(f"no such fault: {', '.join(sorted(unknown))}; there are {', '.join(MUTANTS)}")
    chosen = {name: MUTANTS[name] for name in options.names or MUTANTS}
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        copied(folder)
        named = dict.fromkeys(test for mutant in chosen.values() for test in mutant.tests.split())
        status, failed, output = run(folder, named)
        if status:
            sys.exit(f"{output}\nwithout a fault these tests must pass")
        missed = []
        for name, mutant in chosen.items():
            before = planted(folder, mutant)
            if before is None:
                print(f"{name:20} the code is not in {mutant.file} once: refresh the table")
                missed.append(name)
                continue
            tests = ["tests"] if options.all else mutant.tests.split()
            status, failed, output = run(folder, tests, *([] if options.all else ["-x"]))
            before[0].write_text(before[1], encoding="utf-8")
            if status == 1 and failed:
                print(f"{name:20} caught by {', '.join(failed)}", flush=True)
            else:
                print(f"{name:20} NOT CAUGHT: {mutant.fault} (pytest ended with {status})")
                missed.append(name)
    print(f"{len(chosen) - len(missed)} of {len(chosen)} faults are caught")
    return bool(missed)


if __name__ == "__main__":
    sys.exit(main())
