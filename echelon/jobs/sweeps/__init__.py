"""Sweeps: searches over configuration options and lists of variants, whose trials are ordinary training runs.

Optuna chooses options and measures their importance. A sweep is a job that writes a journal, ``trials.jsonl``, before
and after everything it does. The next step is a pure function of the plan in its spec and of that journal, so that a
killed sweep continues where it was and no trial is lost or doubled.
"""
