"""The webhooks' certificates on a real API server: made, shared, rotated, lost and edited by hand."""

from __future__ import annotations

import asyncio
import base64
import contextlib
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from kaiwo.admission.bundles import CONFIGURATIONS, bundles_of
from kaiwo.admission.certificates import Certificates, expiry, issue
from kaiwo.admission.names import SECRET, configurations_name, server_names
from kaiwo.engine import credentials
from kaiwo.engine.client import Client
from kaiwo.engine.errors import Forbidden, NotFound
from kaiwo.engine.resource import SECRET as SECRETS

if TYPE_CHECKING:
    from pathlib import Path

    from kaiwo.engine.resource import Object
    from kaiwo.testing.fault_proxy import FaultProxy

pytestmark = pytest.mark.cluster

HOUR, DAY = timedelta(hours=1), timedelta(days=1)


def certificate_of(secret: Object) -> bytes:
    """The certificate in a Secret."""
    return base64.b64decode(secret.get("data", {}).get("tls.crt", ""))


async def store(hooks: Any, given: Certificates) -> None:
    """Write certificates into the Secret, as an administrator."""
    data = {name: base64.b64encode(value).decode() for name, value in given.files().items()}
    await hooks.client.merge_patch(SECRETS, hooks.namespace, SECRET, {"data": data})


def due(hooks: Any) -> Certificates:
    """Certificates whose successor is due."""
    return issue(server_names(hooks.namespace), datetime.now(UTC) - 70 * DAY)


async def test_replicas_that_start_together_agree_on_one_certificate(hooks: Any) -> None:
    """Both may write, as at a change of the leader, and their clocks differ by two hours."""
    hooks.register(fail=True)
    first, second = hooks.replica(ahead=HOUR), hooks.replica(ahead=-HOUR)
    await hooks.until(lambda: first.controller.state.well and second.controller.state.well)
    await hooks.until_reviewed()
    secret = await hooks.secret()
    await asyncio.sleep(2)
    assert (await hooks.secret())["metadata"]["resourceVersion"] == secret["metadata"]["resourceVersion"]
    assert first.used[-1] == second.used[-1]
    assert certificate_of(secret) == first.used[-1].certificate


async def test_a_follower_waits_for_the_leader_and_then_serves(hooks: Any) -> None:
    """It writes nothing; what is missing is said."""
    hooks.register()
    follower = hooks.replica(leads=False)
    await hooks.until(lambda: follower.controller.state.reason == "CertificateMissing")
    assert not follower.server.serving
    assert "data" not in await hooks.secret()
    hooks.replica()
    await hooks.until(lambda: follower.controller.state.well)
    await hooks.until_reviewed()


async def test_a_rotation_under_load_loses_no_request(hooks: Any) -> None:
    """Thousands of requests that would fail without an answer; two replicas change at different moments."""
    hooks.register(fail=True)
    await store(hooks, old := due(hooks))
    follower = hooks.replica(leads=False)
    await hooks.until(lambda: len(hooks.replicas) == 1)
    # The old certificate is trusted first, as it was before the rotation.
    for kind in CONFIGURATIONS:
        with contextlib.suppress(NotFound):
            found = await hooks.client.get(kind, None, configurations_name(hooks.namespace))
            for webhook in found["webhooks"]:
                webhook["clientConfig"]["caBundle"] = base64.b64encode(old.authorities).decode()
            await hooks.client.replace(kind, found)
    await hooks.until_reviewed()
    assert follower.used == [old]
    async with hooks.load() as results:
        await asyncio.sleep(1)
        leader = hooks.replica()
        await hooks.until(lambda: follower.used[-1] != old, timeout=90)
        await hooks.until(
            lambda: bool(leader.used) and leader.used[-1].certificate != old.certificate, timeout=90
        )
        while len(results) < 3000:
            await asyncio.sleep(0.1)
        assert follower.reviews
        # The API server may keep its connection to one replica for as long as that serves.
        await follower.close()
        await hooks.until(lambda: leader.reviews > 0)
    failed = [result for result in results if result]
    assert not failed, f"{len(failed)} of {len(results)}: {failed[:3]}"


async def test_the_end_of_a_replica_under_load_loses_no_request(hooks: Any) -> None:
    """It leaves the endpoints, answers what is under way, and then closes its connections."""
    hooks.register(fail=True)
    stays, goes = hooks.replica(), hooks.replica(leads=False)
    await hooks.until(lambda: stays.controller.state.well and goes.controller.state.well)
    await hooks.until_reviewed()
    await asyncio.gather(*(hooks.create() for _ in range(50)))
    async with hooks.load() as results:
        await asyncio.sleep(1)
        assert goes.reviews
        await goes.close()
        await asyncio.sleep(1)
    failed = [result for result in results if result]
    assert not failed, f"{len(failed)} of {len(results)}: {failed[:3]}"


async def test_a_deleted_secret_is_made_again_without_a_gap(hooks: Any) -> None:
    """With a new certificate, whose authority is trusted beside the old one."""
    hooks.register(fail=True)
    replica = hooks.replica()
    await hooks.until(lambda: replica.controller.state.well)
    await hooks.until_reviewed()
    first = await hooks.secret()
    await hooks.client.delete(SECRETS, hooks.namespace, SECRET)
    while True:
        await hooks.create()
        if replica.used[-1].certificate != certificate_of(first):
            break
        await asyncio.sleep(0.1)
    await asyncio.gather(*(hooks.create() for _ in range(20)))
    second = await hooks.secret()
    assert second["metadata"]["uid"] != first["metadata"]["uid"]
    assert certificate_of(second) == replica.used[-1].certificate


@pytest.mark.parametrize("content", ["expired", "nonsense", "other name"])
async def test_a_certificate_that_cannot_be_used_is_replaced_at_once(hooks: Any, content: str) -> None:
    """Whatever stands in the Secret when the operator starts."""
    hooks.register(fail=True)
    given = {
        "expired": issue(server_names(hooks.namespace), datetime.now(UTC) - 91 * DAY),
        "nonsense": Certificates(b"no certificate", b"no key", b"no authority"),
        "other name": issue(("other.example.com",), datetime.now(UTC)),
    }[content]
    await store(hooks, given)
    replica = hooks.replica()
    await hooks.until(lambda: replica.controller.state.well)
    await hooks.until_reviewed()
    assert (expiry(replica.used[-1]) or datetime.now(UTC)) > datetime.now(UTC) + 80 * DAY


async def test_a_certificate_that_is_not_trusted_is_said_and_stops_nobody(hooks: Any) -> None:
    """While no process leads, nobody mends it; then it heals."""
    hooks.register()
    await store(hooks, issue(server_names(hooks.namespace), datetime.now(UTC)))
    found = await hooks.configuration()
    for webhook in found["webhooks"]:
        webhook["clientConfig"]["caBundle"] = base64.b64encode(due(hooks).authorities).decode()
    await hooks.client.replace(CONFIGURATIONS[0], found)
    follower = hooks.replica(leads=False)
    await hooks.until(lambda: follower.controller.state.reason == "NotTrusted")
    await hooks.create()
    assert not follower.reviews
    assert not follower.controller.state.serving
    follower.leads = True
    await hooks.until(lambda: follower.controller.state.well)
    await hooks.until_reviewed()


async def test_an_edited_bundle_is_put_right_and_nothing_else_is_touched(hooks: Any) -> None:
    """Whoever edits another field of the configuration keeps it."""
    hooks.register(fail=True)
    replica = hooks.replica()
    await hooks.until(lambda: replica.controller.state.well)
    wanted = bundles_of(await hooks.configuration())
    found = await hooks.configuration()
    for webhook in found["webhooks"]:
        webhook["clientConfig"]["caBundle"] = base64.b64encode(due(hooks).authorities).decode()
        webhook["timeoutSeconds"] = 3
    await hooks.client.replace(CONFIGURATIONS[0], found)
    for _ in range(200):
        found = await hooks.configuration()
        if bundles_of(found) == wanted:
            break
        await asyncio.sleep(0.1)
    assert bundles_of(found) == wanted
    assert [webhook["timeoutSeconds"] for webhook in found["webhooks"]] == [3]
    await hooks.until_reviewed()


async def test_a_deleted_configuration_is_said_and_its_return_is_noticed(hooks: Any) -> None:
    """The operator has no right to make it again: that is an administrator's."""
    hooks.register(fail=True)
    replica = hooks.replica()
    await hooks.until(lambda: replica.controller.state.well)
    await hooks.client.delete(CONFIGURATIONS[0], None, configurations_name(hooks.namespace))
    await hooks.until(lambda: replica.controller.state.reason == "NotRegistered")
    hooks.register(fail=True)
    await hooks.until(lambda: replica.controller.state.well)
    await hooks.until_reviewed()


async def test_given_files_are_served_and_followed(hooks: Any, tmp_path: Path) -> None:
    """A folder without files is said; a new certificate with a new authority leaves no gap."""
    hooks.folder = tmp_path
    hooks.register(fail=True)
    replica = hooks.replica()
    await hooks.until(lambda: replica.controller.state.reason == "CertificateMissing")
    write(tmp_path, first := issue(server_names(hooks.namespace), datetime.now(UTC)))
    await hooks.until(lambda: replica.controller.state.well)
    await hooks.until_reviewed()
    assert replica.used[-1].certificate == first.certificate
    write(tmp_path, second := issue(server_names(hooks.namespace), datetime.now(UTC)))
    while replica.used[-1].certificate != second.certificate:
        await hooks.create()
        await asyncio.sleep(0.1)
    await asyncio.gather(*(hooks.create() for _ in range(20)))
    write(tmp_path, issue(("other.example.com",), datetime.now(UTC)))
    await hooks.until(lambda: replica.controller.state.reason == "CertificateWrongName")
    assert replica.controller.state.serving
    await hooks.create()
    assert "data" not in await hooks.secret()


def write(folder: Path, given: Certificates) -> None:
    """Write the files of a certificate folder."""
    for name, value in given.files().items():
        (folder / name).write_bytes(value)


async def test_the_rendered_rights_suffice_and_no_others_are_used(
    hooks: Any, account: FaultProxy, tmp_path: Path
) -> None:
    """Making, rotating and losing the certificate, without one request that is denied."""
    hooks.register(fail=True)
    admin = hooks.client
    kubeconfig = account.write_kubeconfig(tmp_path / "kubeconfig")
    async with Client(credentials.load(kubeconfig)) as limited:
        hooks.client = limited
        replica = hooks.replica()
        hooks.client = admin
        await hooks.until(lambda: replica.controller.state.well)
        await store(hooks, due(hooks))
        used = len(replica.used)
        await hooks.until(lambda: len(replica.used) > used and replica.controller.state.well)
        await hooks.client.delete(SECRETS, hooks.namespace, SECRET)
        used = len(replica.used)
        await hooks.until(lambda: len(replica.used) > used and replica.controller.state.well)
        await replica.close()
    assert {record.code for record in account.records if record.code in (401, 403)} == set()
    assert {record.method for record in account.records} == {"GET", "PATCH"}


async def test_the_operator_may_change_nothing_but_the_bundle(
    hooks: Any, account: FaultProxy, tmp_path: Path
) -> None:
    """Whoever holds its token cannot widen a webhook, read other Secrets or make any."""
    hooks.register()
    name = configurations_name(hooks.namespace)
    kubeconfig = account.write_kubeconfig(tmp_path / "kubeconfig")
    async with Client(credentials.load(kubeconfig)) as limited:
        found = await hooks.configuration()
        changes: list[tuple[str, Any]] = [
            ("failurePolicy", "Fail"),
            ("rules", [{"apiGroups": ["*"], "apiVersions": ["*"], "operations": ["*"], "resources": ["*"]}]),
            ("clientConfig", {"url": "https://evil.example.com/"}),
            ("namespaceSelector", {}),
            ("matchConditions", []),
            ("name", "other.kaiwo.silogen.ai"),
            ("timeoutSeconds", 30),
        ]
        patches: list[Object] = [
            {"webhooks": [{**found["webhooks"][0], key: value}]} for key, value in changes
        ]
        patches += [
            {"webhooks": []},
            {"metadata": {"labels": {"a": "b"}}},
            {"metadata": {"finalizers": ["a/b"]}},
        ]
        await asyncio.sleep(2)  # until the policy is in force
        for patch in patches:
            with pytest.raises(Exception, match="changes nothing of a webhook configuration but caBundle"):
                await limited.merge_patch(CONFIGURATIONS[0], None, name, patch)
        bundle = base64.b64encode(due(hooks).authorities).decode()
        config = {**found["webhooks"][0]["clientConfig"], "caBundle": bundle}
        allowed = {"webhooks": [{**found["webhooks"][0], "clientConfig": config}]}
        await limited.merge_patch(CONFIGURATIONS[0], None, name, allowed)
        for denied in (
            limited.delete(CONFIGURATIONS[0], None, name),
            limited.get(SECRETS, hooks.namespace, "other"),
            limited.create(SECRETS, secret_named(hooks.namespace, SECRET + "-2")),
            limited.apply(SECRETS, secret_named(hooks.namespace, "other"), field_manager="a"),
            limited.get(CONFIGURATIONS[0], None, "kaiwo-webhooks.other"),
        ):
            with pytest.raises(Forbidden):
                await denied


def secret_named(namespace: str, name: str) -> Object:
    """A Secret without content."""
    return {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name, "namespace": namespace}}
