"""Records of a run: events, the metrics log, snapshots folded from it, exports."""
