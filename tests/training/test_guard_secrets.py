import time

import pytest

from skillopt_ci.redaction import HIDDEN
from skillopt_ci.training.guard import (
    new_address,
    order_to_the_optimizer,
    secret_in,
    without_secrets,
)

KEYS = {
    "an AWS access key": "AKIA" + "ABCDEFGHIJKLMNOP",
    "a GitHub token": "ghp_" + "aB3" * 12,
    "a GitLab token": "glpat-" + "aB3dE" * 4,
    "an API key": "sk-proj-" + "aB3dE" * 5,
    "a Google API key": "AIza" + "aB3dE" * 7,
    "a Slack token": "xoxb-" + "123456-abcdef",
    "a Hugging Face token": "hf_" + "aB3dE" * 6,
    "a package registry token": "npm_" + "aB3d" * 9,
    "a private key": "-----BEGIN RSA PRIVATE " + "KEY-----",
    "a web token": ".".join(["eyJ" + "aB3dEf" * 3, "eyJ" + "aB3dEf" * 3, "aB3dEf" * 3]),
    "a password in a web address": "postgres://ada:" + "lovelace@host/db",
}


@pytest.mark.parametrize(("kind", "key"), KEYS.items())
def test_keys_of_known_formats_are_found_anywhere(kind: str, key: str) -> None:
    assert secret_in(f"- Use `{key}` here.", "") == kind


@pytest.mark.parametrize(
    "text",
    [
        "password: hunter2hunter2",
        "API_KEY=9f8a7b6c5d4e3f2a1b0c9d8e7f6a5b4c",
        "the token is q7Rt9xLm2vWz",
        'secret = "550e8400-e29b-41d4-a716-446655440000"',
        "Authorization: Bearer a1b2c3d4e5f6a7b8",
    ],
)
def test_random_values_under_a_telling_name_are_found(text: str) -> None:
    assert secret_in(text, "") == "what looks like a password or a key"


@pytest.mark.parametrize(
    "text",
    [
        "Never write a password into the answer.",
        "The secret: documentation that people read.",
        "Stay below the limit: tokens max_output_tokens=4096.",
        "Authors of sk-learn-based-classification-pipelines agree.",
        "A token is about four characters of ordinary_text.",
        "Reference 123456789012 on 2026-11-21.",
    ],
)
def test_ordinary_sentences_hold_no_secret(text: str) -> None:
    assert secret_in(text, "") == ""


def test_keys_of_this_run_are_found_whatever_they_look_like() -> None:
    assert secret_in("say open sesame", "", ["open sesame"]) == "a key of this run"
    assert secret_in("say yes", "", ["yes"]) == ""


def test_a_secret_that_the_skill_has_is_no_news() -> None:
    key = KEYS["a GitHub token"]
    assert secret_in(f"use {key}", f"always {key}") == ""


def test_secrets_are_replaced_by_a_word_for_them() -> None:
    key = KEYS["a GitHub token"]
    assert without_secrets(f"a {key} b pw-of-run {key}", ["pw-of-run"]) == (
        "a [a GitHub token was here] b [a key of this run was here] [a GitHub token was here]"
    )


def test_where_a_secret_was_hidden_there_was_one() -> None:
    assert secret_in(f"Log in with {HIDDEN}.", "") == "a key of this run"
    assert secret_in(f"Log in with {HIDDEN}.", f"known: {HIDDEN}") == ""
    assert HIDDEN not in without_secrets(f"Log in with {HIDDEN}.")


@pytest.mark.parametrize(
    "part",
    ["token", "token ", "token-", "a.", "a-", "eyJ-", "sk-", "www.", "//a", "a://", "\n# ", "[ "],
)
def test_repetition_is_judged_quickly(part: str) -> None:
    text = part * 10_000
    started = time.process_time()
    secret_in(text, "")
    new_address(text, "")
    order_to_the_optimizer(text, "")
    assert time.process_time() - started < 1
