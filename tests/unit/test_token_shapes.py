"""Well-known shapes of tokens are taken out although no variable holds them, however the output is split."""

from __future__ import annotations

import pytest

from nightlatch.system import redaction

SHAPES = {
    "github token": "ghp_" + "aB3" * 12,
    "gitlab token": "glpat-" + "x1Y2z3W4v5U6t7S8r9Q0",
    "aws key id": "AKIA" + "IOSFODNN7EXAMPLE",
    "google key": "AIza" + "Sy" + "d" * 33,
    "api key": "sk-ant-api03-" + "q7" * 20,
    "hugging face token": "hf_" + "k" * 34,
    "slack token": "xoxb-" + "123456789012-" * 2 + "abc",
    "npm token": "npm_" + "n" * 36,
    "json web token": "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9PlFUP0THsR8U",
    "private key": "-----BEGIN OPENSSH PRIVATE KEY-----\nb3BlbnNzaC1r\nZXktdjE=\n-----END OPENSSH PRIVATE KEY-----",
}


@pytest.mark.parametrize("name", SHAPES)
def test_a_token_of_a_well_known_shape_is_taken_out_however_the_output_is_split(name):
    text = f"before {SHAPES[name]} after\n".encode()
    wanted = f"before [{name}] after\n".encode()
    assert redaction.secrets({}).data(text) == wanted
    for at in range(1, len(text)):
        stream = redaction.Redacted(redaction.secrets({}))
        assert stream.feed(text[:at]) + stream.feed(text[at:]) + stream.feed(b"") == wanted, at


@pytest.mark.parametrize(
    "text",
    ["task-0123456789abcdef0123456789abcdef0123", "ghp_short", "sk-learn", "-----BEGIN CERTIFICATE-----\nMII\n",
     "eyJ is how JSON begins in base64", "d41d8cd98f00b204e9800998ecf8427e", "AKIArather"],
)  # fmt: skip
def test_what_only_looks_like_one_stays(text):
    assert redaction.secrets({}).text(text) == text
    stream = redaction.Redacted(redaction.secrets({}))
    assert stream.feed(text.encode()) + stream.feed(b"") == text.encode()


def test_a_prompt_is_shown_at_once():
    stream = redaction.Redacted(redaction.secrets({}))
    assert stream.feed(b"Continue? [y/N] ") == b"Continue? [y/N] "
