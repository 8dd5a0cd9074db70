"""The compiled part of the build; everything else is in pyproject.toml.

The codec is three Cython modules and one C file. Generated C goes to build/, never beside the sources.
PENSTOCK_SANITIZE=address,undefined builds it for the fuzz test (tests/parity/test_codec_fuzz.py).
"""

from __future__ import annotations

import os

from Cython.Build import cythonize
from setuptools import Extension, setup

CODEC = "src/penstock/codec"
NATIVE = f"{CODEC}/native"
SANITIZE = os.environ.get("PENSTOCK_SANITIZE")
COMPILE_ARGS = [f"-fsanitize={SANITIZE}", "-fno-omit-frame-pointer", "-O1", "-g"] if SANITIZE else ["-O3"]
LINK_ARGS = [f"-fsanitize={SANITIZE}"] if SANITIZE else []


def extension(name: str, *c_files: str) -> Extension:
    return Extension(
        f"penstock.codec.{name}",
        [f"{CODEC}/{name}.pyx", *(f"{NATIVE}/{c_file}" for c_file in c_files)],
        depends=[f"{CODEC}/_columns.pxd", f"{NATIVE}/wire.h", f"{NATIVE}/crc32c.h"],
        include_dirs=[NATIVE],
        extra_compile_args=COMPILE_ARGS,
        extra_link_args=LINK_ARGS,
    )


setup(
    ext_modules=cythonize(
        [extension("_columns"), extension("_decode", "crc32c.c"), extension("_encode", "crc32c.c")],
        include_path=["src"],
        build_dir="build/cython",
        compiler_directives={
            "language_level": 3,
            "boundscheck": False,
            "wraparound": False,
            "initializedcheck": False,
            "cdivision": True,
        },
    )
)
