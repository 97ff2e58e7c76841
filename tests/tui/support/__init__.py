"""Helpers of the dashboard tests: canned runs, terminals and captures."""
