"""The one native module, optional: without a compiler the package uses the same functions in Python.

A wheel that was built without the module says so in its name (py3-none-any). Otherwise an installer would take it for
the native wheel of its platform.
"""

from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.bdist_wheel import bdist_wheel

NATIVE = "tailrace.records._native"


class WheelOfWhatWasBuilt(bdist_wheel):
    """Builds the wheel, and tags it by whether the native module is in it."""

    def run(self) -> None:
        self.run_command("build")
        extensions = self.get_finalized_command("build_ext")
        if not Path(extensions.get_ext_fullpath(NATIVE)).exists():
            self.distribution.ext_modules = []
            self.root_is_pure = True
        super().run()


setup(
    cmdclass={"bdist_wheel": WheelOfWhatWasBuilt},
    ext_modules=[
        Extension(
            NATIVE,
            ["src/tailrace/records/_native.pyx"],
            depends=[
                f"src/tailrace/records/{part}.pxi"
                for part in (
                    "_pin",
                    "_fill",
                    "_scan",
                    "_schema_id",
                    "_row",
                    "_partition",
                    "_tuple",
                    "_compact",
                    "_avro",
                    "_avro_write",
                )
            ],
            optional=True,
            extra_compile_args=["-O3"],
        )
    ],
)
