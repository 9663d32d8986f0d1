"""Importing what stays as long as the process: the garbage collector need not look at it."""

import gc
import sys
from importlib import import_module
from types import ModuleType


def lasting_import(name: str) -> ModuleType:
    """Import a module, and spare the collector all objects that are there afterwards.

    The classes of pydantic and of providers' libraries are half a million objects. Going through
    them while they are made, and again with each full collection, took a fifth of a run's CPU.
    """
    if name in sys.modules:
        return import_module(name)
    enabled = gc.isenabled()
    gc.disable()
    try:
        return import_module(name)
    finally:
        gc.freeze()
        if enabled:
            gc.enable()
