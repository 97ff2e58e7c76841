"""Sweeps: searches over configuration options, whose trials are ordinary training runs.

A sweep is a job that writes a journal, ``trials.jsonl``, before and after everything it does. Its state is the plan in
its spec and that journal; the next step is a pure function of both (``schedule``), so that a killed sweep continues
where it was and no trial is lost or doubled.
"""
