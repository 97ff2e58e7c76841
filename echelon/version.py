"""Versions of the package and of the simulation."""

__version__ = "0.1.0"
SIM_VERSION = 2
"""Rules of the simulation: equal versions play equal matches from equal seeds and actions.

Raised with every change of the golden battles, which ``tests/laws/test_golden.py`` requires, or of action columns.
Files without it have 1.
"""
