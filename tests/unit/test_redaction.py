"""One redaction for whatever is kept, and one place for URLs with passwords."""

from __future__ import annotations

import base64
import json
import os
import subprocess
from urllib.parse import quote, quote_plus

import pytest

from nightlatch.core.passwords import hide_password, without_password
from nightlatch.system.redaction import Redacted, secrets

SECRET = "s3cret/with+signs?and>more~" * 4
ENCODERS = [base64.b64encode, base64.urlsafe_b64encode]


@pytest.mark.parametrize("encode", ENCODERS)
@pytest.mark.parametrize("before", range(4))
@pytest.mark.parametrize("after", range(4))
def test_no_part_of_a_secret_in_base64_is_left_wherever_it_begins(encode, before, after):
    said = encode(b"u" * before + SECRET.encode() + b"v" * after)
    shown = secrets({"API_KEY": SECRET}).data(said)
    assert b"[API_KEY]" in shown and len(shown) <= len("[API_KEY]") + 2 * 8
    assert not any(piece in shown for piece in (said[8:16], said[-16:-8]))


def test_a_secret_that_base64_has_wrapped_is_taken_out():
    said = subprocess.run(["base64"], input=SECRET.encode(), capture_output=True, check=True).stdout
    assert said.count(b"\n") > 1
    assert secrets({"API_KEY": SECRET}).data(said).startswith(b"[API_KEY]")


def test_a_secret_in_base64_is_taken_out_wherever_a_read_ends():
    said = b"Authorization: Basic " + base64.b64encode(b"ann:" + SECRET.encode() + b"@") + b"\n"
    for size in (1, 5, 17):
        stream = Redacted(secrets({"API_KEY": SECRET}))
        shown = b"".join(stream.feed(said[at : at + size]) for at in range(0, len(said), size)) + stream.feed(b"")
        assert b"[API_KEY]" in shown and len(shown) < 60


@pytest.mark.parametrize(
    "secret", ['pa"ss\\wo/rd-123', "-----BEGIN KEY-----\nMIIEow\tx\r\n-----END KEY-----", "pässwört-123"]
)
def test_a_secret_in_json_or_in_a_url_is_taken_out(secret):
    hidden = secrets({"API_KEY": secret})
    for said in (json.dumps({"result": secret}), json.dumps({"result": secret}, ensure_ascii=False)):
        assert hidden.text(said) == '{"result": "[API_KEY]"}'
    assert hidden.text(f"https://ann:{quote(secret, safe='')}@host/") == "https://ann:[API_KEY]@host/"
    assert hidden.text(f"q={quote_plus(secret)}&") == "q=[API_KEY]&"


def test_a_secret_that_begins_right_after_the_end_of_another_is_taken_out_wherever_a_read_ends():
    """The first one ends as the second begins, so a read may end in what looks like the middle of the second."""
    environment = {"A_TOKEN": "--------first--", "B_TOKEN": "------second"}
    said = "".join(environment.values()).encode()
    for end in range(1, len(said)):
        stream = Redacted(secrets(environment))
        shown = stream.feed(said[:end]) + stream.feed(said[end:]) + stream.feed(b"")
        assert b"first" not in shown and b"second" not in shown, (end, shown)


def test_a_text_that_is_not_utf8_is_redacted_too():
    secret = os.fsdecode(b"\xff" * 9)
    assert secrets({"API_KEY": secret}).text(f"a {secret} \udcfe") == "a [API_KEY] \udcfe"
    assert secrets({"API_KEY": "s3cret-s3cret"}).text("\ud800 s3cret-s3cret") == "? [API_KEY]"


URLS = [
    ("https://user:s3cret@host/site@v2.git", "https://user{}@host/site@v2.git"),
    ("git+https://user:s3cret@host/site@v2.git#main", "git+https://user{}@host/site@v2.git#main"),
    ("https://user:s3/cret@host/site.git", "https://user{}@host/site.git"),
    ("https://user:s3?cret@host/site.git", "https://user{}@host/site.git"),
    ("https://user:s3@cret@host/site.git", "https://user{}@host/site.git"),
    ("ssh://git:s3cret@host:22/site", "ssh://git{}@host:22/site"),
    ("postgresql://me:s3cret@h:5432/db", "postgresql://me{}@h:5432/db"),
    ("postgresql://me:s3@cr/e:t@h/db", "postgresql://me{}@h/db"),
    ("postgresql:/me:s3cret@h/db", "postgresql:/me{}@h/db"),
    ("postgresql://me:s3?cret@h/db", "postgresql://me{}@h/db"),
]
HARMLESS = [
    "https://host/a:b@c",
    "https://host:8080/a@b",
    "https://[::1]/a@b",
    "git@host:org/site@v2.git",
    "git+git@host:org/site.git",
    "git+/srv/a:b@c.git",
    "sqlite:////srv/a:b@c.db",
    "sqlite:///a@b.db#t",
    "postgresql://me@h/db?sslmode=require",
    "s3://bucket/a@b?endpoint=http://127.0.0.1:9000",
    "origin",
    "",
]


@pytest.mark.parametrize(("url", "left"), URLS)
def test_a_password_comes_through_nowhere(url, left):
    assert without_password(url) == left.format("")
    assert hide_password(url) == left.format(":***")


@pytest.mark.parametrize("url", HARMLESS)
def test_a_url_without_a_password_stays_as_it_is(url):
    assert without_password(url) == hide_password(url) == url


def test_a_password_among_the_options_goes():
    url = "postgresql://h/db?user=me&password=a@b&sslpassword=x&oauth_client_secret=y&sslmode=require"
    assert without_password(url) == "postgresql://h/db?user=me&sslmode=require"
    assert hide_password("postgresql://h/db?password=pw") == "postgresql://h/db?password=***"
    assert without_password("postgresql://h/db?password=pw") == "postgresql://h/db"
