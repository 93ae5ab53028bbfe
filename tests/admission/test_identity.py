"""The user of a workload is the one whom the API server authenticated."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from kaiwo.admission.names import MUTATE_WORKLOADS
from kaiwo.testing import job, service
from kaiwo.testing.admission import USER

if TYPE_CHECKING:
    from conftest import Webhooks
    from kaiwo.engine.resource import Object

ACCOUNT = "system:serviceaccount:team-a:ci"


def patched(response: dict[str, Any]) -> object:
    """What the patch writes; None without one."""
    assert response["allowed"], response
    return response["patch"][0]["value"] if "patch" in response else None


def refused(response: dict[str, Any]) -> str:
    """Why the request is forbidden."""
    assert not response["allowed"]
    assert (response["status"]["code"], response["status"]["reason"]) == (403, "Forbidden")
    return str(response["status"]["message"])


@pytest.mark.parametrize("obj", [job(gpus=1), job(user=""), job(user=None), service(image="i")])
def test_set_writes_the_authenticated_user(webhooks: Webhooks, obj: Object) -> None:
    """Who leaves the field out is named all the same, without a word."""
    response = webhooks.ask(MUTATE_WORKLOADS, obj)
    assert patched(response) == USER
    assert response["patch"] == [{"op": "add", "path": "/spec/user", "value": USER}]
    assert "warnings" not in response


def test_set_replaces_another_user_and_says_so(webhooks: Webhooks) -> None:
    """Nobody runs on somebody else's account, and nobody wonders why the name is another one."""
    response = webhooks.ask(MUTATE_WORKLOADS, job(user="boss"))
    assert patched(response) == USER
    assert response["warnings"] == [
        'spec.user: "boss" was replaced by "jane@example.com" (the authenticated user)'
    ]


def test_set_makes_a_spec_where_there_is_none(webhooks: Webhooks) -> None:
    """A patch below a missing field would be an error of the API server."""
    response = webhooks.ask(MUTATE_WORKLOADS, {key: value for key, value in job().items() if key != "spec"})
    assert response["patch"] == [{"op": "add", "path": "/spec", "value": {"user": USER}}]


def test_set_on_a_dry_run_is_the_same(webhooks: Webhooks) -> None:
    """`kubectl apply --dry-run=server` shows the user that the workload would have."""
    assert patched(webhooks.ask(MUTATE_WORKLOADS, job(), dry_run=True)) == USER


def test_set_writes_the_whole_name_of_a_service_account(webhooks: Webhooks) -> None:
    """The field has the name as the API server knows it; only the label is shortened."""
    assert patched(webhooks.ask(MUTATE_WORKLOADS, job(), user=ACCOUNT)) == ACCOUNT


def test_set_refuses_a_name_that_the_field_cannot_hold(webhooks: Webhooks) -> None:
    """Cut, it would be another user's."""
    response = webhooks.ask(MUTATE_WORKLOADS, job(), user="x" * 1025)
    assert response["status"]["message"] == (
        "spec.user: the name of the authenticated user has 1025 characters, at most 1024 are possible"
    )


@pytest.mark.parametrize("user", [USER, "joe"])
@pytest.mark.parametrize("given", ["boss", "joe", None])
def test_set_keeps_the_user_on_an_update(webhooks: Webhooks, user: str, given: str | None) -> None:
    """Neither a colleague who applies the manifest nor the owner changes whose it is."""
    response = webhooks.ask(MUTATE_WORKLOADS, job(user=given), job(user=USER), user=user)
    assert patched(response) == USER
    assert ("warnings" in response) == (given is not None)


def test_an_update_that_leaves_the_user_passes(webhooks: Webhooks, checking: Webhooks) -> None:
    """A colleague may change the GPUs, and what had no user before needs none."""
    for both in (webhooks, checking):
        for user in ("jane", None):
            response = both.ask(MUTATE_WORKLOADS, job(user=user, gpus=2), job(user=user, gpus=1), user="joe")
            assert patched(response) is None


def test_check_takes_the_authenticated_user(checking: Webhooks) -> None:
    """The right name passes unchanged."""
    assert patched(checking.ask(MUTATE_WORKLOADS, job(user=USER))) is None


def test_check_refuses_another_user_and_names_both(checking: Webhooks) -> None:
    """The message says which name is expected, and how those submit who act for others."""
    assert refused(checking.ask(MUTATE_WORKLOADS, job(user="boss"))) == (
        'spec.user: expected "jane@example.com", the authenticated user, got "boss"; '
        "correct it, or submit as that user (kubectl --as) if you may impersonate it"
    )


def test_check_refuses_no_user(checking: Webhooks) -> None:
    """What nobody is named for would be missing in every report."""
    message = 'spec.user: is required; write "jane@example.com", the authenticated user'
    assert refused(checking.ask(MUTATE_WORKLOADS, job())) == message
    assert refused(checking.ask(MUTATE_WORKLOADS, job(user=""))) == message


@pytest.mark.parametrize("given", ["joe", "boss", None])
def test_check_refuses_another_user_on_an_update(checking: Webhooks, given: str | None) -> None:
    """Whoever may update a workload can neither take it nor give it away."""
    message = refused(checking.ask(MUTATE_WORKLOADS, job(user=given), job(user=USER), user="joe"))
    assert message.startswith('spec.user: cannot change from "jane@example.com" to ')


def test_who_names_a_user_first_names_the_authenticated_one(webhooks: Webhooks, checking: Webhooks) -> None:
    """A workload from before the setting gets its user by an update, and only the true one."""
    assert patched(webhooks.ask(MUTATE_WORKLOADS, job(user="boss"), job())) == USER
    assert patched(checking.ask(MUTATE_WORKLOADS, job(user=USER), job())) is None
    assert refused(checking.ask(MUTATE_WORKLOADS, job(user="boss"), job()))


def test_the_operator_may_name_others(webhooks: Webhooks, checking: Webhooks) -> None:
    """The KaiwoJob of an adopted Job has the user who created the Job."""
    for both in (webhooks, checking):
        assert patched(both.ask(MUTATE_WORKLOADS, job(user="joe"), user="operator")) is None


@pytest.mark.parametrize("before", [7, [], {"a": 1}, True])
def test_an_impossible_user_of_before_is_none(webhooks: Webhooks, before: Any) -> None:
    """What no schema takes is answered like a field that is left out."""
    assert patched(webhooks.ask(MUTATE_WORKLOADS, job(user="boss"), job(user=before))) == USER


def test_deletion_and_status_pass(checking: Webhooks) -> None:
    """There is nothing to name in them."""
    assert checking.ask(MUTATE_WORKLOADS, None, job(user="boss"), user="joe")["allowed"]
    assert checking.ask(MUTATE_WORKLOADS, job(user="boss"), subresource="status")["allowed"]


@pytest.mark.parametrize("value", [7, [USER], {"a": 1}, True, "Jane@example.com", f" {USER}"])
def test_nothing_but_the_very_name_passes(webhooks: Webhooks, checking: Webhooks, value: Any) -> None:
    """No other type or spelling dodges the check."""
    assert patched(webhooks.ask(MUTATE_WORKLOADS, job(user=value))) == USER
    assert refused(checking.ask(MUTATE_WORKLOADS, job(user=value)))


def test_a_spec_that_cannot_be_read_is_refused(webhooks: Webhooks) -> None:
    """Its user is not known, so it may be anybody's."""
    response = webhooks.ask(MUTATE_WORKLOADS, job(user="boss", values=[0] * 200_000))
    assert response["status"]["message"] == "spec.values holds more than 100000 values; make it smaller"


def test_without_the_setting_nobody_answers_there(webhooks: Webhooks) -> None:
    """Off means that no webhook is registered."""
    assert MUTATE_WORKLOADS in webhooks.reviewers
    assert MUTATE_WORKLOADS not in webhooks.of().reviewers
