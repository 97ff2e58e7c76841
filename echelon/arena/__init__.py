"""The league: entries, ratings, matchmaking, matches and their results, stored in ``league.db``.

Imports nothing, so that the dashboard and the server read the league without loading the simulator.
"""
