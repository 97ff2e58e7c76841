"""Background jobs: configuration layers, launch, supervisor, states, control files and worker processes."""
