"""The game for a browser: the launches of an engine as C++ (``program``), compiled to WebAssembly (``compile``).

``build`` writes the files of ``echelon web build``. No rule of the game is written twice: kernels are the C++ that Warp
generates for the CPU, and launches, argument structs and constants are those of an engine. Policies act by the native
operations of their programs (``policy``).
"""
