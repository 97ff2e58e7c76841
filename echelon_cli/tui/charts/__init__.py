"""Charts: curve histories, axes, the shared viewport, and drawing on a canvas of terminal cells."""
