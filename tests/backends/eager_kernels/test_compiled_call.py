"""Libraries of kernels for operators that are called eagerly."""

from __future__ import annotations

import ctypes
import pathlib
import shutil
import struct
import subprocess

import pytest

from framejit.backends.eager_kernels.compiled_call import ELF_HEADER, PT_GNU_STACK, clear_executable_stack

DATA = "\t.section\t.rodata\n\t.globl\tnumber\nnumber:\n\t.quad 7\n"
"""Assembler text that doesn't say whether it needs an executable stack, for which linkers therefore ask."""


def flags_of_stack(library: pathlib.Path) -> list[int]:
    data = library.read_bytes()
    start, size, count = ELF_HEADER.unpack(data[: ELF_HEADER.size])
    headers = [struct.unpack_from("<II", data, start + size * index) for index in range(count)]
    return [flags for kind, flags in headers if kind == PT_GNU_STACK]


@pytest.mark.skipif(shutil.which("g++") is None, reason="there is no compiler")
def test_a_library_of_constants_asks_for_no_executable_stack(tmp_path: pathlib.Path) -> None:
    source, library = tmp_path / "data.S", tmp_path / "data.so"
    source.write_text(DATA)
    subprocess.run(["g++", "-shared", "-o", library, source], check=True, capture_output=True)
    assert flags_of_stack(library) == [7]
    before = library.read_bytes()
    clear_executable_stack(str(library))
    assert flags_of_stack(library) == [6] and sum(one != other for one, other in zip(library.read_bytes(), before)) == 1
    assert ctypes.c_long.in_dll(ctypes.CDLL(str(library)), "number").value == 7
    after = library.read_bytes()
    clear_executable_stack(str(library))
    assert library.read_bytes() == after


@pytest.mark.parametrize("contents", [b"", b"!<arch>\n", b"\x7fELF\x01\x01" + bytes(80)])
def test_files_of_other_formats_stay(tmp_path: pathlib.Path, contents: bytes) -> None:
    file = tmp_path / "other.so"
    file.write_bytes(contents)
    clear_executable_stack(str(file))
    assert file.read_bytes() == contents
