"""Hand-written faults in kernels, and the proof that the oracles' tests catch each of them.

``python -m tests.kernel_mutants.runner`` runs all; a kernel's file holds the faults and the tests that must catch them.
"""
