"""The client against a real API server, and against one that misbehaves."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from kaiwo.engine.client import Client
from kaiwo.engine.credentials import Connection, static
from kaiwo.engine.errors import (
    AlreadyExists,
    Conflict,
    ConnectionBroken,
    Forbidden,
    Invalid,
    NotFound,
    NotLeading,
    ServerUnavailable,
    TooManyRequests,
)
from kaiwo.engine.reader import PAGE
from kaiwo.engine.resource import CONFIG_MAP, JOB, LEASE, Resource

if TYPE_CHECKING:
    from collections.abc import Callable

    from kaiwo.engine.metrics import Metrics
    from kaiwo.engine.resource import Object
    from kaiwo.testing.fault_proxy import FaultProxy

pytestmark = pytest.mark.cluster


async def test_an_object_lives_through_all_verbs(
    client: Client, namespace: str, config_map: Callable[..., Object]
) -> None:
    """Create, read, patch, replace, delete."""
    made = await client.create(CONFIG_MAP, config_map("a", {"x": "1"}), field_manager="me")
    assert made["metadata"]["managedFields"][0]["manager"] == "me"
    uid = made["metadata"]["uid"]
    patched = await client.merge_patch(CONFIG_MAP, namespace, "a", {"data": {"x": None, "y": "2"}}, uid=uid)
    assert patched["data"] == {"y": "2"}
    patched["data"]["z"] = "3"
    await client.replace(CONFIG_MAP, patched)
    assert (await client.get(CONFIG_MAP, namespace, "a"))["data"] == {"y": "2", "z": "3"}
    await client.delete(CONFIG_MAP, namespace, "a", uid=uid)
    with pytest.raises(NotFound) as caught:
        await client.get(CONFIG_MAP, namespace, "a")
    assert caught.value.details["name"] == "a"


async def test_refusals_carry_the_servers_own_text_and_fields(client: Client, namespace: str) -> None:
    """A user reads which field is wrong and why."""
    bad = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "a", "namespace": namespace},
        "spec": {"parallelism": -1, "template": {"spec": {"containers": []}}},
    }
    with pytest.raises(Invalid, match=r"spec\.parallelism: Invalid value: -1") as caught:
        await client.create(JOB, bad)
    assert "spec.parallelism" in {cause.field for cause in caught.value.causes}


async def test_preconditions_conflict_instead_of_hitting_a_successor(
    client: Client, namespace: str, config_map: Callable[..., Object]
) -> None:
    """A write that is meant for one object never lands on another of the same name."""
    made = await client.create(CONFIG_MAP, config_map("a", {"x": "1"}))
    version = made["metadata"]["resourceVersion"]
    with pytest.raises(AlreadyExists):
        await client.create(CONFIG_MAP, config_map("a"))
    with pytest.raises(Conflict):
        await client.merge_patch(CONFIG_MAP, namespace, "a", {"data": {"x": "2"}}, uid="other")
    with pytest.raises(Conflict):
        await client.delete(CONFIG_MAP, namespace, "a", uid="other")
    meant = config_map("a", {"x": "3"})
    meant["metadata"]["uid"] = "other"
    with pytest.raises(Conflict):
        await client.apply(CONFIG_MAP, meant, field_manager="me")
    meant["metadata"]["name"] = "none"
    with pytest.raises(Conflict):
        await client.apply(CONFIG_MAP, meant, field_manager="me")
    await client.merge_patch(CONFIG_MAP, namespace, "a", {"data": {"x": "4"}}, resource_version=version)
    with pytest.raises(Conflict):
        await client.merge_patch(CONFIG_MAP, namespace, "a", {"data": {"x": "5"}}, resource_version=version)
    assert (await client.get(CONFIG_MAP, namespace, "a"))["data"] == {"x": "4"}


async def test_applied_text_arrives_as_it_was_sent(
    client: Client, namespace: str, config_map: Callable[..., Object]
) -> None:
    """Apply is parsed as YAML, which takes some characters of JSON for line breaks and refuses others."""
    text = "".join(map(chr, (*range(0x1, 0x20), *range(0x7E, 0xA1), 0x2028, 0x2029, 0xFEFF, 0xFFFE, 0xFFFF)))
    sent = {"text": f"a {text} b", "lines": "c\u0085d\u2028 e", "plain": "é 漢 😀 ' \" \\u009b"}
    applied = await client.apply(CONFIG_MAP, config_map("a", sent), field_manager="me")
    assert applied["data"] == sent
    assert (await client.get(CONFIG_MAP, namespace, "a"))["data"] == sent


async def test_names_lead_nowhere_else(client: Client, namespace: str) -> None:
    """A name with a slash, a question mark or dots is a name that does not exist, not another URL."""
    for name in ("a/../../secrets", "a?watch=true", "a%2Fb", "..", "ä"):
        with pytest.raises((NotFound, Invalid, Forbidden)):
            await client.get(CONFIG_MAP, namespace, name)


async def test_lists_come_in_pages_with_kind_filled_in(
    client: Client, namespace: str, config_map: Callable[..., Object]
) -> None:
    """More objects than fit a page are all listed, once."""
    await asyncio.gather(
        *(client.create(CONFIG_MAP, config_map(f"n{n}", labels={"l": "1"})) for n in range(PAGE + 20))
    )
    pages = [page async for page in client.pages(CONFIG_MAP, namespace, label_selector="l=1")]
    assert [len(page.items) for page in pages] == [PAGE, 20]
    assert len({page.resource_version for page in pages}) == 1
    names = [
        obj["metadata"]["name"] async for obj in client.list(CONFIG_MAP, namespace, label_selector="l=1")
    ]
    assert len(set(names)) == len(names) == PAGE + 20
    (one,) = [obj async for obj in client.list(CONFIG_MAP, namespace, field_selector="metadata.name=n7")]
    assert (one["kind"], one["apiVersion"], one["metadata"]["name"]) == ("ConfigMap", "v1", "n7")


async def test_what_is_served_is_known(client: Client) -> None:
    """A group that is not installed gives an empty result, not an error."""
    absent = Resource("nobody.example", "v1", "Nothing", "nothings")
    misspelt = Resource("batch", "v1", "Job", "jobz")
    assert await client.served([JOB, LEASE, CONFIG_MAP, absent, misspelt]) == {JOB, LEASE, CONFIG_MAP}


async def test_a_kind_is_used_in_the_newest_version_that_is_served(
    client: Client, namespace: str, config_map: Callable[..., Object]
) -> None:
    """A cluster of an older generation is read and written in its own version, without a setting."""
    newer = Resource("", "v7", "ConfigMap", "configmaps", fallbacks=("v3", "v1"))
    assert await client.served([newer]) == {newer}
    assert client.in_use(newer).version == "v7"
    assert [obj async for obj in client.list(newer, namespace, label_selector="l=none")] == []
    assert client.in_use(newer).version == "v1"
    made = await client.create(newer, config_map("a", {"x": "1"}))
    assert made["apiVersion"] == "v1"
    assert newer == Resource("", "v7", "ConfigMap", "configmaps")


async def test_a_dry_run_changes_nothing(
    client: Client, namespace: str, config_map: Callable[..., Object]
) -> None:
    """Also while this process may not write."""
    client.may_write = lambda: False
    assert (await client.create(CONFIG_MAP, config_map("a"), dry_run=True))["metadata"]["uid"]
    assert (await client.apply(CONFIG_MAP, config_map("a"), field_manager="me", dry_run=True))["kind"]
    with pytest.raises(NotFound):
        await client.get(CONFIG_MAP, namespace, "a")


async def test_unknown_fields_are_refused_on_request(
    client: Client, config_map: Callable[..., Object]
) -> None:
    """Strict validation names the field."""
    with pytest.raises(Invalid, match='unknown field "nonsense"'):
        await client.create(CONFIG_MAP, {**config_map("a"), "nonsense": 1}, field_validation="Strict")


async def test_without_a_lease_nothing_is_sent(
    through: Client, proxy: FaultProxy, namespace: str, config_map: Callable[..., Object]
) -> None:
    """Every mutating verb is held back; reads continue."""
    through.may_write = lambda: False
    obj = config_map("a")
    for attempt in (
        through.create(CONFIG_MAP, obj),
        through.apply(CONFIG_MAP, obj, field_manager="me"),
        through.merge_patch(CONFIG_MAP, namespace, "a", {}),
        through.replace(CONFIG_MAP, obj),
        through.delete(CONFIG_MAP, namespace, "a"),
    ):
        with pytest.raises(NotLeading):
            await attempt
    assert [obj async for obj in through.list(CONFIG_MAP, namespace)]
    assert proxy.writes(beside="^$") == []


async def test_a_write_is_checked_when_the_connection_stands(
    proxy: FaultProxy, config_map: Callable[..., Object]
) -> None:
    """A process frozen while it connects sends nothing afterwards; reads are not checked."""
    asked: list[bool] = []
    async with Client(proxy.connection) as client:

        def may_write() -> bool:
            session = client._transport._session
            assert session is not None
            asked.append(bool(session.connector and session.connector._acquired))
            return False

        client.may_write = may_write
        with pytest.raises(NotLeading):
            await client.create(CONFIG_MAP, config_map("a"))
        assert asked == [True]
        await client.get_json("/version")
        assert asked == [True]
    assert [record.method for record in proxy.records] == ["GET"]


async def test_a_write_is_checked_again_before_each_repetition(
    through: Client, proxy: FaultProxy, config_map: Callable[..., Object]
) -> None:
    """A lease that is lost during a pause stops the next try."""
    proxy.answer(503, method="PATCH", times=None)
    answers = iter([True, False])
    through.may_write = lambda: next(answers)
    with pytest.raises(NotLeading):
        await through.apply(CONFIG_MAP, config_map("a"), field_manager="me")
    assert len(proxy.writes()) == 1


async def test_safe_requests_are_repeated(
    through: Client, proxy: FaultProxy, metrics: Metrics, namespace: str, config_map: Callable[..., Object]
) -> None:
    """An overloaded, restarting or unreachable API server costs a pause and no failure."""
    proxy.answer(503, method="PATCH")
    proxy.reset(method="PATCH")
    proxy.answer(429, method="PATCH", retry_after=0.2)
    await through.apply(CONFIG_MAP, config_map("a"), field_manager="me")
    assert [record.code for record in proxy.writes()] == [503, 0, 429, 201]
    proxy.answer(500, method="GET")
    await through.get(CONFIG_MAP, namespace, "a")
    counted = metrics.registry.get_sample_value
    labels = {"verb": "get", "method": "GET", "host": "", "resource": "configmaps"}
    assert counted("rest_client_requests_total", {**labels, "code": "500"}) == 1
    assert counted("rest_client_requests_total", {**labels, "code": "200"}) == 1


async def test_the_wish_to_wait_is_obeyed(
    through: Client, proxy: FaultProxy, config_map: Callable[..., Object]
) -> None:
    """Retry-After sets the pause; a POST that was surely not carried out is repeated too."""
    proxy.answer(429, method="POST", retry_after=1)
    loop = asyncio.get_running_loop()
    began = loop.time()
    await through.create(CONFIG_MAP, config_map("a"))
    assert loop.time() - began >= 1


async def test_a_very_long_wish_to_wait_goes_to_the_caller(
    through: Client, proxy: FaultProxy, namespace: str
) -> None:
    """A worker is not held for an hour; the error carries the wish."""
    proxy.answer(429, retry_after=3600)
    with pytest.raises(TooManyRequests) as caught:
        await through.get(CONFIG_MAP, namespace, "a")
    assert caught.value.retry_after == 3600
    assert len(proxy.records) == 1


async def test_a_write_that_failed_in_vain_is_sent_once_next_time(
    through: Client, proxy: FaultProxy, config_map: Callable[..., Object]
) -> None:
    """Its caller tries ever more seldom, and that is how often the API server gets it."""
    fault = proxy.answer(500, method="PATCH", times=None)
    requests = []
    for _ in range(3):
        before = fault.struck
        with pytest.raises(ServerUnavailable):
            await through.apply(CONFIG_MAP, config_map("a"), field_manager="me")
        requests.append(fault.struck - before)
    assert requests == [4, 1, 1]
    proxy.clear()
    await through.apply(CONFIG_MAP, config_map("a"), field_manager="me")
    proxy.answer(503, method="PATCH")
    await through.apply(CONFIG_MAP, config_map("a"), field_manager="me")


async def test_a_create_without_a_response_is_not_repeated(
    through: Client, proxy: FaultProxy, config_map: Callable[..., Object]
) -> None:
    """Whether the object exists is for the caller to find out; two creates could make two objects."""
    proxy.lose_answer(method="POST")
    with pytest.raises(ConnectionBroken):
        await through.create(CONFIG_MAP, config_map("a"))
    assert len(proxy.writes()) == 1
    with pytest.raises(AlreadyExists):
        await through.create(CONFIG_MAP, config_map("a"))
    proxy.answer(500, method="POST")
    with pytest.raises(ServerUnavailable):
        await through.create(CONFIG_MAP, config_map("b"))


async def test_a_server_that_never_answers_ends_in_a_time_limit(proxy: FaultProxy, namespace: str) -> None:
    """A hang becomes ConnectionLost."""
    proxy.hang(method="GET", times=None)
    async with Client(proxy.connection, timeout=0.2) as client:
        with pytest.raises(ConnectionBroken, match="timed out"):
            await client.get(CONFIG_MAP, namespace, "a")


async def test_the_lease_does_not_wait_for_requests_that_are_stuck(
    proxy: FaultProxy, namespace: str, config_map: Callable[..., Object]
) -> None:
    """All slots are taken by requests that hang, and no write is allowed: urgent requests go through."""
    hung = proxy.hang(method="PATCH", times=2)
    async with Client(proxy.connection, timeout=10.0, concurrency=2) as client:
        stuck = [
            asyncio.create_task(client.apply(CONFIG_MAP, config_map(f"n{n}"), field_manager="me"))
            for n in range(5)
        ]
        await hung.wait()
        client.may_write = lambda: False
        async with asyncio.timeout(5):
            made = await client.create(CONFIG_MAP, config_map("a"), urgent=True)
            await client.get(CONFIG_MAP, namespace, "a", urgent=True)
            await client.replace(CONFIG_MAP, made, urgent=True)
        assert not any(task.done() for task in stuck)
        for task in stuck:
            task.cancel()
        await asyncio.gather(*stuck, return_exceptions=True)


async def test_a_wrong_token_is_refused_and_read_again_once(connection: Connection) -> None:
    """401 leads to one renewal of the credentials, then to Forbidden."""
    asked: list[bool] = []

    class Wrong:
        """A source of tokens that are always wrong."""

        async def headers(self, *, refresh: bool) -> dict[str, str]:
            """A token."""
            asked.append(refresh)
            return {"Authorization": "Bearer wrong"}

    stranger = Connection(
        connection.server, ssl_context=static(connection.server).ssl_context, authenticator=Wrong()
    )
    assert stranger.ssl_context is not None
    stranger.ssl_context.check_hostname = False
    stranger.ssl_context.verify_mode = 0  # type: ignore[assignment]  # ssl.CERT_NONE
    async with Client(stranger) as client:
        with pytest.raises(Forbidden) as caught:
            await client.get_json("/api/v1/namespaces")
    assert caught.value.status == 401
    assert asked == [False, True]


async def test_a_missing_server_is_reported_with_its_address(namespace: str) -> None:
    """A wrong server address is named."""
    async with Client(static("http://127.0.0.1:9")) as client:
        with pytest.raises(ConnectionBroken, match=r"127\.0\.0\.1:9"):
            await client.get(CONFIG_MAP, namespace, "a")


async def test_a_missing_server_is_reported_in_words_alone() -> None:
    """The path of a request without a kind is named, and no Python object is in the text."""
    async with Client(static("https://127.0.0.1:9")) as client:
        with pytest.raises(ConnectionBroken) as caught:
            await client.get_json("/version")
    assert str(caught.value).startswith(
        "get /version at https://127.0.0.1:9: Cannot connect to host 127.0.0.1:9 ["
    )
    assert "ssl" not in str(caught.value)


async def test_a_watch_yields_changes_in_order(
    client: Client, namespace: str, config_map: Callable[..., Object]
) -> None:
    """From a list's version on, nothing is missed."""
    version = ""
    async for page in client.pages(CONFIG_MAP, namespace):
        version = page.resource_version
    await client.create(CONFIG_MAP, config_map("a"))
    await client.merge_patch(CONFIG_MAP, namespace, "a", {"data": {"x": "1"}})
    await client.delete(CONFIG_MAP, namespace, "a")
    seen: list[str] = []
    async with asyncio.timeout(20):
        async for type_, _ in client.watch(CONFIG_MAP, namespace, resource_version=version):
            seen.append(type_)
            if type_ == "DELETED":
                break
    assert [type_ for type_ in seen if type_ != "BOOKMARK"] == ["ADDED", "MODIFIED", "DELETED"]
