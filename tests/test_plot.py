"""Plots, read back from their artists."""

import re
import runpy
import subprocess
import sys
import types
import warnings

import numpy as np
import oracle
import pytest
import scipy.sparse as sp

import slce_xp
from slce_xp import plot
from slce_xp.plot import _looks

matplotlib = pytest.importorskip("matplotlib", reason="plots need Matplotlib")
plt = pytest.importorskip("matplotlib.pyplot")
to_hex, to_rgb = matplotlib.colors.to_hex, matplotlib.colors.to_rgb

X, CODES = oracle.blobs(90, 6, 3, seed=5)
X = 4 * X
NAMES = np.array(["B", "NK", "T"])[CODES]
MODEL = slce_xp.fit(X, NAMES)
TRAIN, TEST = np.arange(0, 60), np.arange(60, 90)


@pytest.fixture(autouse=True)
def nothing_is_left_behind():
    """No setting of Matplotlib changes, and no figure but the caller's stays open."""
    plt.close("all")  # examples leave theirs open
    before = dict(matplotlib.rcParams)
    yield
    plt.close("all")
    assert dict(matplotlib.rcParams) == before


def many(n_classes, n_each=6, names=None, seed=0):
    """An embedding in the plane, classes apart from each other on a grid."""
    rng = np.random.default_rng(seed)
    codes = np.repeat(np.arange(n_classes), n_each)
    side = int(np.ceil(np.sqrt(n_classes)))
    Z = 10.0 * np.stack([codes % side, codes // side], axis=1) + rng.normal(size=(len(codes), 2))
    return Z, codes if names is None else np.array(names, dtype=object)[codes]


def filled(ax):
    return [c for c in ax.collections if len(c.get_facecolor())]


def hollow(ax):
    return [c for c in ax.collections if not len(c.get_facecolor())]


def places(collections):
    """Coordinates of all points, sorted."""
    if collections[0].axes.name == "3d":
        parts = [np.stack(np.broadcast_arrays(*c._offsets3d), axis=1) for c in collections]
    else:
        parts = [np.asarray(c.get_offsets()) for c in collections]
    return in_order(np.concatenate(parts))


def in_order(rows):
    return rows[np.lexsort(rows.T)]


def colour_at(ax, point):
    """The colour of the marker, filled or open, at a place."""
    for collection in ax.collections:
        near = np.isclose(np.asarray(collection.get_offsets()), point, rtol=0, atol=1e-9)
        hit = np.flatnonzero(near.all(axis=1))
        if len(hit):
            colours = collection.get_facecolor()
            colours = colours if len(colours) else collection.get_edgecolor()
            return to_hex(colours[hit[0] % len(colours)])
    return None


def legend_names(ax):
    legend = ax.get_legend()
    return [text.get_text() for text in legend.get_texts()] if legend else []


def written(ax):
    return sorted(text.get_text() for text in ax.texts)


# ---------------------------------------------------------------- embeddings


def test_training_samples_are_filled_and_test_samples_open_at_their_embedding():
    ax = plot.embedding(
        MODEL, X[TRAIN], NAMES[TRAIN], X_test=X[TEST], y_test=NAMES[TEST], components=(1, 0)
    )
    Z = MODEL.transform(X)[:, [1, 0]]
    np.testing.assert_allclose(places(filled(ax)), in_order(Z[TRAIN]))
    np.testing.assert_allclose(places(hollow(ax)), in_order(Z[TEST]))
    for i in range(90):
        assert colour_at(ax, Z[i]) == _looks.COLOURS[CODES[i]].lower()
    first, second = MODEL.eigenvalues / MODEL.total_loss
    assert ax.get_xlabel() == f"component 2 ({100 * second:.1f} % of class structure)"
    assert ax.get_ylabel() == f"component 1 ({100 * first:.1f} % of class structure)"
    assert legend_names(ax) == ["train", "test"]
    assert written(ax) == ["B", "NK", "T"]


def test_three_components_give_a_3d_plot():
    Z, y = many(4)
    model = slce_xp.fit(np.hstack([Z, Z**2]), y)
    ax = plot.embedding(model, np.hstack([Z, Z**2]), y, components=(0, 1, 2))
    assert ax.name == "3d"
    np.testing.assert_allclose(places(filled(ax)), in_order(model.transform(np.hstack([Z, Z**2]))))
    assert model.n_positive == 2
    assert ax.get_zlabel() == "component 3\n(does not lower the loss)"
    assert legend_names(ax) == ["0", "1", "2", "3"]


def test_open_markers_in_3d():
    Z = np.random.default_rng(0).normal(size=(10, 3))
    ax = plot.points(Z[:6], Z_test=Z[6:], components=(0, 1, 2))
    ax.figure.canvas.draw()
    np.testing.assert_allclose(places(hollow(ax)), in_order(Z[6:]))
    np.testing.assert_allclose(places(filled(ax)), in_order(Z[:6]))


def test_two_classes_are_drawn_in_rows():
    two = CODES < 2
    model = slce_xp.fit(X[two], NAMES[two])
    ax, again = (plot.embedding(model, X[two], NAMES[two]) for _ in range(2))
    points = places(filled(ax))
    np.testing.assert_array_equal(points, places(filled(again)))
    order = np.lexsort(points.T[::-1])
    Z = model.transform(X[two])[:, 0]
    np.testing.assert_allclose(points[order, 0], np.sort(Z))
    np.testing.assert_array_equal(np.rint(points[order, 1]), CODES[two][np.argsort(Z)])
    assert len(np.unique(points[:, 1])) == two.sum()  # no two samples at one height
    assert [text.get_text() for text in ax.get_yticklabels()] == ["B", "NK"]
    share = model.eigenvalues[0] / model.total_loss
    assert ax.get_xlabel() == f"component 1 ({100 * share:.1f} % of class structure)"
    assert legend_names(ax) == []


def test_samples_without_a_label_lie_under_the_others_which_are_mixed():
    y = NAMES.astype(object)
    y[::2] = None
    (collection,) = filled(plot.embedding(MODEL, X, y))
    colours = [to_hex(c) for c in collection.get_facecolor()]  # in the order of drawing
    assert set(colours[:45]) == {_looks.GREY.lower()}
    changes = np.sum(np.array(colours[45:-1]) != np.array(colours[46:]))
    assert _looks.GREY.lower() not in colours[45:]
    assert changes > 10  # class after class, there would be two


def test_samples_without_labels_are_grey():
    ax = plot.embedding(MODEL, X)
    (collection,) = ax.collections
    assert {to_hex(c) for c in collection.get_facecolor()} == {_looks.GREY.lower()}
    assert ax.get_legend() is None
    assert not ax.texts


def test_samples_without_a_label_and_labels_that_the_model_does_not_know():
    y = NAMES.astype(object)
    y[:4] = [None, np.nan, "", "elsewhere"]
    ax = plot.embedding(MODEL, X[:30], y[:30], X_test=X[30:31], y_test=["new"])
    Z = MODEL.transform(X)
    colours = [colour_at(ax, Z[i]) for i in (0, 1, 2, 3, 30, 4)]
    grey, dark = _looks.GREY.lower(), _looks.DARK_GREY.lower()
    assert colours == [grey, grey, grey, dark, dark, _looks.COLOURS[CODES[4]].lower()]
    assert legend_names(ax) == ["no label", "other labels", "train", "test"]
    assert written(ax) == ["B", "NK", "T"]


def test_classes_of_the_test_samples_count_if_no_other_sample_has_a_label():
    Z, y = many(3)
    ax = plot.points(Z, [None] * len(Z), Z_test=Z + 1, y_test=y)
    assert written(ax) == ["0", "1", "2"]
    assert legend_names(ax) == ["no label", "train", "test"]


def test_colours_follow_the_model_s_classes_not_those_that_are_shown():
    Z = MODEL.transform(X)
    ax = plot.points(Z[CODES == 2], NAMES[CODES == 2], classes=MODEL.classes)
    assert colour_at(ax, Z[CODES == 2][0]) == _looks.COLOURS[2].lower()
    ax = plot.points(Z[CODES == 2], NAMES[CODES == 2])
    assert colour_at(ax, Z[CODES == 2][0]) == _looks.COLOURS[0].lower()


@pytest.mark.parametrize(
    ("labels", "names"),
    [
        ([3, 10], ["10", "3"]),
        ([True, False], ["False", "True"]),
        (np.array(["2024-03-01", "2025-01-31"], "M8[ns]"), ["2024-03-01", "2025-01-31"]),
        (["_hidden", r"$\bad$"], [r"$\bad$", "_hidden"]),
        ([1.5, 2.5], ["1.5", "2.5"]),
    ],
    ids=["int", "bool", "date", "odd strings", "float"],
)
def test_labels_of_any_kind(labels, names):
    Z, codes = many(2)
    y = np.asarray(labels)[codes]
    for three in (False, True):
        ax = plot.points(np.hstack([Z, Z]), y, components=(0, 1, 2) if three else (0, 1))
        ax.figure.canvas.draw()
        assert sorted(legend_names(ax) or written(ax)) == names


@pytest.mark.parametrize("n_classes", [2, 10, 11, 30, 100])
def test_every_class_has_a_distinct_marker_and_a_name(n_classes):
    Z, y = many(n_classes)
    ax = plot.points(Z, y)
    looks = {}
    for collection in ax.collections:
        shape = collection.get_paths()[0].vertices.tobytes()
        for place, colour in zip(
            np.asarray(collection.get_offsets()), collection.get_facecolor(), strict=True
        ):
            code = y[(place == Z).all(axis=1)][0]
            looks.setdefault(code, set()).add((to_hex(colour), shape))
    assert all(len(look) == 1 for look in looks.values())
    assert len(set.union(*looks.values())) == n_classes
    assert sorted(map(int, written(ax) or legend_names(ax))) == list(range(n_classes))


def test_no_class_covers_all_others():
    Z, y = many(12, 200)
    ax = plot.points(Z, y)
    shapes = [c.get_paths()[0].vertices.tobytes() for c in ax.collections]
    assert len(set(shapes)) == 11
    assert shapes[:11] == shapes[11:22]  # markers take turns
    (few,) = plot.points(*many(10, 200)).collections
    assert len({to_hex(c) for c in few.get_facecolor()[:30]}) > 5


def test_names_with_numbers_are_in_the_order_of_the_numbers():
    names = ["c10", "c9", "c1", "b2", "b10", "x"]
    Z, y = many(6, names=names)
    expected = ["b2", "b10", "c1", "c9", "c10", "x"]
    page = pytest.importorskip("plotly") and plot.interactive(Z, y)
    assert [trace.name for trace in page.data] == expected
    ax = plot.points(np.hstack([Z, Z[:, :1]]), y, components=(0, 1, 2))
    assert legend_names(ax) == expected
    model = slce_xp.fit(np.hstack([Z, Z**2]), y)
    ax = plot.embedding(model, np.hstack([Z, Z**2]), y, components=(0, 1, 2))
    assert legend_names(ax) == expected
    assert legend_names(plot.points(Z, y, classes=names, components=[0])) == []


def test_component_that_raises_the_loss_has_no_share():
    ax = plot.points([[0.0, 1.0], [1.0, 3.0]], shares=[0.25, -0.5], title="two $1 points")
    assert ax.get_xlabel() == "component 1 (25.0 % of class structure)"
    assert ax.get_ylabel() == "component 2 (does not lower the loss)"
    assert ax.get_title() == "two $1 points"
    ax.figure.draw_without_rendering()


def test_names_that_do_not_fit_into_the_axes_are_next_to_them():
    Z, y = many(6, names=[f"a rather long name, number {i}" for i in range(6)])
    ax = plot.points(Z, y)
    assert not ax.texts
    assert legend_names(ax) == [f"a rather long name, number {i}" for i in range(6)]
    ax.figure.draw_without_rendering()  # the layout is made now
    plot_ends, legend = ax.get_window_extent().x1, ax.get_legend().get_window_extent()
    assert legend.x0 >= plot_ends - 1
    assert legend.x1 <= ax.figure.bbox.x1 + 1


def test_legend_covers_no_samples():
    rng = np.random.default_rng(0)
    Z = rng.uniform(-1, 1, size=(2, 400, 2))
    for data, inside in ((Z, False), (Z[:, np.abs(Z).min(axis=(0, 2)) < 0.3], None)):
        ax = plot.points(data[0], Z_test=data[1])
        ax.figure.draw_without_rendering()
        legend = ax.get_legend().get_window_extent()
        points = ax.transData.transform(data.reshape(-1, 2))
        covered = [legend.contains(*point) for point in points]
        assert not any(covered)
        assert inside is None or (legend.x0 < ax.get_window_extent().x1) == inside


def test_overlapping_names_are_separated_or_moved_to_a_legend():
    rng = np.random.default_rng(0)
    Z = rng.normal(size=(60, 2))
    for scale, shift in ((1, 0), (80, 300), (0.01, 0)):  # for any limits of new axes
        ax = plot.points(scale * Z + shift, np.array(["ant", "bee", "cicada"])[np.arange(60) % 3])
        ax.figure.canvas.draw()
        boxes = [text.get_window_extent() for text in ax.texts]
        assert len(boxes) == 3
        assert not any(a.overlaps(b) for i, a in enumerate(boxes) for b in boxes[:i])
    Z[0] = 1000
    ax = plot.points(Z, np.arange(60) % 30)
    assert not ax.texts
    assert len(legend_names(ax)) == 30


def test_long_names_are_shortened_if_they_still_differ():
    ends = [f"the very same long beginning of a name, and then {i}" for i in range(3)]
    assert _looks.short(ends)[1] == "the very same …e, and then 1"
    middles = [f"the same long beginning, {i}, and the same long end of it" for i in range(3)]
    assert _looks.short(middles) == middles  # shortened names would be equal
    assert _looks.short(["short", "names"]) == ["short", "names"]
    assert _looks.short(["two\nlines"]) == ["two lines"]


def test_too_many_classes_are_counted():
    Z, y = many(150, 2)
    assert legend_names(plot.points(Z, y)) == ["150 classes"]


def test_many_points_are_small_and_rasterized(tmp_path):
    Z, y = many(12, 9000)
    ax = plot.points(Z, y)
    small = matplotlib.figure.Figure((2, 1.5)).subplots()
    plot.points(*many(12, 50), ax=small)
    few = plot.points(*many(12, 50))
    assert all(c.get_rasterized() for c in ax.collections)
    assert not any(c.get_rasterized() for c in few.collections)
    assert ax.collections[0].get_sizes()[0] < few.collections[0].get_sizes()[0] / 10
    assert small.collections[0].get_sizes()[0] < few.collections[0].get_sizes()[0] / 2
    path = tmp_path / "many.svg"
    plot.points(*many(12, 500)).figure.savefig(path)
    assert path.stat().st_size < 300_000  # 6 000 markers, one by one, take 1 MB


def test_palette_is_safe_for_the_colour_blind():
    """Machado's matrices (2009) for red-, green- and blue-blindness; distances in Oklab."""
    vision = [
        np.eye(3),
        [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216],
         [-0.003882, -0.048116, 1.051998]],
        [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413],
         [-0.011820, 0.042940, 0.968881]],
        [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602],
         [0.004733, 0.691367, 0.303900]],
    ]  # fmt: skip
    lms = [[0.4122214708, 0.5363325363, 0.0514459929], [0.2119034982, 0.6806995451, 0.1073969566],
           [0.0883024619, 0.2817188376, 0.6299787005]]  # fmt: skip
    lab = [[0.2104542553, 0.7936177850, -0.0040720468], [1.9779984951, -2.4285922050, 0.4505937099],
           [0.0259040371, 0.7827717662, -0.8086757660]]  # fmt: skip

    def closest(colours):
        rgb = np.array([to_rgb(c) for c in colours])
        linear = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
        least = []
        for seen in vision:
            values = np.cbrt(np.clip(linear @ np.transpose(seen), 0, 1) @ np.transpose(lms))
            values = values @ np.transpose(lab)
            apart = np.linalg.norm(values[:, None] - values, axis=2)
            least.append(apart[np.triu_indices(len(colours), 1)].min())
        return min(least)

    okabe_ito = ["#0072B2", "#E69F00", "#009E73", "#D55E00", "#CC79A7", "#56B4E9", "#000000"]
    assert closest(_looks.COLOURS) >= closest(okabe_ito)


# ---------------------------------------------------------------- what Matplotlib's users expect


def test_palettes():
    Z, y = many(3, names=["a", "b", "c"])

    def drawn(palette, Z=Z, y=y):
        ax = plot.points(Z, y, palette=palette)
        return [colour_at(ax, Z[y == name][0]) for name in dict.fromkeys(y)]

    listed = ["#ff0000", "#00ff00", "#0000ff"]
    assert drawn(listed) == listed
    assert drawn(dict(zip("cab", listed, strict=True))) == [*listed[1:], listed[0]]
    assert drawn("tab10") == [to_hex(matplotlib.colormaps["tab10"](j)) for j in range(3)]
    ends = [to_hex(matplotlib.colormaps["viridis"](x)) for x in (0.0, 1.0)]
    assert drawn("viridis")[::2] == ends
    page = pytest.importorskip("plotly") and plot.interactive(Z, y, palette=listed)
    assert [trace.marker.color for trace in page.data] == listed
    repeated = plot.points(Z, y, palette=listed[:2])  # then markers differ
    assert len({c.get_paths()[0].vertices.tobytes() for c in repeated.collections}) == 3


def test_size_is_the_caller_s_or_that_of_rcparams():
    Z, y = many(40)
    assert tuple(plot.points(Z, y, figsize=(3, 4)).figure.get_size_inches()) == (3, 4)
    assert tuple(plot.loadings(MODEL, figsize=(5, 2))[0].figure.get_size_inches()) == (5, 2)
    with plt.rc_context({"figure.figsize": (9, 5), "figure.dpi": 50}):
        figure = plot.points(Z, y).figure
        assert (*figure.get_size_inches(), figure.dpi) == (9, 5, 50)


@pytest.mark.parametrize("fonttype", ["none", "path"])
def test_text_stays_text_in_files(tmp_path, fonttype):
    ax = plot.points(*many(2, names=["élan", "B"]), title="a title")
    settings = {} if fonttype == "none" else {"svg.fonttype": "none", "pdf.fonttype": 42}
    with plt.rc_context(settings):
        ax.figure.savefig(tmp_path / "a.svg")
        ax.figure.savefig(tmp_path / "a.pdf")
    text = (tmp_path / "a.svg").read_text(encoding="utf-8")
    assert {"élan", "B", "a title"} <= set(re.findall(r"<text[^>]*>([^<]+)</text>", text))
    assert b"/CIDFontType2" in (tmp_path / "a.pdf").read_bytes()  # TrueType, not Type 3


def test_names_hide_no_small_class():
    rng = np.random.default_rng(0)
    Z = np.concatenate([rng.normal(0, 1, (2000, 2)), rng.normal(2.5, 0.02, (5, 2))])
    y = np.repeat(["many", "few"], [2000, 5])
    ax = plot.points(Z, y)
    ax.figure.draw_without_rendering()
    boxes = [text.get_bbox_patch().get_window_extent() for text in ax.texts]
    assert len(boxes) == 2
    hidden = [any(box.contains(*p) for box in boxes) for p in ax.transData.transform(Z[2000:])]
    assert not any(hidden)


# ---------------------------------------------------------------- evidence


def test_samples_of_the_fit_are_called_so():
    assert plot.embedding(MODEL, X, NAMES).get_title().startswith("in-sample")
    assert plot.embedding(MODEL, X, NAMES, title="mine").get_title() == "mine"
    held_out = plot.embedding(MODEL, X[TRAIN], NAMES[TRAIN], X_test=X[TEST], y_test=NAMES[TEST])
    assert held_out.get_title() == ""


def test_ellipses_are_where_their_quadratic_form_is_one():
    Z, y = many(3, names=["a", "b", "c"])
    centre, axes = np.array([9.0, 1.0]), np.array([[3.0, 1.0], [-0.5, 1.5]])  # orthogonal
    ax = plot.points(Z, y, ellipses=[("b", centre, axes)], components=(1, 0))
    (line,) = ax.get_lines()
    away = line.get_xydata()[:, ::-1] - centre
    matrix = np.linalg.inv(axes.T @ axes)
    np.testing.assert_allclose(np.einsum("ij,jk,ik->i", away, matrix, away), 1.0)
    assert to_hex(line.get_color()) == _looks.COLOURS[1].lower()


def test_names_lead_to_the_centres_of_ellipses():
    rng = np.random.default_rng(0)
    Z = np.concatenate([rng.normal(size=(60, 2)), rng.normal(30, 1, (20, 2))])  # a skew class
    centre = Z.mean(axis=0)
    ax = plot.points(Z, np.full(80, "a"), ellipses=[("a", centre, np.eye(2))])
    np.testing.assert_allclose(ax.texts[0].xy, centre)
    np.testing.assert_allclose(plot.points(Z, np.full(80, "a")).texts[0].xy, np.median(Z, axis=0))


def test_embedding_of_data_is_out_of_fold():
    rng = np.random.default_rng(0)
    data, y = rng.normal(size=(60, 300)), np.repeat(["a", "b", "c"], 20)  # means nothing
    found = slce_xp.cross_embed(data, y)
    for ax in (plot.embedding(data, y), found.plot(), plot.cross_embedding(found)):
        np.testing.assert_allclose(places(filled(ax)[:1]), in_order(found.scores))
        right = f"{100 * found.accuracy:.1f} % right"
        assert ax.get_title().startswith(f"out of fold: {right}, ")
        assert len(ax.get_lines()) == 3  # an ellipse for each class
    assert found.accuracy < 0.5
    assert plot.embedding(data, y, title="mine", components=[0]).get_title() == "mine"
    (ax,) = plot.cross_embedding(found, components=[1]).figure.axes
    assert not ax.containers  # nor an interval of another component
    assert ax.get_title().endswith("\n10 folds")
    by_pair = plot.embedding(data, y, groups=np.arange(60) // 2, cv=5)
    assert by_pair.get_title().endswith("\n5 folds of groups, 95 % regions of means of groups")


def test_samples_that_were_never_held_out_are_not_drawn():
    y = NAMES.astype(object)
    y[0] = "alone"
    (collection,) = filled(plot.embedding(X, y))[:1]
    assert len(collection.get_offsets()) == 89


def test_two_classes_out_of_fold_have_an_interval_each():
    two = CODES < 2
    ax = plot.embedding(X[two], NAMES[two])
    assert len(ax.containers) == 2
    assert [text.get_text() for text in ax.get_yticklabels()] == ["B", "NK"]


def test_arrows_are_the_largest_correlations_with_the_components():
    S = MODEL.structure(X)
    names = [f"f{j}" for j in range(6)]
    largest = [names[j] for j in np.argsort(-np.linalg.norm(S, axis=1))[:3]]
    for ax in (plot.embedding(MODEL, X, NAMES, arrows=3, names=names),
               plot.embedding(X, NAMES, arrows=3, names=names)):  # fmt: skip
        assert set(largest) == set(written(ax)) & set(names)


def test_arrows_point_as_their_vectors_and_are_named():
    Z, y = many(2)
    ax = plot.points(Z, y, arrows={"gene $1": (0.5, 0.25), "gene 2": (-0.1, 0.5)})
    tips = [np.array(t.xy) for t in ax.texts if t.arrow_patch is not None and not t.get_text()]
    reach = np.abs(Z).max(axis=0)
    np.testing.assert_allclose(tips, [[1, 0.5], [-0.2, 1]] * reach)
    assert {"gene $1", "gene 2", "0", "1"} <= set(written(ax))


def test_long_names_of_arrows_do_not_cross_them():
    Z, y = many(2)
    name = "a measurement of many words"
    for x, up in ((1, 0.05), (1, -0.05), (-1, 0.05), (-1, -0.05)):
        ax = plot.points(Z - Z.mean(axis=0), y, arrows={name: (x, up), "other": (0.1, 1)})
        ax.figure.draw_without_rendering()
        (text,) = [t for t in ax.texts if t.get_text() == name]
        extent = text.get_window_extent()
        along = ax.transData.transform(np.linspace(0, 1, 50)[:-1, None] * text.xy)
        assert not any(extent.contains(*place) for place in along)


def test_permutations_are_counted_and_the_observed_statistic_is_marked():
    null = np.random.default_rng(0).normal(size=99)
    found = types.SimpleNamespace(null=null, statistic=4.0, p=0.01, kind="between")
    ax = plot.permutation_test(found)
    assert sum(bar.get_height() for bar in ax.patches) == 99
    (line,) = ax.get_lines()
    assert set(line.get_xdata()) == {4.0}
    assert legend_names(ax) == ["99 permutations", "observed: p = 0.01"]


def test_importance_is_ranked_by_its_lower_limits():
    found = types.SimpleNamespace(
        importance=np.array([1.0, 3.0, 2.0]), lower=np.array([0.2, 1.0, 1.5]),
        upper=np.array([2.0, 4.0, 2.5]), highest_class=np.array(["b", "a", "b"]),
        feature_names=np.array(["f1", "f2", "f3"]), level=0.95,
    )  # fmt: skip
    ax = plot.importance(found, top=2)
    assert [text.get_text() for text in ax.get_yticklabels()] == ["f3", "f2"]
    assert [bar.get_width() for bar in ax.patches] == [2.0, 3.0]
    colours = [to_hex(bar.get_facecolor()) for bar in ax.patches]
    assert colours == [_looks.COLOURS[1].lower(), _looks.COLOURS[0].lower()]
    (limits,) = ax.collections
    np.testing.assert_allclose([part[:, 0] for part in limits.get_segments()], [[1.5, 2.5], [1, 4]])
    assert legend_names(ax) == ["a", "b"]
    assert {x for line in ax.get_lines() for x in line.get_xdata()} == {0}  # no threshold


# ---------------------------------------------------------------- models


def lines(ax):
    return {line.get_label(): line for line in ax.get_lines()}


@pytest.fixture(scope="module")
def generous():
    """A model with more components than lower the loss."""
    with pytest.warns(UserWarning, match="n_components"):
        return slce_xp.fit(X, NAMES, 5)


def test_spectrum_shows_eigenvalues_their_bound_and_the_useful_ones(generous):
    ax = plot.spectrum(generous)
    C = oracle.centroid_rows(X, NAMES)
    bound = np.sort(np.linalg.eigvalsh(2 * C.T @ C))[::-1][:5]
    values, _ = oracle.eigenpairs(X, NAMES)
    drawn = lines(ax)
    np.testing.assert_allclose(drawn["bound: $2\\,S_b$"].get_ydata(), bound, atol=1e-9 * bound[0])
    useful, others = drawn["2 lower the loss"], drawn["3 do not"]
    np.testing.assert_allclose(useful.get_ydata(), values[:2])
    np.testing.assert_allclose(others.get_ydata(), values[2:5])
    np.testing.assert_array_equal(useful.get_xdata(), [1, 2])
    np.testing.assert_array_equal(others.get_xdata(), [3, 4, 5])
    assert useful.get_markerfacecolor() == useful.get_markeredgecolor()
    assert to_hex(others.get_markerfacecolor()) == "#ffffff"
    assert any(set(line.get_ydata()) == {0} for line in ax.get_lines())  # the zero line
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("component", "eigenvalue")


def test_fit_with_unlabelled_samples_has_no_bound():
    y = NAMES.astype(object)
    y[::4] = None
    ax = plot.spectrum(slce_xp.fit(X, y, 2, unlabeled="missing"))
    assert legend_names(ax) == ["2 lower the loss"]


def test_loss_starts_without_components_and_is_marked_at_its_minimum(generous):
    ax = plot.loss(generous)
    curve, mark = ax.get_lines()
    C, centred = oracle.centroid_rows(X, NAMES), oracle.centred(X)
    expected = [
        ((C - centred @ A.T @ A) ** 2).sum() for A in (generous.components[:k] for k in range(6))
    ]
    np.testing.assert_array_equal(curve.get_xdata(), range(6))
    np.testing.assert_allclose(curve.get_ydata(), expected)
    assert mark.get_xdata()[0] == np.argmin(expected) == 2
    np.testing.assert_allclose(mark.get_ydata(), [min(expected)])
    share = f"{100 * min(expected) / expected[0]:.1f} %"
    assert legend_names(ax) == [f"lowest: 2 components, {share} of the loss with none"]
    assert ax.get_ylim()[0] == 0


def test_top_features_are_those_that_differ_between_classes():
    rng = np.random.default_rng(3)
    y = np.repeat([0, 1, 2], 40)
    data = rng.normal(size=(120, 50))
    data[y == 1, 7] += 20
    data[y == 2, 31] -= 12
    names = [f"gene{j}" for j in range(50)]
    axes = plot.loadings(slce_xp.fit(data, y), names, top=2)
    assert axes.shape == (2,)
    tops = [[text.get_text() for text in ax.get_yticklabels()] for ax in axes]
    assert [set(top) for top in tops] == [{"gene7", "gene31"}] * 2
    assert (tops[0][0], tops[1][0]) == ("gene7", "gene31")
    assert [ax.get_title() for ax in axes] == ["component 1", "component 2"]


def test_bars_are_the_largest_entries_with_their_signs():
    (ax,) = plot.loadings(MODEL, top=3, components=[1])
    row = MODEL.components[1]
    largest = np.argsort(-np.abs(row))[:3]
    np.testing.assert_allclose([bar.get_width() for bar in ax.patches], row[largest])
    assert [t.get_text() for t in ax.get_yticklabels()] == [f"feature {j + 1}" for j in largest]
    bottom, top = ax.get_ylim()
    assert bottom > top  # the largest on top
    colours = {to_hex(bar.get_facecolor()) for bar in ax.patches if bar.get_width() > 0}
    assert len(colours) <= 1


def test_components_of_images_are_images():
    axes = plot.loadings(MODEL, shape=(2, 3))
    images = [ax.images[0] for ax in axes]
    for image, row in zip(images, MODEL.components, strict=True):
        np.testing.assert_allclose(image.get_array(), row.reshape(2, 3))
        low, high = image.get_clim()
        assert low == -high
        assert high == np.abs(MODEL.components).max()
    assert axes[0].figure.axes[-1].get_ylabel() == "loading"  # the colour bar


def test_spare_panels_of_a_grid_are_removed(generous):
    axes = plot.loadings(generous)
    assert axes.shape == (5,)
    assert len(axes[0].figure.axes) == 5


# ---------------------------------------------------------------- models and data of all kinds


def test_models_of_any_library(xp):
    model = slce_xp.fit(xp.held(X), NAMES).to(xp.name, xp.device)
    ax = plot.embedding(model, xp.array(X), NAMES)
    np.testing.assert_allclose(
        places(filled(ax)), in_order(xp.numpy(model.transform(xp.array(X))).astype(float))
    )
    values = xp.numpy(model.eigenvalues)
    assert (
        ax.get_xlabel()
        == f"component 1 ({100 * values[0] / model.total_loss:.1f} % of class structure)"
    )
    np.testing.assert_allclose(lines(plot.spectrum(model))["2 lower the loss"].get_ydata(), values)
    curve = plot.loss(model).get_lines()[0].get_ydata()
    np.testing.assert_allclose(curve[1:], xp.numpy(model.loss_curve))
    image = plot.loadings(model, shape=(3, 2))[0].images[0]
    np.testing.assert_allclose(image.get_array(), xp.numpy(model.components)[0].reshape(3, 2))
    points = plot.points(model.transform(xp.array(X)), xp.array(CODES))
    np.testing.assert_allclose(places(filled(points)), places(filled(ax)))


def test_samples_of_any_kind_that_a_model_accepts(tmp_path):
    pd = pytest.importorskip("pandas")
    da = pytest.importorskip("dask.array")
    np.save(tmp_path / "X.npy", X)
    expected = in_order(MODEL.transform(X))
    for data in (
        pd.DataFrame(X),
        sp.csr_array(X),
        da.from_array(X, chunks=(40, 6)),
        np.load(tmp_path / "X.npy", mmap_mode="r"),
        X.tolist(),
    ):
        ax = plot.embedding(MODEL, data, pd.Series(NAMES))
        np.testing.assert_allclose(places(filled(ax)), expected, atol=1e-9)
    np.save(tmp_path / "Z.npy", MODEL.transform(X))
    for Z in (np.load(tmp_path / "Z.npy", mmap_mode="r"), da.from_array(MODEL.transform(X))):
        np.testing.assert_allclose(places(filled(plot.points(Z))), expected)


def test_estimator_is_plotted_like_its_model():
    estimator = pytest.importorskip("slce_xp._estimator").SLCE(2).fit(X, NAMES)
    ax = plot.embedding(estimator, X, NAMES)
    np.testing.assert_allclose(places(filled(ax)), in_order(estimator.transform(X)))


# ---------------------------------------------------------------- figures


@pytest.mark.parametrize("name", ["embedding", "points", "spectrum", "loss", "loadings"])
def test_given_axes_are_used_and_no_figure_is_created(name):
    figure = matplotlib.figure.Figure()
    ax = figure.subplots()
    draw = {
        "embedding": lambda: plot.embedding(MODEL, X, NAMES, ax=ax),
        "points": lambda: plot.points(X, NAMES, ax=ax),
        "spectrum": lambda: plot.spectrum(MODEL, ax),
        "loss": lambda: plot.loss(MODEL, ax),
        "loadings": lambda: plot.loadings(MODEL, components=[0], axes=ax)[0],
    }
    assert draw[name]() is ax
    assert plt.get_fignums() == []
    figure.canvas.draw()


def test_errors_leave_no_open_figure():
    solid = matplotlib.figure.Figure().add_subplot(projection="3d")
    flat = matplotlib.figure.Figure().subplots()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        none = slce_xp.fit([[0.0], [9.0], [0.0], [9.0]], [0, 0, 1, 1], "positive")
    assert none.n_components == 0
    cases = [
        (lambda: plot.embedding(none, [[0.0]]), ValueError, "model must have components"),
        (lambda: plot.spectrum(none), ValueError, "the classes overlap"),
        (lambda: plot.loss(none), ValueError, "n_components=2"),
        (lambda: plot.loadings(none), ValueError, "model must have components"),
        (lambda: plot.spectrum(X), TypeError, "model must be a Model .* got ndarray"),
        (lambda: plot.embedding(X), ValueError, "model must be given"),
        (lambda: plot.embedding(X, NAMES, X_test=X), ValueError, "model must be given"),
        (lambda: plot.embedding("model", X, NAMES), TypeError, "model must be a Model"),
        (lambda: plot.embedding(MODEL, X[:, :3]), ValueError, "X must have 6 columns"),
        (lambda: plot.embedding(MODEL, X, NAMES[:5]), ValueError, "^y cannot be drawn: .*5 labels"),
        (lambda: plot.points(X, Z_test=X, y_test=[1]), ValueError, "^y_test cannot be drawn"),
        (lambda: plot.embedding(MODEL, X, components=(0, 2)), ValueError, "indices from 0 to 1"),
        (lambda: plot.embedding(MODEL, X, components=(-1, 0)), ValueError, "components must be"),
        (lambda: plot.points(X, components=()), ValueError, "1 to 3 indices"),
        (lambda: plot.points(X, components=range(4)), ValueError, "1 to 3 indices"),
        (lambda: plot.points(X, components="ab"), TypeError, "components must be"),
        (lambda: plot.points(X, components=1), TypeError, "components must be"),
        (lambda: plot.points(X, ax=solid), ValueError, "ax must not be 3-D for 2 components"),
        (lambda: plot.points(X, components=(0, 1, 2), ax=flat), ValueError, "ax must be 3-D"),
        (lambda: plot.embedding(MODEL, X, components=[0], arrows=2), ValueError, "need two comp"),
        (lambda: plot.points(X, ax=flat, figsize=(1, 2)), ValueError, "figsize must be left out"),
        (lambda: plot.points(X, NAMES, palette="none"), ValueError, "palette must be the name"),
        (lambda: plot.points(X, NAMES, palette={"B": "k"}), ValueError, "colour for each class"),
        (lambda: plot.points(X, NAMES, palette=[]), ValueError, "palette must have colours"),
        (lambda: plot.points(X, y_test=CODES), ValueError, "y_test must come with"),
        (lambda: plot.points(X, Z_test=X[:, :2]), ValueError, "Z_test must have 6 columns"),
        (lambda: plot.points(X[:, :0]), ValueError, "at least one column"),
        (lambda: plot.points(sp.csr_array(X)), TypeError, "Z must be dense"),
        (lambda: plot.points([[0.0, np.nan]]), ValueError, "Z must be finite.*row 0"),
        (lambda: plot.loadings(MODEL, ["a"]), ValueError, "names must name each .* 6 in all"),
        (lambda: plot.loadings(MODEL, top=0), ValueError, "top must be"),
        (lambda: plot.loadings(MODEL, shape=(2, 2)), ValueError, "shape must be .* 6 pixels"),
        (lambda: plot.loadings(MODEL, shape=(6,)), ValueError, "shape must be"),
        (lambda: plot.loadings(MODEL, shape=6), ValueError, "shape must be .* got 6"),
        (lambda: plot.loadings(MODEL, axes=[flat]), ValueError, "one Axes for each .* 2 in all"),
        (lambda: plot.loadings(MODEL, components=[2]), ValueError, "indices from 0 to 1"),
    ]
    for call, kind, message in cases:
        with pytest.raises(kind, match=message):
            call()
    assert plt.get_fignums() == []
    assert not flat.collections
    assert not solid.collections


def test_library_imports_without_matplotlib_and_names_it_when_needed():
    code = (
        "import sys; sys.modules['matplotlib'] = sys.modules['plotly'] = None\n"
        "import slce_xp.plot as plot\n"
        "for call in (lambda: plot.points([[0., 1.]]), lambda: plot.interactive([[0., 1.]])):\n"
        "    try: call()\n"
        "    except ImportError as error: print(error)\n"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert re.search("install it with: pip install '?matplotlib", run.stdout)
    assert re.search("install it with: pip install '?plotly", run.stdout)


# ---------------------------------------------------------------- pages


def test_interactive_has_a_trace_per_class_and_shows_each_sample():
    pytest.importorskip("plotly")
    Z = MODEL.transform(X)
    ids = [f"<cell> {i}" for i in range(90)]
    figure = plot.interactive(Z, NAMES, ids=ids, components=(1, 0))
    assert [trace.name for trace in figure.data] == ["B", "NK", "T"]
    for code, trace in enumerate(figure.data):
        mine = code == CODES
        np.testing.assert_allclose(np.stack([trace.x, trace.y], 1), Z[mine][:, [1, 0]])
        assert list(trace.text) == [f"&lt;cell&gt; {i}" for i in np.flatnonzero(mine)]
        assert trace.hovertemplate == f"%{{text}}<br>{trace.name}<extra></extra>"
        assert trace.marker.color == _looks.COLOURS[code]
    assert "sendChartToCloud" in figure.layout.modebar.remove
    assert figure.layout.xaxis.title.text == "component 2"
    assert figure.layout.yaxis.title.text == "component 1"
    assert "&lt;cell&gt; 17" in figure.to_html(include_plotlyjs=False).replace("\\u0026", "&")


def test_interactive_in_3d_and_in_rows():
    go = pytest.importorskip("plotly.graph_objects")
    (solid,) = plot.interactive(X, components=(0, 1, 2)).data
    assert isinstance(solid, go.Scatter3d)
    np.testing.assert_allclose(solid.z, X[:, 2])
    assert list(solid.text) == [str(i) for i in range(90)]
    rows = plot.interactive(X[:, :1], NAMES)
    for code, trace in enumerate(rows.data):
        np.testing.assert_allclose(trace.x, X[code == CODES, 0])
        np.testing.assert_array_equal(np.rint(trace.y), code)
    assert list(rows.layout.yaxis.ticktext) == ["B", "NK", "T"]


def test_interactive_refuses_ids_that_do_not_fit():
    pytest.importorskip("plotly")
    with pytest.raises(ValueError, match="ids must name each sample, 90 in all; got 1"):
        plot.interactive(X, ids=["a"])


# ---------------------------------------------------------------- demo and README


def test_demo_writes_a_plot(tmp_path, capsys):
    pytest.importorskip("sklearn")
    from slce_xp import demo

    demo.main(["--output", str(tmp_path / "demo.png")])
    assert "wrote" in capsys.readouterr().out
    assert plt.imread(tmp_path / "demo.png").shape == (600, 840, 4)
    assert plt.get_fignums() == []


def test_readme_s_plots_are_those_of_the_script(tmp_path, request, capsys):
    if matplotlib.__version_info__ < (3, 11):
        pytest.skip("the README's were drawn by Matplotlib 3.11, which sets text in another way")
    pytest.importorskip("sklearn")
    docs = request.config.rootpath / "docs"
    script = runpy.run_path(str(docs / "pictures.py"))
    script["main"](["--output", str(tmp_path)])
    drawn = sorted(path.name for path in tmp_path.iterdir())
    assert drawn == sorted(path.name for path in (docs / "images").iterdir())
    for name in drawn:
        assert (docs / "images" / name).stat().st_size < 120_000
        new, kept = (plt.imread(folder / name) for folder in (tmp_path, docs / "images"))
        assert new.shape == kept.shape
        assert np.abs(new - kept).mean() < 0.02  # of 1: other fonts, not other data
    assert plt.get_fignums() == []
