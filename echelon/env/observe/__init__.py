"""Observation writers: the column table, the program of kernels per layout, and the kernels, a file per block."""
