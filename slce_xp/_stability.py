"""How much selections of features agree."""

from __future__ import annotations

import math
from statistics import NormalDist
from typing import Any, NamedTuple

import numpy as np

from slce_xp._errors import invalid
from slce_xp._parameters import as_number


class Stability(NamedTuple):
    """The stability of selections, and its confidence interval.

    Attributes
    ----------
    value : float
        1 if all selections are the same, about 0 if they are random.
    low, high : float
        The interval.
    """

    value: float
    low: float
    high: float


def stability(selected: Any, /, *, level: float = 0.95) -> Stability:
    r"""The stability of feature selections, by Nogueira, Sechidis and Brown (JMLR 2018).

    .. math:: \hat\Phi = 1 - \frac{\frac1d \sum_f \frac{M}{M - 1} \hat p_f (1 - \hat p_f)}
        {\frac{\bar k}d \bigl(1 - \frac{\bar k}d\bigr)}

    with the share :math:`\hat p_f` of the M selections that have feature f, and the mean number
    :math:`\bar k` of selected features. It is corrected for chance: random selections have a
    stability of zero on average, whatever their sizes.

    Parameters
    ----------
    selected : array of bool, shape (M, d)
        One selection per row, at least two.
    level : float
        The confidence of the interval, which is that of an asymptotically normal estimate.

    Returns
    -------
    Stability
        NaN if no feature, or every feature, is in all selections: nothing was selected then.

    Examples
    --------
    >>> import numpy as np
    >>> from slce_xp._stability import stability
    >>> same = np.array([[True, True, False, False, False]] * 3)
    >>> stability(same).value
    1.0
    """
    marks = np.asarray(selected)
    if marks.ndim != 2 or marks.shape[0] < 2 or marks.dtype != np.bool:
        raise invalid(
            "selected",
            "selected must be booleans of shape (M, d) with at least 2 selections; got shape "
            f"{marks.shape} of {marks.dtype}",
        )
    level = as_number(level, "level", 0.0, 1.0, above=True)
    count, d = marks.shape
    sizes = marks.sum(axis=1)
    share = sizes.mean() / d
    chance = share * (1.0 - share)
    if chance == 0.0:
        return Stability(math.nan, math.nan, math.nan)
    often = marks.mean(axis=0)
    spread = count / (count - 1) * np.sum(often * (1.0 - often)) / d
    value = float(1.0 - spread / chance)
    # What each selection contributes, for the variance (their Theorem 7).
    parts = (marks @ often - sizes * share) / d
    parts += 0.5 * value * ((2.0 * sizes * share - sizes) / d - share + 1.0)
    parts /= chance
    deviation = 2.0 / count * math.sqrt(float(np.sum((parts - parts.mean()) ** 2)))
    width = NormalDist().inv_cdf(0.5 + 0.5 * level) * deviation if level < 1.0 else math.inf
    return Stability(value, value - width, value + width)
