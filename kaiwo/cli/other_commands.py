"""Commands that people know from kubectl, docker, Slurm and launchers, and what does the same here."""

from __future__ import annotations

EQUIVALENTS = {
    "api-resources": "kubectl api-resources --categories=kaiwo",
    "apply": "kaiwo submit FILE",
    "attach": "kaiwo logs NAME -f, or kaiwo exec NAME",
    "annotate": "kubectl annotate kaiwojob NAME",
    "auth": "kubectl auth can-i create kaiwojobs",
    "check": "kaiwo submit --dry-run FILE",
    "config": "kubectl config get-contexts, or -n and --context of every command",
    "cp": "kubectl cp",
    "create": "kaiwo submit FILE",
    "diff": "kaiwo plan FILE",
    "down": "kaiwo delete NAME",
    "edit": "kubectl edit kaiwojob NAME, or kaiwo submit FILE --set FIELD=VALUE",
    "events": "kaiwo status NAME",
    "explain": "kubectl explain kaiwojob.spec",
    "get": "kaiwo list, or kaiwo status NAME",
    "info": "kaiwo status NAME",
    "job": "kaiwo list job",
    "jobs": "kaiwo list job",
    "kill": "kaiwo delete NAME",
    "label": "kubectl label kaiwojob NAME",
    "launch": "kaiwo run, or kaiwo submit FILE",
    "login": "kubectl config get-contexts",
    "ls": "kaiwo list",
    "patch": "kaiwo submit FILE --set FIELD=VALUE",
    "pause": "kaiwo delete NAME; a job cannot be suspended",
    "ps": "kaiwo list",
    "replace": "kaiwo submit FILE --replace",
    "restart": "kaiwo submit FILE --replace",
    "resume": "kaiwo submit FILE --replace; a job begins anew",
    "retry": "kaiwo submit FILE --replace",
    "rm": "kaiwo delete NAME",
    "rollout": "kaiwo status NAME -w",
    "sbatch": "kaiwo submit FILE",
    "scale": "kaiwo submit FILE --set replicas=NUMBER",
    "scancel": "kaiwo delete NAME",
    "service": "kaiwo list service",
    "services": "kaiwo list service",
    "set": "kaiwo submit FILE --set FIELD=VALUE",
    "shell": "kaiwo exec NAME",
    "show": "kaiwo status NAME",
    "sinfo": "kaiwo nodes",
    "squeue": "kaiwo queue, or kaiwo list",
    "srun": "kaiwo run",
    "ssh": "kaiwo exec NAME",
    "start": "kaiwo submit FILE",
    "stop": "kaiwo delete NAME",
    "suspend": "kaiwo delete NAME; a job cannot be suspended",
    "tail": "kaiwo logs NAME -f",
    "top": "kaiwo monitor NAME, kaiwo nodes, or kubectl top pods",
    "update": "kaiwo submit FILE",
    "validate": "kaiwo submit --dry-run FILE",
    "wait": "kaiwo submit FILE --wait, or kaiwo status NAME -w",
    "watch": "kaiwo list -w",
}
"""What to type in place of a command that does not exist here."""

_CONTEXT = "--context NAME chooses cluster and user: kubectl config get-contexts"
_PODS = (
    "the pods of a workload end with their own grace period; kubectl delete pod NAME --now ends one at once"
)
_TABLES = "kubectl get kaiwojobs,kaiwoservices has it"

_OF_FILES = {
    "--force": "to delete and create anew: --replace",
    "--force-conflicts": "changed fields are taken over without it",
    "--recursive": "subdirectories are not read; name them beside the others",
    "--server-side": "every change is a server-side apply",
    "--validate": "everything is validated; --dry-run only checks",
    "-R": "subdirectories are not read; name them beside the others",
    "-k": "kubectl kustomize DIR | kaiwo submit -",
}

_OF_ALL = {
    "--as": "write as: NAME below a user of the kubeconfig, and choose its context with --context",
    "--cluster": _CONTEXT,
    "--server": _CONTEXT,
    "--token": _CONTEXT,
}

_OF_ONE: dict[str, dict[str, str]] = {
    "delete": {
        "--all": "kubectl delete kaiwojobs,kaiwoservices --all",
        "--cascade": "kubectl delete kaiwojob NAME --cascade=orphan",
        "--dry-run": "kaiwo status NAME shows what would go",
        "--force": _PODS,
        "--grace-period": _PODS,
        "--now": _PODS,
    },
    "list": {
        "--field-selector": "--status, --queue, --user and -l choose",
        "--no-headers": "-o name, or pipe into tail -n +2",
        "--show-labels": _TABLES,
        "--sort-by": _TABLES,
    },
    "logs": {
        "--limit-bytes": "pipe into head -c BYTES",
        "--pod": "kubectl logs POD",
        "--selector": "all pods of the workload are read",
        "--since-time": "--since 30m",
        "-l": "all pods of the workload are read",
    },
    "plan": _OF_FILES,
    "submit": _OF_FILES,
    "why": {"--watch": "kaiwo status NAME -w", "-w": "kaiwo status NAME -w"},
}


def equivalent_options(command: str) -> dict[str, str]:
    """What to do in place of options that kubectl has and a command has not."""
    return _OF_ALL | _OF_ONE.get(command, {})
