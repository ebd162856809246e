"""The one native module, optional: where no compiler is found the pure-Python twin serves."""

from setuptools import Extension, setup

setup(
    ext_modules=[
        Extension(
            "runnel.records._native",
            ["src/runnel/records/_native.pyx"],
            depends=[
                f"src/runnel/records/{part}.pxi"
                for part in ("_pin", "_fill", "_scan", "_row", "_partition", "_tuple", "_compact")
            ],
            optional=True,
            extra_compile_args=["-O3"],
        )
    ]
)
