"""Handlers, one module for each family of APIs, and the registry of APIs that importing them fills."""

from tailrace.base.discovery import import_modules
from tailrace.server.api import APIS

__all__ = ["APIS"]

import_modules(__name__, __path__)
