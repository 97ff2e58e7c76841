"""The kernels of a tick, a module per physical idea; ``echelon.sim.step`` has their order."""
