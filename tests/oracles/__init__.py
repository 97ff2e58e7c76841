"""Plain-Python oracles: the rules that kernels are compared with."""
