import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillopt_ci.scorers.number import find_numbers


@given(st.floats(allow_nan=False, allow_infinity=False), st.integers(-(10**15), 10**15))
def test_finite_floats_and_grouped_integers_are_read_back(value, whole):
    assert [number.value for number in find_numbers(f"it is {value!r}.")] == [value]
    assert [number.value for number in find_numbers(f"{whole:,}")] == [whole]


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("−5, -5, $1,000.50 or 1,234.5", [-5, -5, 1000.5, 1234.5]),
        ("-$5, $-5, €7, USD 8, US$9", [-5, -5, 7, 8, 9]),
        ("2026/03/04, 10-12, 10–12, 12:30, 1.2.3, 1,234,5 and 5²", [float("nan")] * 7),
        ("1.234,5 and 1.234.567, 1 234,5, 0,75, 0,123", [1234.5, 1234567, 1234.5, 0.75, 0.123]),
        ("1.5 million, $3M, 2.5M or 5k, not 300K", [1.5e6, 3e6, 2.5e6, 5e3, 300]),
        (r"1 1/2 or 1\frac{1}{2}, and 5 × 10⁶", [1.5, 1.5, 5e6]),
        (r"1{,}234 or 1,\!234 or \boxed{1\,234}, -\$5 \text{ million}", [1234, 1234, 1234, -5e6]),
        (".5 or 3/4, 3 / 4, 1 3 / 4 or 1_000.", [0.5, 0.75, 0.75, 1.75, 1000]),
        (r"√2, 2\sqrt{3}, \sqrt[3]{8}, 2π, 3 \pi^2, 1_0", [float("nan"), 2, *[float("nan")] * 5]),
        (r"\sqrt{3}/2, \frac{\sqrt{2}}{2}, π/2, \frac{\pi}{2}, 5 π/3", [float("nan")] * 5),
        ("1.5万, 5千, 3 억, 2천만, 3千米, 3万-5", [15000, 5000, 3e8, 2e7, 3, 3e4, -5]),
        ("1万5000, -1億2000万円, 3万3千, 3万 5", [15000, -1.2e8, 33000, 30000, 5]),
        (
            "2 lakh, 3 crores, 1,5 Mio., 3 Millionen, 2 mrd, €5m, 5m",
            [2e5, 3e7, 1.5e6, 3e6, 2e9, 5e6, 5],
        ),
        (r"42.00 (rounded to 2 decimal places), 3 to the nearest 1,000; ±2", [42, 3, float("nan")]),
        ("29 / 11 / 2024, 12:30 / 13:30", [float("nan")] * 3),
        ("10 / 1,000, 1 / 10^6, 3 / 4e2, 1/2,3/4", [10, 1000, 1, 1e6, 3, 400, 0.5, 0.75]),
        ("1\u202f234, 5\u202fmillion, 3\u00a0×\u00a010⁸, 12\u202f%", [1234, 5e6, 3e8, 12]),
        ("\u20115 or 2½ or ½, and ４２ or 3．5", [-5, 2.5, 0.5, 42, 3.5]),
        ("-½, −¾, 1 ½; 答案1：42, 共3，500, 3\u3000500", [-0.5, -0.75, 1.5, 1, 42, 3, 500, 3, 500]),
        ("٤٢ or ۱٬۲۳۴٫۵, −५ and ٥٠٪", [42, 1234.5, -5, 50]),
        ("minus 3 °C, negative $1,200.50, 10 minus 3 and aminus 5", [-3, -1200.5, 10, -3, 5]),
        (r"GPT-4, 答案是42, \boxed{42}, **42**, _42_ and __-3__.", [4, 42, 42, 42, 42, -3]),
        ("25 cm^2, 9.8 m/s^{2}, 3 s^-1, x^2 = 7, 10 x 10", [25, 9.8, 3, 7, 10, 10]),
        (r"1e3, 2E-2, 10^3, 3 × 10^8 m/s, 1.5\times10^{-3}", [1000, 0.02, 1000, 3e8, 0.0015]),
        (r"\frac12, \frac{-1}{2}, -\cfrac{1}{2} or \dfrac{3}{4}", [0.5, -0.5, -0.5, 0.75]),
        ("1,00,000 and 12,34,567.5", [100000, 1234567.5]),
        (r"20 ± 1 kg, 5 +/- 0.2, 7\pm 1, 3 ± 1/8 and 1.200,- €", [20, 5, 7, 3, 1200]),
        ("none, x_1, H$_2$O, (x)_3 and H2O, 10^999, 1e999 and 1/0", []),
        ("(_42_) a__1 __init__3 x__1__ \\log _2 x, _1 and _2 _2024_a.pdf", [42]),
        (r"\vec{v}_1 u_x, (x)_3 a_\pi, x _1 + y _{a} and $b$_2 c_ ", []),
    ],
)
def test_numbers_as_people_write_them(text, values):
    assert [str(number.value) for number in find_numbers(text)] == [str(float(v)) for v in values]


@given(st.text())
def test_any_text_can_be_searched(text):
    assert all(isinstance(number.value, float) for number in find_numbers(text))


@pytest.mark.parametrize(
    ("response", "reference", "keys", "reason"),
    [
        *(("12%", "12%", {}, ""), ("12 %", "0.12", {}, ""), (r"12\%", "0.12", {}, "")),
        *(("0.12", "12%", {}, ""), ("1200%", "12%", {}, "expected '12%', got '1200%'")),
        *(("1,000", "$1000.00", {}, ""), ("1.5万", "1.5", {}, ""), ("5만 맞다", "5", {}, "")),
        ("", "0", {}, "there is no number in ''"),
        ("2 million", "2", {}, "expected '2', got '2000000'"),
        *(
            (r"\boxed{\frac{1}{2}} in 3 steps", "0.5", {}, ""),
            (r"\boxed{no} 3", "3", {}, r"there is no number in '\boxed{no} 3'"),
        ),
        *(("3, then 42 km", "42", {}, ""), ("42, then 3", "42", {}, "expected '42', got '3'")),
        ("on 12.03.2026", "12", {}, "'on 12.03.2026' ends with an unclear number"),
        *(("100.5", "100", {key: tol}, "") for key, tol in (("abs_tol", 0.5), ("rel_tol", 0.01))),
        ("100.5", "100", {"abs_tol": 0.4}, "expected '100', got '100.5'"),
    ],
)
def test_the_last_number_is_compared(grade, response, reference, keys, reason):
    score = grade("number", response, reference, **keys)
    assert (score.hard, score.reason) == (not reason, reason or "equals a reference")
