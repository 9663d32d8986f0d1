"""Student's t distribution, for whole degrees of freedom."""

import math

#: Terms below this share of the sum cannot change a double any more.
_NEGLIGIBLE = 1e-18


def t_quantile(confidence: float, degrees: int) -> float:
    """The t that -t and t hold the share ``confidence`` between, for ``degrees`` of freedom.

    Solved for the angle whose tangent is t over the root of the degrees: it lies between 0 and a
    right angle, and :func:`central_share` grows with it, so that halving always finds it. Raises
    ValueError for fewer than one degree of freedom or a confidence that is not between 0 and 1.
    """
    if degrees < 1 or not 0 < confidence < 1:
        raise ValueError(f"no t for {degrees} degrees of freedom at a confidence of {confidence}")
    low, high = 0.0, math.pi / 2
    while True:
        middle = (low + high) / 2
        if middle in (low, high):
            return math.sqrt(degrees) * math.tan(low)
        if central_share(middle, degrees) < confidence:
            low = middle
        else:
            high = middle


def central_share(angle: float, degrees: int) -> float:
    """The probability of \\|t\\| below ``sqrt(degrees) * tan(angle)``.

    The finite series of Abramowitz and Stegun, Handbook of Mathematical Functions, 26.7.3 and
    26.7.4.
    """
    sine, cosine = math.sin(angle), math.cos(angle)
    odd = degrees % 2
    if degrees == 1:
        return 2 * angle / math.pi
    term = total = cosine if odd else 1.0
    for n in range(2 + odd, degrees - 1, 2):
        term *= cosine * cosine * (n - 1) / n
        total += term
        if term < _NEGLIGIBLE * total:
            break
    return 2 / math.pi * (angle + sine * total) if odd else sine * total
