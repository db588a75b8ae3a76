"""The text of an entry and its hash, which other people's machines keep."""

from __future__ import annotations

from nightlatch.ledger.chain import link, pack, unpack


def test_the_hash_of_an_entry_is_frozen():
    """Heads are kept elsewhere for years: these bytes must never change."""
    body = pack({"done": 3, "message": "a\nb\\c", "yes": True})
    assert body == "done=3\nmessage=a\\nb\\\\c\nyes=true"
    assert unpack(body) == {"done": "3", "message": "a\nb\\c", "yes": "true"}
    hash_ = link("0" * 64, "0123456789ab", 7, 1_700_000_000_000, "progress", body)
    assert hash_ == "d3781d1e77e58f0dcd57efb75efdc74fcf72a405654ce2e9c64f5369fae9f46f"


def test_an_older_entrys_state_is_read_as_its_status():
    assert unpack("attempt=1\nstate=failed") == {"attempt": "1", "status": "failed"}
