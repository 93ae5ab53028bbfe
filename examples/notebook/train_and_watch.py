"""A notebook as a script: run a command, follow it, and read what it wrote.

Each ``# %%`` starts a cell in editors that know them (VS Code, Spyder, Jupytext). Run it as a whole with::

    python train_and_watch.py registry.example.com/team/train:1.4
"""

# %%
from __future__ import annotations

import sys
from pathlib import Path

from kaiwo.client import Client
from kaiwo.client.errors import WorkloadFailed

image = sys.argv[1] if len(sys.argv) > 1 else "registry.example.com/team/train:1.4"
client = Client()
print(f"namespace {client.namespace}: {len(client.list())} workloads")

# %% Send the folder with the code, and a command. This returns as soon as the cluster has taken it.
code = Path(__file__).parent / "code"
started = client.run("python", "train.py", "--lr", "3e-4", folder=code, image=image, gpus=1)
print(f"{started.workload.label}: {started.shipped_files} files shipped")

# %% The same from a manifest; several learning rates at once.
sweep = [
    client.submit(
        {
            "kind": "KaiwoJob",
            "metadata": {"generateName": "sweep-"},
            "spec": {"image": image, "gpus": 1, "entrypoint": f"python -m train --lr {rate}"},
        }
    )[0].workload.name
    for rate in (1e-3, 1e-4)
]

# %% Wait for all; each change of state is printed on the way.
try:
    done = client.wait(
        started.workload.name,
        *sweep,
        timeout=3600,
        on_change=lambda workload: print(f"{workload.label}: {workload.status}"),
    )
    print(f"{len(done)} jobs are complete")
except WorkloadFailed as error:
    print(f"{error}; {error.next_step}")

# %% What they wrote.
for line in client.logs(started.workload.name, tail=20):
    print(line.text.decode(errors="replace"))

# %% Clean up.
client.delete(started.workload.name, *sweep)
client.close()
