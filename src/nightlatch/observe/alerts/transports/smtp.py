"""Mail, as plain text: nothing in it is markup, and nothing that a command printed is in a header."""

from __future__ import annotations

import smtplib
import ssl
from email.message import EmailMessage
from email.utils import formatdate
from typing import Any

from ....core.printable import printable
from ....system import clock
from ..message import Outgoing
from ..settings import revealed
from . import SECONDS, Refused, SendFailed

_PERMANENT = 500  # reply codes from here on are final; a lower one is worth another try
_PORTS = {"starttls": 587, "tls": 465, "none": 25}


def send(settings: dict[str, Any], message: Outgoing) -> None:
    tls = str(settings.get("tls", "starttls"))
    if tls not in _PORTS:
        raise Refused(f"tls = {tls!r}: use one of {', '.join(_PORTS)}")
    try:
        _deliver(settings, tls, _mail(settings, message))
    except smtplib.SMTPRecipientsRefused as error:
        codes = [code for code, _ in error.recipients.values()]
        why = f"the mail server refused the recipients: {', '.join(map(str, codes))}"
        raise (Refused if min(codes) >= _PERMANENT else SendFailed)(why) from None  # 450 may be greylisting: try later
    except smtplib.SMTPResponseException as error:
        why = f"the mail server answered {error.smtp_code}"
        raise (Refused if error.smtp_code >= _PERMANENT else SendFailed)(why) from None
    except (OSError, smtplib.SMTPException) as error:
        raise SendFailed(f"the mail server did not take it: {error}") from None


def _mail(settings: dict[str, Any], message: Outgoing) -> EmailMessage:
    mail = EmailMessage()
    to = settings["to"]
    mail["From"] = printable(str(settings["from"]))
    mail["To"] = printable(to if isinstance(to, str) else ", ".join(map(str, to)))
    mail["Subject"] = printable(message.subject)
    mail["Date"] = formatdate(clock.wall())
    mail["Message-ID"] = f"<{message.id}@nightlatch>"
    mail["Auto-Submitted"] = "auto-generated"
    mail.set_content(message.text + "\n")
    return mail


def _deliver(settings: dict[str, Any], tls: str, mail: EmailMessage) -> None:
    host, port = str(settings["host"]), int(settings.get("port", _PORTS[tls]))
    context = ssl.create_default_context()
    if tls == "tls":
        server: smtplib.SMTP = smtplib.SMTP_SSL(host, port, timeout=SECONDS, context=context)
    else:
        server = smtplib.SMTP(host, port, timeout=SECONDS)
    with server:
        if tls == "starttls":
            server.starttls(context=context)
        if "user" in settings:
            server.login(str(settings["user"]), str(revealed(settings.get("password", ""))))
        server.send_message(mail)
