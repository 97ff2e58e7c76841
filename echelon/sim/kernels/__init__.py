"""The kernels of a tick, a module per physical idea; ``echelon.sim.step`` says in which order they run."""
