"""What the start of the download program does not load."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

PROGRAM = "kaiwo_storage_s3_gcs_azure_git_hf.download.main"


def test_pydantic_plugins_of_other_packages_are_not_searched_for(tmp_path: Path) -> None:
    """The search reads the metadata of every package, and would load code that no download needs."""
    info = tmp_path / "other-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: other\nVersion: 1.0\n", encoding="utf-8")
    (info / "entry_points.txt").write_text("[pydantic]\nother = other_plugin:plugin\n", encoding="utf-8")
    (tmp_path / "other_plugin.py").write_text("print('LOADED')\nplugin = None\n", encoding="utf-8")
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    environment.pop("PYDANTIC_DISABLE_PLUGINS", None)
    command = [sys.executable, "-c", f"import {PROGRAM}"]
    run = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    assert "LOADED" not in run.stdout


def test_the_http_client_is_loaded_with_the_first_request() -> None:
    """Starting takes no longer for it; a listing goes through the object store client."""
    code = f"import sys, {PROGRAM}; print('http.client' in sys.modules)"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert run.stdout.strip() == "False", run.stderr
