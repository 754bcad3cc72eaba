"""The finders that are in force while the compiler is imported, beside the import system's own."""

from __future__ import annotations

import importlib
import sys
from importlib.machinery import PathFinder

import framejit
from framejit.library import files_in
from framejit.process import own_files


def fields(spec):
    return spec.name, spec.origin, spec.cached, spec.submodule_search_locations, spec.has_location, type(spec.loader)


def test_modules_are_found_where_the_import_system_finds_them():
    names = [*files_in("framejit.graph"), *files_in("framejit.process"), "framejit.graph", "framejit.library.torch", "framejit._runtime", "framejit.absent"]
    paths = {name: importlib.import_module(name.rpartition(".")[0]).__path__ for name in names}
    expected = {name: PathFinder.find_spec(name, paths[name]) for name in names}
    assert expected["framejit.absent"] is None
    with own_files.found_at_once():
        assert all(type(sys.path_importer_cache[path[0]]) is own_files.Folder for path in paths.values())
        found = {name: PathFinder.find_spec(name, paths[name]) for name in names}
    assert {name: spec and fields(spec) for name, spec in found.items()} == {name: spec and fields(spec) for name, spec in expected.items()}
    assert not any(type(finder) is own_files.Folder for finder in sys.path_importer_cache.values())


def test_a_folder_without_a_file_of_its_own_is_no_package(tmp_path):
    (tmp_path / "plain").mkdir()
    (tmp_path / "file").write_text("")
    (tmp_path / "__init__.py").write_text("")
    found: dict[str, own_files.Folder] = {}
    assert own_files.read(str(tmp_path), found) and not own_files.read(str(tmp_path / "absent"), found)
    assert not found[str(tmp_path)].packages and found[str(tmp_path)].find_spec("some.plain").loader is None


def test_what_others_put_into_the_cache_meanwhile_stays(monkeypatch):
    monkeypatch.setattr(sys, "path_importer_cache", dict(sys.path_importer_cache))
    path = framejit.__path__[0]
    with own_files.found_at_once():
        sys.path_importer_cache[path] = None
    assert sys.path_importer_cache[path] is None
