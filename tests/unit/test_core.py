"""The pure rules: values, names, tenure, and which mark may pass."""

from __future__ import annotations

import pytest

from nightlatch.core import fence
from nightlatch.core.model import Holder, Mark, check_name
from nightlatch.core.tenure import Tenure, request_timeout
from nightlatch.core.value import replace
from nightlatch.errors import OtherStore, StaleToken, UsageError


def mark(token: int, grant: str = "g", name: str = "job", store: str = "s") -> Mark:
    return Mark(store=store, name=name, token=token, grant=grant)


def standing(*marks: Mark) -> dict[str, fence.KeptMark]:
    return {m.name: fence.KeptMark(mark=m, by="ann@laptop (pid 7)", at=1.0) for m in marks}


def test_a_value_is_compared_by_what_it_holds_and_cannot_be_changed():
    assert mark(1) == mark(1)
    assert hash(mark(1)) == hash(mark(1))
    assert mark(1) != mark(2)
    with pytest.raises(AttributeError):
        mark(1).token = 2  # type: ignore[misc]
    assert replace(mark(1), token=2) == mark(2)
    assert repr(mark(1)) == "Mark(store='s', name='job', token=1, grant='g')"


@pytest.mark.parametrize("given", [{"store": "s"}, {"store": "s", "name": "n", "token": 1, "grant": "g", "more": 1}])
def test_a_value_wants_exactly_its_fields(given):
    with pytest.raises(TypeError):
        Mark(**given)


@pytest.mark.parametrize("name", ["a", "reports/nightly", "job#3", "x.y-z_1:2@h+a=b,c"])
def test_names_that_fit_every_store(name):
    assert check_name(name) == name


@pytest.mark.parametrize("name", ["", "-x", "/x", ".x", "a b", "a\nb", "a..b", "a//b", "ä", "x" * 201, "a;b", "$x"])
def test_names_that_do_not_are_refused(name):
    with pytest.raises(UsageError):
        check_name(name)


def test_a_holder_survives_packing():
    holder = Holder(incarnation="i", user="ann", host="h", pid=5, start=77, boot="b", lifetime="/x=y")
    assert Holder.unpack(holder.pack()) == holder


def test_a_tenure_ends_its_work_before_the_store_can_give_the_lease_away():
    tenure = Tenure(start=100.0, ttl=60.0)
    assert 100 < tenure.renew_at < tenure.freeze_at < tenure.end_at < tenure.deadline == 160
    # Several tries to renew fit in before the work is frozen.
    assert tenure.renew_at + 2 * (request_timeout(60) + tenure.retry_every) < tenure.freeze_at


def test_a_first_mark_and_a_higher_token_are_admitted_and_raise_the_mark():
    assert fence.admit("gate", {}, mark(5)) is True
    assert fence.admit("gate", standing(mark(4, "old")), mark(5)) is True


def test_a_mark_that_stands_is_admitted_without_writing_it_again():
    assert fence.admit("gate", standing(mark(5)), mark(5)) is False


@pytest.mark.parametrize("offered", [mark(4, "old"), mark(5, "other"), mark(0)])
def test_a_lower_token_and_an_equal_one_of_another_grant_are_refused(offered):
    with pytest.raises(StaleToken, match=r"token 5 of ann@laptop \(pid 7\) since") as refused:
        fence.admit("gate", standing(mark(5)), offered)
    assert (refused.value.offered, refused.value.current) == (offered, mark(5))


def test_two_jobs_on_one_target_do_not_fence_each_other():
    assert fence.admit("gate", standing(mark(500, name="other")), mark(1)) is True


def test_another_store_is_refused_whatever_its_token():
    with pytest.raises(OtherStore, match="do not share one store"):
        fence.admit("gate", standing(mark(5, store="theirs", name="other")), mark(999))


def test_marks_survive_packing():
    marks = standing(mark(5), mark(7, name="other"))
    assert fence.unpack(fence.pack(marks)) == marks
    assert fence.landings(fence.pack(marks)) == ()


def test_what_landed_stands_behind_the_marks_in_lines_without_a_name():
    landed = (fence.Landing(mark=mark(4, "old"), digest="ab", at=1.5), fence.Landing(mark=mark(5), digest="cd", at=2.0))
    text = fence.pack(standing(mark(5)), landed)
    store = mark(5).store
    assert text.splitlines()[1:] == [
        f"\t4\told\t{store}\t1.500\tjob ab",
        f"\t5\t{mark(5).grant}\t{store}\t2.000\tjob cd",
    ]
    assert (fence.unpack(text), fence.landings(text)) == (standing(mark(5)), landed)
