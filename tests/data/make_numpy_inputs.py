"""Inputs of figures that depend on NumPy's random stream, for tests that cannot draw them.

Writes tile_max.npz beside this file: Q, K, V (512, 64) float64, standard normal, seed 0, as in the
published listing whose error tests/data/seed_figures.json states.
"""
import pathlib

import numpy as np

rng = np.random.default_rng(0)
q, k, v = (rng.standard_normal((512, 64)) for _ in range(3))
np.savez(pathlib.Path(__file__).with_name("tile_max.npz"), q=q[None], k=k[None], v=v[None])
