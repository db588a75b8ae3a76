"""Each transport against a real receiver: what arrives, what an answer means, and that hostile text stays text."""

from __future__ import annotations

import base64
import email
import email.policy
import hashlib
import hmac
import json

import pytest

from nightlatch.errors import UsageError
from nightlatch.observe.alerts.message import Outgoing, ShownAlert, without_markup
from nightlatch.observe.alerts.settings import revealed
from nightlatch.observe.alerts.transports import TRANSPORTS, Refused, SendFailed, desktop
from tests.support.receivers import http_receiver, mail_server

HOSTILE = (
    "gone\r\nSubject: you won\r\nBcc: all@example.org\r\n\r\n@everyone <@U1> <script>alert(1)</script> "
    "[click](http://evil.example) <https://evil.example|x> **b** \u202egnp.exe\x1b]0;title\x07"
)
LINE = without_markup(HOSTILE + " evil.example/x &lt;@U1&gt;")
ALERT = ShownAlert(
    id="job:a:2:failed", rule="failed", job="a", run="7k3f", at=1.0, sentence=f"Failed: {LINE}", last_line=LINE
)
MESSAGE = Outgoing(id="0123abcd", subject="Nightlatch: a failed", text=f"a: Failed: {LINE}", rank=1, alerts=(ALERT,))


def send(kind: str, **settings: object) -> None:
    TRANSPORTS[kind].send({"kind": kind, **settings}, MESSAGE)


def test_a_command_gets_json(tmp_path):
    got = tmp_path / "got.json"
    send("command", command=["sh", "-c", f'cat > {got}; printf "\\n%s" "$NIGHTLATCH_ALERT" >> {got}'])
    body, id_ = got.read_text().splitlines()
    assert json.loads(body)["alerts"][0]["id"] == ALERT.id and id_ == MESSAGE.id


@pytest.mark.parametrize(("code", "error"), [(1, SendFailed), (64, Refused), (127, SendFailed)])
def test_a_command_that_fails(code, error):
    with pytest.raises(error, match=f"exited with {code}: no"):
        send("command", command=f"echo no >&2; exit {code}")


def test_a_command_that_is_not_there():
    with pytest.raises(SendFailed, match="cannot be started"):
        send("command", command=["/nowhere/at-all"])


def test_a_webhook_is_signed_as_standard_webhooks_say(monkeypatch):
    key = b"0123456789abcdef"
    monkeypatch.setenv("HOOK", "whsec_" + base64.b64encode(key).decode())
    with http_receiver() as receiver:
        send("webhook", url=receiver.url + "/hook", secret={"env": "HOOK"})
    ((path, headers, body),) = receiver.requests
    signed = f"{headers['webhook-id']}.{headers['webhook-timestamp']}.".encode() + body
    expected = base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode()
    assert (path, headers["webhook-id"], headers["webhook-signature"]) == ("/hook", MESSAGE.id, f"v1,{expected}")
    facts = json.loads(body)
    assert facts["text"] == MESSAGE.text and body.isascii() and facts["version"] == 1


@pytest.mark.parametrize(
    ("code", "error"), [(500, SendFailed), (503, SendFailed), (429, SendFailed), (408, SendFailed), (404, Refused), (410, Refused), (302, Refused)]
)  # fmt: skip
def test_what_a_receivers_answer_means(code, error):
    with http_receiver(lambda _: code) as receiver, pytest.raises(error, match=str(code)):
        send("webhook", url=receiver.url)


def test_no_answer_is_tried_again_and_no_address_is_not():
    with pytest.raises(SendFailed, match="no answer"):
        send("webhook", url="http://127.0.0.1:1/")
    with pytest.raises(Refused, match="must begin with"):
        send("webhook", url="file:///etc/passwd")


def test_an_address_that_is_not_one_is_not_repeated_in_the_reason():
    with pytest.raises(Refused) as refused:
        send("webhook", url="http://127.0.0.1/a secret token")
    assert "secret" not in str(refused.value)


def test_mail_has_one_subject_one_recipient_and_plain_text():
    with mail_server() as server:
        send(
            "smtp",
            host="127.0.0.1",
            port=server.port,
            tls="none",
            **{"from": "n@example.org", "to": ["ann@example.org"]},
        )
        (raw,) = server.mails
        server.refuse = b"550 no such user"
        with pytest.raises(Refused):
            send(
                "smtp",
                host="127.0.0.1",
                port=server.port,
                tls="none",
                **{"from": "n@example.org", "to": "x@example.org"},
            )
        server.refuse = b"451 later"
        with pytest.raises(SendFailed, match="451"):
            send(
                "smtp",
                host="127.0.0.1",
                port=server.port,
                tls="none",
                **{"from": "n@example.org", "to": "x@example.org"},
            )
    mail = email.message_from_bytes(raw, policy=email.policy.default)
    assert mail.get_all("subject") == [MESSAGE.subject] and mail["bcc"] is None and mail["to"] == "ann@example.org"
    assert mail["message-id"] == "<0123abcd@nightlatch>" and mail.get_content_type() == "text/plain"
    text = mail.get_content()
    assert "you won" in text and not {"@everyone", "http://"} & set(text.split()) and text.strip().count("\n") == 0
    with pytest.raises(SendFailed):
        send("smtp", host="127.0.0.1", port=1, tls="none", **{"from": "a@b", "to": "c@d"})


def test_ntfy_has_all_of_it_in_json():
    with http_receiver() as receiver:
        send("ntfy", url=receiver.url + "/topic")
    ((path, headers, body),) = receiver.requests
    facts = json.loads(body)
    assert path in ("/", "")
    assert (facts["topic"], facts["title"], facts["message"]) == ("topic", MESSAGE.subject, MESSAGE.text)
    assert facts["markdown"] is False and facts["priority"] == 4 and "title" not in headers


def test_a_notification_gets_its_texts_as_arguments(tmp_path, monkeypatch):
    words = desktop.command("Darwin", MESSAGE)
    assert words[0] == "osascript" and words[-2:] == [MESSAGE.subject, MESSAGE.text]
    assert not any(HOSTILE[:4] in word for word in words[:-2])
    *_, subject, text = desktop.command("Linux", MESSAGE)
    assert subject == MESSAGE.subject and "<" not in text
    program, got = tmp_path / "notify-send", tmp_path / "got"
    program.write_text(f'#!/bin/sh\nprintf "%s\\n" "$@" > {got}\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    send("desktop")
    assert got.read_text().splitlines()[-2:] == [MESSAGE.subject, MESSAGE.text]


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # in what Apprise imports
def test_apprise_sends_it_as_text():
    with http_receiver() as receiver:
        address = receiver.url.removeprefix("http://")
        send("apprise", urls=[f"json://{address}/"])
        with pytest.raises(Refused):
            send("apprise", urls=["no-such-service"])
    ((_, _, body),) = receiver.requests
    facts = json.loads(body)
    assert facts["title"] == MESSAGE.subject and facts["message"] == MESSAGE.text
    with http_receiver(lambda _: 500) as broken, pytest.raises(SendFailed):
        send("apprise", urls=[f"json://{broken.url.removeprefix('http://')}/"])


def test_a_secret_is_found_where_the_file_says(tmp_path, monkeypatch):
    (tmp_path / "secret").write_text("s3cret\n")
    monkeypatch.setenv("HOOK", "other")
    assert revealed({"file": str(tmp_path / "secret")}) == "s3cret" and revealed({"env": "HOOK"}) == "other"
    for missing in ({"file": str(tmp_path / "none")}, {"env": "NOT_THERE"}):
        with pytest.raises(UsageError):
            revealed(missing)
