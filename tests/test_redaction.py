import base64
import io
import json
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from skillopt_ci import redaction
from skillopt_ci.redaction import HIDDEN, Redactor, can_be_hidden, redacted_line, unchanged

SECRET = 'sk-"Pläin\\+/7 9c%1e:77'
PEM = "-----END EC KEY-----"  # of every such key
LETTERS = st.text(st.sampled_from('aé😀\\"\n'), max_size=3)
SECRETS = st.text(st.characters(exclude_categories=["Cs", "Z", "C"]), min_size=8, max_size=40)


@given(SECRETS, st.text(), st.text())
def test_no_secret_survives_in_any_spelling(secret, before, after):
    assume(can_be_hidden(secret) and HIDDEN not in secret and secret not in "*" * 50)
    redact = Redactor([secret])
    spellings = (
        *(secret, repr(secret)[1:-1], quote(secret, safe=""), quote_plus(secret)),
        *(json.dumps(secret, ensure_ascii=one)[1:-1] for one in (True, False)),
    )
    for spelling in spellings:
        assert spelling not in redact(f"{before}{spelling}{after}").replace(HIDDEN, "\0")


@given(st.binary(max_size=7), st.binary(max_size=7))
def test_base64_is_seen_through_whatever_stands_around_the_secret(before, after):
    secret = b"planted-3c9f1e77-secret"
    redact = Redactor([secret.decode()])
    for encode in (base64.b64encode, base64.urlsafe_b64encode):
        clean = redact(f"Basic {encode(before + secret + after).decode()} end")
        assert HIDDEN in clean
        left = clean.removeprefix("Basic ").removesuffix(" end")
        for piece in left.split(HIDDEN):
            for shift in range(4):
                letters = ("A" * shift + piece).rstrip("=")
                whole = letters[: len(letters) // 4 * 4]
                decoded = base64.urlsafe_b64decode(whole.translate(str.maketrans("+/", "-_")))
                assert b"planted" not in decoded
                assert b"-secret" not in decoded


def test_a_text_without_secrets_stays_the_same():
    text = "score 0.625, see https://example.org/?q=a%20b, sk- and \\n"
    assert Redactor([SECRET])(text) == Redactor()(text) == unchanged(text) == text


@pytest.mark.parametrize("cut", [12, 16, len(SECRET) - 1])
def test_what_is_left_of_a_secret_where_a_text_was_cut_off_is_hidden(cut):
    redact = Redactor([f" {SECRET}\n"])
    assert redact(f"said: {SECRET[:cut]}") == f"said: {HIDDEN}"
    assert redact(f"{SECRET[-cut:]} was said") == f"{HIDDEN} was said"


@given(st.text("ab", min_size=10, max_size=20), st.text("ab", max_size=40), st.integers(0, 22))
def test_a_part_of_a_secret_is_hidden_at_either_end_and_nowhere_else(start, before, cut):
    secret, text = f"{start}-1", before + f"{start}-1"[:cut]
    assume(secret not in text)
    left = next((n for n in range(len(secret) - 1, 11, -1) if text.endswith(secret[:n])), 0)
    assert Redactor([secret])(text) == (text[:-left] + HIDDEN if left else text)
    assert Redactor([secret])(f"{text}.") == f"{text}."
    mirrored = text[::-1]
    assert Redactor([secret[::-1]])(mirrored) == (HIDDEN + mirrored[left:] if left else mirrored)


@given(st.data(), st.sampled_from([SECRET, "sk-plain-4711", '😀😀é-\\-"-xyz😀']))
def test_a_line_is_cleaned_as_its_texts_are(data, secret):
    redact, cuts = Redactor([secret, "another-secret-11"]), st.integers(8, len(secret))
    pieces = st.sampled_from(
        [secret, json.dumps(secret), json.dumps(json.dumps(secret)), repr(secret), quote(secret)]
        + [base64.b64encode(b"x" * shift + secret.encode()).decode() for shift in range(3)]
    )
    texts = st.builds(
        lambda before, piece, after: before + piece + after,
        LETTERS,
        st.one_of(pieces, cuts.map(lambda n: secret[:n]), cuts.map(lambda n: secret[-n:]), LETTERS),
        LETTERS,
    )
    value = data.draw(
        st.recursive(
            st.one_of(texts, st.floats(allow_nan=False), st.none()),
            lambda inner: st.lists(inner) | st.dictionaries(texts, inner),
            max_leaves=4,
        )
    )
    line = json.dumps(value)
    assert redacted_line(line, redact) == json.dumps(redaction.redacted_values(value, redact))
    assert redacted_line(line, redact.__call__) == redacted_line(line, redact)
    assert redacted_line(line, unchanged) == redacted_line(line, Redactor()) == line


@pytest.mark.parametrize(
    ("secret", "written"),
    [
        ("-----BEGIN KEY-----\nMIIEow0BAAKCAQEA1\nq7Jx9Tz0pWm4LrYv2\n", "q7Jx9Tz0pWm4LrYv2"),
        ("k+y/<&>'s!9\"", r"k\u002By/\u003C\u0026\u003E\u0027s!9\u0022"),  # .NET
        ("k+y/<&>'s!9", r"k+y/\u003c\u0026\u003e's!9"),  # Go
        ("k+y/<&>'s!9", r"k+y\/<&>'s!9"),  # PHP
        ("k+y/<&>'s!9", "k%2By%2F%3C%26%3E's!9"),  # JavaScript, in a URL
    ],
)
def test_each_line_of_a_key_is_hidden_and_what_other_languages_escape(secret, written):
    for text in (written, json.dumps(written)[1:-1]):
        assert Redactor([secret])(f"x {text} y") == f"x {HIDDEN} y"


@pytest.mark.parametrize("secret", ["", "abc", "short7!", "12345678", "selection", "PASSWORD", PEM])
def test_what_may_stand_anywhere_is_not_hidden(secret):
    text = f"a {secret} b"
    assert (can_be_hidden(secret), Redactor([secret])(text)) == (False, text)


def test_secrets_can_be_learnt_later_and_the_longest_goes_first():
    redact = Redactor()
    redact.learn(["abcdef-123456"])
    redact.learn(["abcdef-123456-789", "abcdef-123456"])
    assert redact("key abcdef-123456-789.") == f"key {HIDDEN}."


def test_variables_are_secret_by_the_end_of_their_name():
    environ = {
        "OPENAI_API_KEY": "a",
        "GITHUB_TOKEN": "b",
        "AWS_SECRET_ACCESS_KEY": "c",
        "DB_PASSWORD": "d",
        **dict.fromkeys(("TOKENIZERS_PARALLELISM", "SSH_AUTH_SOCK", "KEYBOARD", "PATH"), "no"),
        "GIT_CONFIG_KEY_0": "no",
        "OTHER_KEY_0": "e",
        "HTTPS_PROXY": "http://me:f@%21@proxy:80",
        "no_proxy": "localhost:80,http://no@host",
    }
    assert sorted(redaction.named_secrets(environ)) == ["a", "b", "c", "d", "e", "f@!"]


def test_a_stream_writes_what_is_left():
    inner = io.StringIO()
    stream = redaction.RedactedStream(inner, Redactor([SECRET]))
    assert stream.write(f"key {SECRET}\n") == len(SECRET) + 5
    stream.flush()
    assert inner.getvalue() == f"key {HIDDEN}\n"
    assert not stream.isatty()
    stream.close()
    assert not inner.closed
    (gone := io.TextIOWrapper(io.BytesIO())).close()
    redaction.RedactedStream(gone, Redactor([])).flush()  # as Python 3.13 does in the end
