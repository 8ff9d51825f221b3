"""What the report says in words: data and methods that are not as the paper has them."""

from __future__ import annotations

from benchmarks.datasets import DATA_SETS
from benchmarks.paper import protocol
from benchmarks.paper.protocol import Results
from benchmarks.paper.published import ACCURACIES, DESCRIPTIONS
from benchmarks.paper.tables import differs, estimate, median_seconds, table

SEPARATION = """\
*SLCE, separation* is `slce_xp.fit(..., criterion="separation")`, not a method of the paper: the
class-separating cost that its conclusion leaves for the future. Its recipe has no parameter to
choose, but **it was developed on these sets**, so its numbers here are an upper estimate of what it
does elsewhere. `python -m benchmarks.accuracy --data FOLDER` repeats the comparison on any other
data. As LDA, it has at most (classes − 1) components and is given no more.
"""

CURVES = """\
Not of the paper. 400 curves in 4 classes, sampled at 101 points: a bump on a slow wave, with noise.
In the first set classes differ in the bump's place, in the second in its height. SFPCA sees curves,
the other linear methods 101 features. No package that this project depends on ships real curves
with labels, so there is no real set here.
"""

# By method of the paper's related work: what it is, and what it was checked against.
DESCRIBED = {
    "ISPC": (
        "Piironen & Vehtari 2018: screening, one component, deflation, until a permutation test "
        "fails",
        "the standard example of the authors' R package (first the feature of the strongest "
        "signal, then the second); labels of pure noise fail the permutation test; scores are "
        "those of explicitly deflated data and uncorrelated",
    ),
    "SPPCA": (
        "Yu et al. 2006: probabilistic PCA of samples and labels together, by EM",
        "the likelihood is SciPy's of the joint Gaussian, rises at every step, and ends at the "
        "maximum that a search over both variances of noise finds; PCA for labels of pure noise; a "
        "planted subspace that PCA misses",
    ),
    "SupSVD": (
        "Li et al. 2016: SVD with scores that the labels drive, by EM",
        "the likelihood is SciPy's of the conditional Gaussian and rises at every step; V is "
        "recovered, each column by itself, from data without noise; planted directions are found "
        "better than by PCA",
    ),
    "SFPCA": (
        "Nie et al. 2018: functional PCA drawn towards class means, with a roughness penalty, on "
        "B-splines; θ and λ by cross-validation",
        "θ = 1 and λ = 0 give PCA of the curves on a fine grid; θ = 0 gives the span of the class "
        "means; integrals of splines against polynomials; more λ, smoother functions",
    ),
}


def described_systems(results: Results) -> list[str]:
    """Methods that the paper describes and does not run: what was checked, and the cost."""
    medians = median_seconds(results)
    rows = []
    for method, (what, checked) in DESCRIBED.items():
        seconds = [s for where, s in medians.items() if where[2] == method]
        if seconds:
            cost = f"{min(seconds):.2g} to {max(seconds):.2g}"
            rows.append([method, what, checked, cost])
    if not rows:
        return []
    return [
        "The paper describes four more systems and runs none of them: there are no numbers of its "
        "own to compare with. They are implemented here anew, and `tests/test_peer_models.py` "
        "checks each against what is known of it:",
        "",
        *table(["system", "what it is", "checked against", "seconds, by set"], rows),
    ]


def described_otherwise() -> list[str]:
    """Sets whose public copy is not what the paper describes."""
    rows = []
    for name, (n, d, classes) in DESCRIPTIONS.items():
        data_set = DATA_SETS[name]
        here = (*data_set.shape, len(data_set.counts))
        if here != (n, d, classes):
            rows.append(
                [data_set.title, f"{n} × {d}, {classes}", f"{here[0]} × {here[1]}, {here[2]}"]
            )
    return table(["set", "the paper: samples × features, classes", "the public copy"], rows)


def _readings() -> list[protocol.Experiment]:
    """The experiment with other readings of methods, if it is in the protocol."""
    return [e for e in protocol.EXPERIMENTS if e.number == 4]


def other_readings(results: Results) -> list[str]:
    """Means of other readings of a method beside the paper's and ours."""
    lines = []
    for method in ("LDA", "Bair's SPCA"):
        readings = [m for e in _readings() for m in e.methods if m.startswith(method)]
        rows = []
        for experiment in _readings():
            for name in experiment.sets:
                for p in experiment.dimensions:
                    found = [estimate(results.accuracies(1, name, method, p))]
                    found += [estimate(results.accuracies(4, name, m, p)) for m in readings]
                    paper = ACCURACIES[1, name, method, p]
                    cells = [
                        "–" if e is None else str(e) if differs(e, paper) else f"**{e}**"
                        for e in found
                    ]
                    if any(found[1:]):
                        rows.append([DATA_SETS[name].title, str(p),
                                     f"{paper[0]:.2f} ± {paper[1]:.2f}", *cells])  # fmt: skip
        if rows:
            lines += [f"{method}, read in other ways (bold: agrees with the paper):", ""]
            lines += table(["set", "dimensions", "paper", "as above", *readings], rows)
    return lines


UNCLEAR = """\
- **Arcene**: 900 counts the 700 samples of its test part, whose labels are not public. The parts
  for training and validation have 200, all of which are used here.
- **Olivetti** has 40 subjects with ten faces each.
- **Ionosphere** and **Mice Protein**: no public copy has the paper's number of samples. Mice
  Protein has missing values, which the paper does not mention; 552 rows have none, so 975 is not
  what remains when the others are dropped. Here every missing value becomes its feature's mean,
  taken over the whole set.
- **Mice Protein** has 15 measurements of each mouse, and random splits put some of them on both
  sides. Accuracies on it, the paper's and ours, do not say how well a new mouse is classified.
- **Human Activity**: the public set has 10 299 samples; which 5744 the paper uses is not said.
- **Preparation**: the paper mentions none. Features are used as they come, neither scaled nor
  standardised; so much agrees with the paper on MNIST to the last digit.
- **Ritchie's methods** (LRPCA, LSPCA) standardise features, as published code of theirs does; all
  others get them raw. On features of unlike spread part of a difference may come from that alone.
- **Splits**: random, not stratified; the paper does not say.
- **Beyond the positive eigenvalues**: a set of two classes gives SLCE one positive eigenvalue. Its
  second and third component are then directions in which the training data do not vary (d ≥ n), or
  that raise the cost (d < n); the paper classifies in them nevertheless, and so do we.
- **LDA** here is scikit-learn's `LinearDiscriminantAnalysis`; the paper does not say which it uses.
  Below are four other readings: directions of length one, S_w with a ridge of 10 or 100 times its
  mean eigenvalue (towards S_b alone), and LDA after PCA to ten dimensions.
- **Bair's SPCA** here chooses its threshold by the 5-NN accuracy of held-out training samples, and
  scores features by one class against the rest. The paper does not say how it does either. Below,
  a fixed share of the features is kept: all of them would be PCA.
- **LRPCA**: the paper copies the numbers of Ritchie et al. (2020), from other splits than its own
  and judged in their manner; here it is fitted anew and judged as all others.
"""
