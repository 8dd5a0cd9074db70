"""Build the compiled parts. Everything else is in pyproject.toml.

The codec is a few Cython modules and one C file. The formats' decoders and encoders are C files under two
Cython modules. The state has two Cython modules, for hashes and for sorting. Generated C goes to build/,
never beside the sources. All of it uses the limited API of CPython 3.11 (abi3), so one wheel serves 3.11 and
later. PENSTOCK_SANITIZE=address,undefined builds for the fuzz test (tests/parity/test_codec_fuzz.py).
PENSTOCK_OPTIMIZE=-O0 builds quickly, for a test of the wheel.
"""

from __future__ import annotations

import os
from pathlib import Path

from Cython.Build import cythonize
from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

CODEC = "src/penstock/codec"
NATIVE = f"{CODEC}/native"
PXDS = ("_batch", "_columns", "_memory", "_record", "_record_columns", "_rows")
SANITIZE = os.environ.get("PENSTOCK_SANITIZE")
OPTIMIZE = os.environ.get("PENSTOCK_OPTIMIZE", "-O3")
COMPILE_ARGS = [f"-fsanitize={SANITIZE}", "-fno-omit-frame-pointer", "-O1", "-g1"] if SANITIZE else [OPTIMIZE]
LINK_ARGS = [f"-fsanitize={SANITIZE}"] if SANITIZE else []
LIMITED_API = {"py_limited_api": True, "define_macros": [("Py_LIMITED_API", "0x030B0000")]}


class BuildForAllVersions(build_ext):
    def run(self) -> None:
        """Remove what was built for one version of Python: Python would load that, and not the new module."""
        super().run()
        for each in self.extensions:
            built = Path(self.get_ext_fullpath(each.name))
            for older in built.parent.glob(f"{built.name.partition('.')[0]}.cpython-*"):
                older.unlink()


def extension(name: str, *c_files: str) -> Extension:
    return Extension(
        f"penstock.codec.{name}",
        [f"{CODEC}/{name}.pyx", *(f"{NATIVE}/{c_file}" for c_file in c_files)],
        depends=[
            *(f"{CODEC}/{pxd}.pxd" for pxd in PXDS),
            *(f"{NATIVE}/{header}.h" for header in ("wire", "record_batch", "crc32c", "digest")),
        ],
        include_dirs=[NATIVE],
        extra_compile_args=COMPILE_ARGS,
        extra_link_args=LINK_ARGS,
        **LIMITED_API,
    )


FORMATS = "src/penstock/formats"
FORMATS_NATIVE = f"{FORMATS}/native"


def formats_extension(name: str, *c_files: str) -> Extension:
    return Extension(
        f"penstock.formats.{name}",
        [f"{FORMATS}/{name}.pyx", *(f"{FORMATS_NATIVE}/{c_file}" for c_file in c_files)],
        depends=[
            f"{FORMATS_NATIVE}/{header}.h"
            for header in (
                *("blocks", "columns", "text", "decode", "encode", "json_scan", "csv", "avro"),
                *("protobuf", "protobuf_wire"),
            )
        ],
        include_dirs=[FORMATS_NATIVE],
        extra_compile_args=COMPILE_ARGS,
        extra_link_args=LINK_ARGS,
        **LIMITED_API,
    )


STATE = "src/penstock/state"


def state_extension(name: str) -> Extension:
    return Extension(
        f"penstock.state.{name}",
        [f"{STATE}/{name}.pyx"],
        depends=[f"{STATE}/native/{header}.h" for header in ("murmur3", "murmur3_32")],
        include_dirs=[f"{STATE}/native"],
        extra_compile_args=COMPILE_ARGS,
        extra_link_args=LINK_ARGS,
        **LIMITED_API,
    )


setup(
    cmdclass={"build_ext": BuildForAllVersions},
    options={"bdist_wheel": {"py_limited_api": "cp311"}},
    ext_modules=cythonize(
        [
            extension("_memory"),
            extension("_columns"),
            extension("_rows"),
            extension("_record_columns"),
            extension("_partitioning"),
            extension("_digest"),
            extension("_headers"),
            extension("_decode", "crc32c.c"),
            extension("_encode", "crc32c.c"),
            formats_extension(
                "_native",
                "blocks.c",
                "columns.c",
                "text.c",
                "decode.c",
                "json_decode.c",
                "csv_decode.c",
                "avro_decode.c",
                "protobuf_decode.c",
            ),
            formats_extension(
                "_native_encode",
                "text.c",
                "blocks.c",
                "columns.c",
                "encode.c",
                "json_encode.c",
                "csv_encode.c",
                "avro_encode.c",
                "protobuf_encode.c",
            ),
            state_extension("_hash"),
            state_extension("_order"),
        ],
        include_path=["src"],
        build_dir="build/cython",
        compiler_directives={
            "language_level": 3,
            "boundscheck": False,
            "wraparound": False,
            "initializedcheck": False,
            "cdivision": True,
        },
    ),
)
