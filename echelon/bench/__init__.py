"""Benchmark scenes: simulator, learner, league, dashboard and server, with timings as a tree."""
