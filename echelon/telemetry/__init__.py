"""Records of a run: events, the metrics log, snapshots built from it, exports."""
