"""The loader of pipeline files: it runs a Python file as a module and collects its flows, or reads a YAML file."""

import importlib.util
import os
import sys
import traceback
from dataclasses import dataclass
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import CodeType, ModuleType

from tailrace.spark.error import PipelineError
from tailrace.spark.pipeline import yaml_file
from tailrace.spark.pipeline.flow import Flow, collect_flows

_NO_SESSION = "SESSION_OR_CONTEXT_NOT_EXISTS"


class NeedsSession(PipelineError):
    """The file needs a Spark session while it is loaded, for example to declare a column or a type."""


@dataclass(frozen=True, slots=True)
class Pipeline:
    """A pipeline file and its flows. A Python file is a module, too."""

    path: Path
    flows: tuple[Flow, ...]
    module: ModuleType | None = None


class _Script(SourceFileLoader):
    """Loads a file without bytecode, which Python would take for a file that was changed within the same second."""

    def get_code(self, fullname: str) -> CodeType:
        """Compile the file."""
        path = self.get_filename(fullname)
        return self.source_to_code(self.get_data(path), path)


def load_pipeline(path: Path) -> Pipeline:
    """Load a file and collect its flows; raises `PipelineError` with the line of the error.

    Most files load without Spark, so they are checked before it starts; others raise `NeedsSession`.
    """
    path = Path(os.path.abspath(path))  # links are not resolved, because a link has its own checkpoints
    if not path.is_file():
        raise PipelineError(f"{path}: there is no such file")
    if path.suffix in yaml_file.SUFFIXES:
        return Pipeline(path, yaml_file.load_flows(path))
    name = f"tailrace_pipeline_{path.stem}"
    loader = _Script(name, str(path)) if path.suffix == ".py" else None
    spec = importlib.util.spec_from_file_location(name, path, loader=loader)
    if spec is None or spec.loader is None:
        raise PipelineError(f"{path}: a pipeline is a Python or YAML file, and its name ends with .py or .yaml")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # functions that are sent to workers look up their module here
    if str(path.parent) not in sys.path:
        sys.path.insert(0, str(path.parent))  # as for a script, so that it can import modules beside it
    with collect_flows() as flows:
        try:
            spec.loader.exec_module(module)
        except SystemExit:
            raise PipelineError(f"{path.name}: the file exits instead of declaring flows") from None
        except Exception as error:
            kind = NeedsSession if _NO_SESSION in str(error) else PipelineError
            raise kind(f"{blame(path, error)}: {_describe(error)}") from None
    if not flows:
        raise PipelineError(f"{path.name}: the file declares no flows; declare one with @flow(source=…, sink=…)")
    return Pipeline(path, tuple(flows), module)


def blame(path: Path, error: BaseException) -> str:
    """Return the file and its last line in the traceback of an error."""
    if isinstance(error, SyntaxError) and error.filename == str(path):
        return f"{path.name}:{error.lineno}"
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == str(path)]
    return f"{path.name}:{lines[-1]}" if lines else path.name


def _describe(error: Exception) -> str:
    if isinstance(error, PipelineError):
        return str(error)
    text = error.msg if isinstance(error, SyntaxError) else str(error)
    return " ".join(f"{type(error).__name__}: {text}".split())
