"""Renders with dense and with sparse attention from the same noise. usage: compare.py "a red ball" compare.mp4"""
import sys

import numpy as np
import sparge_gen

with sparge_gen.Engine() as engine:
    dense = engine.render(sys.argv[1], attention="dense", seed=1)
    dense_seconds = engine.report.total_seconds
    sparse = engine.render(sys.argv[1], attention="sparge", topk=0.3, seed=1)
    counts = engine.report.attention
    print(f"dense {dense_seconds:.1f} s, sparse {engine.report.total_seconds:.1f} s, "
          f"{100 * counts['kept'].sum() / counts['blocks'].sum():.0f} % of the blocks")
    error = ((dense.astype(float) - sparse) ** 2).mean()
    print(f"PSNR {10 * np.log10(255 ** 2 / error):.1f} dB")
    sparge_gen.save(sys.argv[2], np.concatenate([dense, sparse], axis=2), fps=engine.defaults.fps)
