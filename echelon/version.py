"""Versions of the package and of the simulation."""

__version__ = "0.1.0"
SIM_VERSION = 1
"""Rules of the simulation: equal versions play equal matches from equal seeds and actions.

Raised with every change of the golden battles; ``tests/laws/test_golden.py`` requires it. Files without it have 1.
"""
