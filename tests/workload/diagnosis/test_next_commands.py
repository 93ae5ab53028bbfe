"""A next command can be run as it stands, names filled in."""

from __future__ import annotations

import importlib

import click
import pytest

from docs.generate.meanings import GROUPS
from kaiwo.cli.main import COMMANDS
from kaiwo.workload.diagnosis.next_commands import NEXT, next_command

CODES = sorted({*NEXT, *(code for group in GROUPS.values() for code in group), "SomethingOfAPlugin"})


@pytest.mark.parametrize("code", CODES)
@pytest.mark.parametrize("created", [True, False])
@pytest.mark.parametrize("queue", ["blue", ""])
def test_the_next_command_is_one_that_exists(code: str, created: bool, queue: str) -> None:
    """With every option that it names, and nothing left to fill in but the file."""
    text = next_command(
        code, kind="KaiwoService", name="chat", namespace="team", queue=queue, created=created
    )
    program, name, *words = text.split()
    assert "{" not in text
    if program == "kubectl":
        return
    module, _, attribute = COMMANDS[name].load.partition(":")
    command = getattr(importlib.import_module(module), attribute)
    assert isinstance(command, click.Command)
    shared = {"-n", "-o"}
    known = {option for param in command.params for option in param.opts} | shared
    assert {word for word in words if word.startswith("-")} <= known
    assert "service/chat" in text or name in ("submit", "queue", "nodes", "doctor", "plugins")


def test_the_next_command_for_a_queue_that_does_not_exist_lists_those_that_do() -> None:
    """Its own page is not found either."""
    text = next_command(
        "ClusterQueueNotFound", kind="KaiwoJob", name="j", namespace="team", queue="blu", created=False
    )
    assert text == "kaiwo queue"


REFUSED = [
    ("pods: exceeded quota: gpus, requested: limits.cpu=8", "kubectl describe resourcequotas"),
    ("each pod is forbidden: failed quota: q: must specify limits.cpu", "kubectl describe resourcequotas"),
    ("each pod: maximum memory usage per Container is 1Gi, but", "kubectl describe limitranges"),
    ("each pod is forbidden: cpu max limit to request ratio per Pod is 2", "kubectl describe limitranges"),
    ('admission webhook "kyverno.svc-fail" denied the request: service account', "kaiwo submit"),
    ("pods: ValidatingAdmissionPolicy 'p' with binding 'b' denied request", "kaiwo submit"),
    ('pods: violates PodSecurity "restricted:latest": runAsNonRoot != true', "kaiwo submit"),
    ("pods: unable to validate against any security context constraint: []", "kaiwo submit"),
    ('Internal error occurred: failed calling webhook "x": no endpoints', "kubectl get mutatingwebhook"),
    ('pods: error looking up service account team/bot: serviceaccount "bot" not found',
     "kubectl get serviceaccounts"),
    ('each pod is forbidden: pod rejected: RuntimeClass "nvidia" not found', "kubectl get runtimeclasses"),
    ("each pod is forbidden: something of tomorrow", "kubectl get events"),
]  # fmt: skip


@pytest.mark.parametrize(("message", "command"), REFUSED)
def test_the_next_command_for_refused_pods_follows_from_the_refusal(message: str, command: str) -> None:
    """A quota, a limit, a webhook and a policy are looked at, or satisfied, in different places."""
    text = next_command(
        "FailedCreate",
        kind="KaiwoJob",
        name="train",
        namespace="team",
        queue="",
        created=True,
        message=f"Job train has no pod: {message}",
    )
    assert text.startswith(command)
    assert "{" not in text


@pytest.mark.parametrize(
    ("code", "message", "command"),
    [
        (
            "Forbidden",
            'jobs.batch "j" is forbidden: exceeded quota: q',
            "kubectl describe resourcequotas -n team",
        ),
        (
            "Forbidden",
            'User "system:serviceaccount:kaiwo-system:kaiwo-operator" cannot create',
            "kaiwo doctor",
        ),
        ("Rejected", 'admission webhook "w" denied the request: no', "kaiwo submit -f FILE -n team"),
        (
            "Forbidden",
            'persistentvolumeclaims "j" is forbidden: maximum storage usage per PersistentVolumeClaim is 1Gi',
            "kubectl describe limitranges -n team",
        ),
        (
            "Inadmissible",
            "resources didn't satisfy LimitRange constraints: spec",
            "kubectl describe limitranges -n team",
        ),
        ("Inadmissible", "ClusterQueue kaiwo is inactive", "kaiwo queue blue"),
    ],
)
def test_the_next_command_for_other_refused_objects_follows(code: str, message: str, command: str) -> None:
    """A Job that no quota allows needs another quota; only an operator without rights needs the doctor."""
    text = next_command(
        code, kind="KaiwoJob", name="j", namespace="team", queue="blue", created=False, message=message
    )
    assert text == command


@pytest.mark.parametrize(
    ("who", "command"),
    [
        ("by a HorizontalPodAutoscaler", "kubectl get horizontalpodautoscalers -n team"),
        ("by an autoscaler or kubectl scale", "kubectl get horizontalpodautoscalers -n team"),
        ("by KEDA, for a ScaledObject", "kubectl get scaledobjects -n team"),
        ("by kubectl", "kubectl scale deployment/chat --replicas=1 -n team"),
        ("", "kaiwo submit -f FILE -n team"),
    ],
)
def test_the_next_command_of_a_service_without_pods_is_about_who_scaled_it(who: str, command: str) -> None:
    """A new value of spec.replicas does nothing where somebody else owns the Deployment's."""
    was = f"was scaled to zero {who}" if who else "is scaled to zero"
    text = next_command(
        "ScaledToZero",
        kind="KaiwoService",
        name="chat",
        namespace="team",
        queue="",
        created=True,
        message=f"Deployment chat {was}, which",
    )
    assert text == command
