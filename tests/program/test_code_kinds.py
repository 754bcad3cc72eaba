"""code_kinds.py: which folders hold installed packages."""

from __future__ import annotations

import os
import site
from pathlib import Path

import pytest
import torch

from framejit.program import code_kinds


def test_packages_of_the_user_and_of_the_environment_are_installed():
    folders = [*site.getsitepackages(), site.getusersitepackages()]
    assert all(os.path.join(folder, "") in code_kinds.INSTALLED for folder in folders)


def test_what_is_installed_beside_torch_is_a_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """`pip install --target` puts packages into a folder that Python doesn't know as one for packages."""
    (tmp_path / "torch").mkdir()
    monkeypatch.setattr(torch, "__file__", str(tmp_path / "torch" / "__init__.py"))
    assert os.path.join(tmp_path, "") not in code_kinds.installed(), "a checkout of torch's sources"
    (tmp_path / "torch-2.13.0.dist-info").mkdir()
    assert os.path.join(tmp_path, "") in code_kinds.installed()
