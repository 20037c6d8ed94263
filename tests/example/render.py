"""A prompt becomes an MP4. usage: render.py "a red ball bouncing on green grass" ball.mp4"""
import sys

import sparge_gen

with sparge_gen.Engine() as engine:
    render = engine.stream(sys.argv[1], seed=1)
    for step in render:
        print(f"\r{step.stage} {step.done} of {step.total}   ", end="", file=sys.stderr)
    sparge_gen.save(sys.argv[2], render.frames, fps=engine.defaults.fps)
