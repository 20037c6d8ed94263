#!/usr/bin/env python3
"""Writes sampler_table.h: what diffusers' schedulers give for a made-up model of one number.

    python tests/unit/make_sampler_table.py > tests/unit/sampler_table.h

The model is v(i, x) = 0.3 x + sin(1.7 i + 0.4), the sample starts at 1.2; what FlowMatchLCM draws in step i is cos(2.3 i).
UniPC steps in float64, over the sigmas that it has rounded to float32; the others in float32, which they do whatever they
are given. CogVideoX's step in float64; of DPM's two draws in a step cos(2.3 i) is the second. EulerAncestralDiscrete computes in
float64 what it would in float32, and its samples are those that the model is given. Versions:
tests/golden/requirements.txt.
"""
import math
import textwrap
from unittest import mock

import numpy as np
import torch
from diffusers import (CogVideoXDDIMScheduler, CogVideoXDPMScheduler, EulerAncestralDiscreteScheduler,
                       FlowMatchEulerDiscreteScheduler, FlowMatchLCMScheduler, UniPCMultistepScheduler)
from diffusers.pipelines.flux.pipeline_flux import calculate_shift
from diffusers.pipelines.mochi.pipeline_mochi import linear_quadratic_schedule
from diffusers.schedulers import (scheduling_dpm_cogvideox, scheduling_euler_ancestral_discrete,
                                  scheduling_flow_match_lcm)

STEPS = (1, 2, 3, 5, 8, 12, 50)
SHIFTS = (1.0, 3.0, 5.0, 8.0)
LISTS = ((1, .9375, 2.5 / 3, .625), (1, .757, .522), (80 / 81, .933781061416858, .852895394823775, .608979049230431),
         (.4,), (1, .5, .25, .125, .0625))

BETAS_STEPS = (1, 2, 3, 6, 7, 48)
BETAS_SHIFTS = (1.0, 3.0)
MOCHI_STEPS = (2, 3, 4, 7, 64)
MOCHI_SHIFTS = (1.0, 3.0)
FLUX_STEPS = (1, 4, 28)
FLUX_TOKENS = (0, 64, 4096, 16384)  # 0: no dynamic shift, but a shift of 3
ANCESTRAL = (("linear", "trailing", "v_prediction", True), ("linear", "leading", "epsilon", False),
             ("scaled_linear", "trailing", "epsilon", False), ("scaled_linear", "leading", "v_prediction", True))
ANCESTRAL_STEPS = (1, 2, 7, 50, 100)
COUNTED = (61, 96, 103, 112, 201, 333, 500, 999, 1000)


def unipc(shift, steps, order=2):
    s = UniPCMultistepScheduler(prediction_type="flow_prediction", use_flow_sigmas=True, flow_shift=shift,
                                solver_order=order)
    s.set_timesteps(steps)
    return s, torch.float64


def unipc_old(shift, steps):
    """The grid of diffusers before 0.37."""
    s, dtype = unipc(shift, steps)
    base = 1.0 - np.linspace(1, 1 / 1000, steps + 1)
    sigmas = np.flip(shift * base / (1 + (shift - 1) * base))[:-1].copy()
    s.timesteps = torch.from_numpy((sigmas * 1000).astype(np.int64))
    s.sigmas = torch.from_numpy(np.concatenate([sigmas, [0]]).astype(np.float32))
    return s, dtype


def unipc_order_1(shift, steps):
    return unipc(shift, steps, 1)


def euler(shift, steps):
    s = FlowMatchEulerDiscreteScheduler(shift=shift)
    s.set_timesteps(steps)
    return s, torch.float32


def lcm(shift, steps):
    s = FlowMatchLCMScheduler(shift=shift)
    s.set_timesteps(steps)
    return s, torch.float32


def listed(scheduler, sigmas):
    s = scheduler(shift=1.0)
    s.set_timesteps(len(sigmas), sigmas=list(sigmas))
    return s, torch.float32


def flux(tokens, steps):
    """As FluxPipeline has it."""
    s = FlowMatchEulerDiscreteScheduler(shift=3.0, use_dynamic_shifting=tokens > 0)
    s.set_timesteps(sigmas=np.linspace(1.0, 1 / steps, steps), mu=calculate_shift(tokens))
    return s, torch.float32


def trajectory(s, dtype):
    s.sigmas = s.sigmas.to(dtype)
    s.set_begin_index(0)
    x = torch.full((1, 1), 1.2, dtype=dtype)
    out = []
    for i, t in enumerate(s.timesteps):
        scheduling_flow_match_lcm.randn_tensor = lambda shape, **_: torch.full(shape, math.cos(2.3 * i), dtype=dtype)
        x = s.step(0.3 * x + math.sin(1.7 * i + 0.4), t, x, return_dict=False)[0]
        out.append(x.item())
    return out


def mochi(shift, steps):
    s = FlowMatchEulerDiscreteScheduler(shift=shift, invert_sigmas=True)
    s.set_timesteps(sigmas=linear_quadratic_schedule(steps, 0.025))
    return s, torch.float32


def betas(scheduler, shift, zero_snr, steps):
    s = scheduler(prediction_type="v_prediction", timestep_spacing="trailing", snr_shift_scale=shift,
                  rescale_betas_zero_snr=zero_snr)
    s.set_timesteps(steps)
    return s


def show(name, texts):
    print(f"static const double {name}[] = {{")
    print(textwrap.fill(", ".join(texts) + ",", 120, initial_indent="    ", subsequent_indent="    ",
                        break_on_hyphens=False))
    print("};\n")


def betas_trajectory(s):
    """The sample after each step, and how often normals were drawn."""
    x, old, draws, out = torch.full((1, 1), 1.2, dtype=torch.float64), None, 0, []
    for i, t in enumerate(s.timesteps.tolist()):
        v = 0.3 * x + math.sin(1.7 * i + 0.4)
        if isinstance(s, CogVideoXDDIMScheduler):
            x = s.step(v, t, x, return_dict=False)[0]
        else:
            drawn = []

            def draw(shape, **_):
                two = old is not None and t >= 1000 // len(s.timesteps)
                drawn.append(9.0 if two and not drawn else math.cos(2.3 * i))
                return torch.full(shape, drawn[-1], dtype=torch.float64)

            scheduling_dpm_cogvideox.randn_tensor = draw
            x, old = s.step(v, old, t, s.timesteps[i - 1].item() if i else None, x, return_dict=False)
            draws += len(drawn)
        out.append(x.item())
    return out, draws


def ancestral(schedule, spacing, prediction, zero_snr, steps):
    """The timesteps, the first sample for noise of 1.2, the sample after each step; and in float32, as diffusers has it."""
    module, runs = scheduling_euler_ancestral_discrete, []
    for dtype in torch.float32, torch.float64:
        with mock.patch.object(torch, "float32", dtype):
            s = EulerAncestralDiscreteScheduler(beta_schedule=schedule, timestep_spacing=spacing, steps_offset=1,
                                                prediction_type=prediction, rescale_betas_zero_snr=zero_snr)
            s.set_timesteps(steps)
            s.sigmas = s.sigmas.to(dtype)
            x = torch.full((1, 1), 1.2, dtype=dtype) * s.init_noise_sigma
            out = []
            for i, t in enumerate(s.timesteps):
                given = s.scale_model_input(x, t)
                out.append(given.item())
                with mock.patch.object(module, "randn_tensor",
                                       lambda shape, **_: torch.full(shape, math.cos(2.3 * i), dtype=dtype)):
                    x = s.step(0.3 * given + math.sin(1.7 * i + 0.4), t, x, return_dict=False)[0]
            runs.append(out + [x.item()])
    # In one or two steps sigmas of thousands leave few digits of the clean sample in float32.
    assert steps < 3 or all(abs(a - b) < 1e-5 * max(1, abs(b)) for a, b in zip(*runs)), runs
    return [format(t, "g") for t in s.timesteps.tolist()] + [format(v, ".10g") for v in runs[1]]


def betas_case(s):
    out, draws = betas_trajectory(s)
    return [format(v, ".10g") for v in out] + [str(draws)]


def counted(steps):
    """The first `steps` timesteps in one number: for some counts diffusers has one more."""
    t = betas(CogVideoXDDIMScheduler, 1.0, True, steps).timesteps.tolist()[:steps]
    return sum((i + 1) * v for i, v in enumerate(t))


def case(s, dtype, schedule=True):
    texts = [format(v, ".9g") for v in s.sigmas.tolist()[:-1] + s.timesteps.tolist()] if schedule else []
    return texts + [format(v, ".10g") for v in trajectory(s, dtype)]


def main():
    texts = []
    for make in unipc, unipc_order_1, unipc_old, euler, lcm:
        for shift in SHIFTS:
            for steps in STEPS:
                texts += case(*make(shift, steps), make not in (unipc_order_1, lcm))
    for scheduler in FlowMatchEulerDiscreteScheduler, FlowMatchLCMScheduler:
        for sigmas in LISTS:
            texts += case(*listed(scheduler, sigmas), scheduler is FlowMatchEulerDiscreteScheduler)
    print("/* sampler_table.h - made by make_sampler_table.py, which tells the model and the start. */")
    print("#ifndef SG_SAMPLER_TABLE_H\n#define SG_SAMPLER_TABLE_H\n")
    print(f"static const int    table_steps[] = {{{', '.join(map(str, STEPS))}}};")
    print(f"static const double table_shift[] = {{{', '.join(map(str, SHIFTS))}}};")
    print("static const sg_sigmas table_list[] = {")
    for sigmas in LISTS:
        print(f"    {{{len(sigmas)}, {{{', '.join(map(repr, sigmas))}}}}},")
    print("};\n")
    print("/* UniPC, UniPC of order 1, UniPC over the old grid, FlowMatchEuler, FlowMatchLCM; in each the shifts; in each")
    print(" * shift the steps: the sigmas without the last (0), the timesteps, the sample after each step. Then FlowMatchEuler")
    print(" * and FlowMatchLCM; in each the lists. UniPC of order 1 and FlowMatchLCM have the sigmas and timesteps of the one")
    print(" * before them, and only samples here. */")
    show("table_numbers", texts)
    print(f"static const int    betas_steps[] = {{{', '.join(map(str, BETAS_STEPS))}}};")
    print(f"static const double betas_shift[] = {{{', '.join(map(str, BETAS_SHIFTS))}}};\n")
    print("/* The timesteps of each of the steps, whatever the scheduler. */")
    times, texts = [], []
    for steps in BETAS_STEPS:
        of = [betas(scheduler, shift, zero_snr, steps).timesteps.tolist() for zero_snr in (False, True)
              for shift in BETAS_SHIFTS for scheduler in (CogVideoXDDIMScheduler, CogVideoXDPMScheduler)]
        assert all(t == of[0] for t in of)
        times += [str(t) for t in of[0]]
    show("betas_timesteps", times)
    print("/* CogVideoXDDIM, CogVideoXDPM; in each the shifts; in each without, with a last alpha of zero; in each the steps:")
    print(" * the sample after each step, how often normals were drawn. */")
    for scheduler in CogVideoXDDIMScheduler, CogVideoXDPMScheduler:
        for shift in BETAS_SHIFTS:
            for zero_snr in False, True:
                for steps in BETAS_STEPS:
                    texts += betas_case(betas(scheduler, shift, zero_snr, steps))
    show("betas_numbers", texts)
    print(f"static const int    mochi_steps[] = {{{', '.join(map(str, MOCHI_STEPS))}}};")
    print(f"static const double mochi_shift[] = {{{', '.join(map(str, MOCHI_SHIFTS))}}};\n")
    print("/* Mochi's FlowMatchEuler: the shifts; in each the steps: as above, but that sigmas are inverted, as diffusers has them. */")
    show("mochi_numbers", [t for shift in MOCHI_SHIFTS for steps in MOCHI_STEPS for t in case(*mochi(shift, steps))])
    print(f"static const int flux_steps[] = {{{', '.join(map(str, FLUX_STEPS))}}};")
    print(f"static const int flux_tokens[] = {{{', '.join(map(str, FLUX_TOKENS))}}};\n")
    print("/* Flux's FlowMatchEuler: the tokens, 0 for a shift of 3 that does not go by them; in each the steps: as table_numbers. */")
    show("flux_numbers", [t for tokens in FLUX_TOKENS for steps in FLUX_STEPS for t in case(*flux(tokens, steps))])
    print(f"static const int ancestral_steps[] = {{{', '.join(map(str, ANCESTRAL_STEPS))}}};\n")
    print("/* EulerAncestralDiscrete: linear, trailing, v, a last alpha of zero; linear, leading, epsilon, without;")
    print(" * scaled_linear, trailing, epsilon, without; scaled_linear, leading, v, with. In each the steps: the timesteps, the")
    print(" * sample before the first step and after each. */")
    show("ancestral_numbers", [t for of in ANCESTRAL for steps in ANCESTRAL_STEPS for t in ancestral(*of, steps)])
    print("/* Steps, and the sum of their timesteps, each times its number. */")
    print("static const int betas_counted[][2] = {")
    print("".join(f"    {{{n}, {counted(n)}}},\n" for n in COUNTED) + "};\n\n#endif")


if __name__ == "__main__":
    main()
