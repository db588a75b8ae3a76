"""The store is away: one alert by each transport, and one when it is back, from a file of this machine."""

from __future__ import annotations

import json

from nightlatch.observe.alerts import away
from nightlatch.observe.alerts.away import StoreWatch
from nightlatch.observe.alerts.settings import AlertSettings
from tests.support.receivers import http_receiver


def test_away_and_back_are_told_once_each_also_by_a_daemon_that_was_restarted(tmp_path, monkeypatch):
    codes = [500, 200, 200]
    with http_receiver(lambda number: codes[number - 1]) as receiver:
        settings = AlertSettings(transports={"hook": {"kind": "webhook", "url": receiver.url}})

        def watch() -> StoreWatch:
            return StoreWatch(str(tmp_path), "vm", settings)

        watch().record("")
        watch().record("no route")
        watch().record("no route")
        assert not receiver.requests  # a minute has to pass
        monkeypatch.setattr(away, "APART", 0.0)
        watch().record("no route")  # the receiver is away too
        for _ in range(3):
            watch().record("no route")
        for _ in range(3):
            watch().record("")
    rules = [json.loads(body)["alerts"][0]["rule"] for body in receiver.accepted]
    ids = {json.loads(body)["id"] for _, _, body in receiver.requests[:2]}
    assert rules == ["store-away", "recovered"] and len(receiver.requests) == 3 and len(ids) == 1


def test_what_was_back_before_anybody_was_told_is_not_told(tmp_path):
    with http_receiver() as receiver:
        watch = StoreWatch(
            str(tmp_path), "vm", AlertSettings(transports={"hook": {"kind": "webhook", "url": receiver.url}})
        )
        watch.record("no route")
        watch.record("")
        watch.record("")
    assert not receiver.requests


def test_a_folder_that_is_away_with_the_store_is_not_made_again_and_not_needed(tmp_path, monkeypatch):
    monkeypatch.setattr(away, "APART", 0.0)
    folder, moved = tmp_path / "store.d", tmp_path / "moved"
    with http_receiver() as receiver:
        settings = AlertSettings(transports={"hook": {"kind": "webhook", "url": receiver.url}})
        watch = StoreWatch(str(folder), "vm", settings)
        folder.rename(moved)
        for _ in range(3):
            watch.record("gone")
        assert not folder.exists()
        moved.rename(folder)
        for _ in range(3):
            watch.record("")
    assert [json.loads(body)["alerts"][0]["rule"] for body in receiver.accepted] == ["store-away", "recovered"]
