"""One file per command, each with a function that ``main`` registers; heavy imports happen inside the functions."""
