"""Observation writers: kernels by block of ``echelon.env.layout``, and the program that launches them."""
