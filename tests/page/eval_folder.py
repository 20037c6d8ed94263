"""The folder of an evaluation that never ran. usage: eval_folder.py FOLDER PROMPTS ARMS [CLIP ...]: so many prompts with two
clips each, where 1,000 prompts are 2,000 clips of an arm; clips to copy, arm after arm."""
import json
import math
import os
import random
import shutil
import struct
import sys
import zlib

WIDTH, HEIGHT, FRAMES, PER_PROMPT = 128, 128, 17, 2
MADE = "mp4"  # or png: images
HOSTILE = ['</script><script>document.title = "taken"</script>', '<b>"bold"</b> & \'quoted\' ${x} `y`', 'a ball \u2028 \U0001f388 \u7ea2']


def picture(path, shade):
    row = b"\0" + bytes((shade + x) % 256 for x in range(WIDTH * 3))
    part = lambda kind, data: struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    with open(path, "wb") as f:
        f.write(b"\x89PNG\r\n\x1a\n" + part(b"IHDR", struct.pack(">IIBBBBB", WIDTH, HEIGHT, 8, 2, 0, 0, 0)) +
                part(b"IDAT", zlib.compress(row * HEIGHT)) + part(b"IEND", b""))


def score(mean, width):
    return {"mean": mean, "minimum": mean - width, "p5": mean - 0.8 * width}


def clip(rng, prompt, k, arm, names, texts):
    folder = f"arm{arm}"
    skill = 20 + 6 * math.sin(prompt * 12.9898) + rng.gauss(0, 0.5) + 3 * (len(names) - arm)
    density = 1 if arm == 0 else 0.6 - 0.1 * arm
    denoiser = (8 + math.sin(prompt)) * (0.4 + 0.6 * density) * rng.lognormvariate(0, 0.02)
    text = 0.3 if arm == 0 and k == 0 else 0
    line = {"version": 2, "arm": names[arm], "arm_index": arm, "prompt": prompt, "clip": k, "status": "done",
            "text": texts[prompt], "groups": ["motion"] if prompt % 3 else ["colour", "motion"], "seed": (1 << 60) + prompt + k,
            "width": WIDTH, "height": HEIGHT, "frames": FRAMES, "file": f"{folder}/p {prompt}%2f#?-{k}.mp4",
            "picture": f"frames/{folder}/p {prompt}%2f#?-{k}.png",
            "seconds": {"total": denoiser + 2 + text, "text": text, "denoise": denoiser, "decode": 2}, "density": density,
            "steps": 50, "skipped_steps": list(range(10, 10 + 8 * arm)),
            "flicker": 0.97 + 0.005 * arm + rng.gauss(0, 0.002), "sharpness": 120 - 4 * arm + rng.gauss(0, 3), "black": 0,
            "frozen": 0, "non_finite": 0}
    if MADE == "png":
        line |= {"frames": 1, "flicker": None, "file": line["file"].replace(".mp4", ".png")}
    if prompt % 2:
        line["image"] = {"file": "<u>first</u>.jpg", "hash": "0123456789abcdef", "picture": f"image/p {prompt}%2f#?-0.png"}
        line["fit"] = "crop"
    if prompt == 3:
        line["last_image"] = line["image"] | {"file": "last.png"}
    if prompt == 4:
        line |= {"video": {"file": "<u>from</u>.mp4", "hash": "0123456789abcdef"}, "strength": 0.5, "fit": "crop"}
    if arm:
        line |= {"psnr": score(skill, 3), "ssim": score(0.5 + skill / 80, 0.05), "ms_ssim": score(0.6 + skill / 100, 0.04)}
        if prompt == 5:
            line |= {"psnr": {"mean": None, "minimum": None, "p5": None}, "ssim": score(1, 0), "ms_ssim": score(1, 0)}
        if prompt == 6 and k == 0:
            line |= {"black": 3, "frozen": 2}
        if prompt == 7 and k == 1:
            for name in ("psnr", "ssim", "ms_ssim", "file", "picture", "density", "steps", "skipped_steps",
                         "flicker", "sharpness", "seconds"):
                del line[name]
            line |= {"status": "failed", "error": "a step gave NaN <i>here</i>\nand there"}
    return line


def main():
    global MADE
    folder, prompts, arms, *clips = sys.argv[1:]
    MADE = clips[0].rsplit(".", 1)[1] if clips else MADE
    prompts, arms = int(prompts), int(arms)
    names = ["dense", "sparge:topk=0.3", "sparge:tau=0.95:name=<i>three</i>"][:arms]
    texts = [HOSTILE[i] if i < len(HOSTILE) else f"a red ball bouncing past {i} boxes" for i in range(prompts)]
    rng = random.Random(1)
    os.makedirs(f"{folder}/image", exist_ok=True)
    for a in range(arms):
        os.makedirs(f"{folder}/arm{a}", exist_ok=True)
        os.makedirs(f"{folder}/frames/arm{a}", exist_ok=True)
    with open(f"{folder}/manifest.json", "w", encoding="utf-8") as f:
        json.dump({"format": "sparge-gen eval", "version": 1, "model": {"name": "tiny-wan", "hash": "0123"},
                   "command": "sparge-gen eval --prompts 'set <u>.csv' --output again", "prompts": {"file": "set <u>.csv", "count": prompts}, "per_prompt": PER_PROMPT, "fps": 16,
                   "arms": names}, f)
    with open(f"{folder}/results.jsonl", "w", encoding="utf-8") as f:
        for p in range(prompts):
            for k in range(PER_PROMPT):
                for a in range(arms):
                    line = clip(rng, p, k, a, names, texts)
                    f.write(json.dumps(line) + "\n")
                    if a < 2 and line["status"] == "done" and p != 1:
                        scored = {k: line[k] for k in ("version", "arm", "arm_index", "prompt", "clip", "text")}
                        f.write(json.dumps(scored | {"status": "scored", "clipsim": 0.25 - 0.01 * a + 0.001 * (p % 3),
                                                     "clip_t": 0.99, "clip_score": None, "cut_tokens": 0}) + "\n")
                    if "picture" in line:
                        picture(f"{folder}/{line['picture']}", (17 * p + 5 * k + 60 * a) % 256)
                    if "image" in line:
                        picture(f"{folder}/{line['image']['picture']}", 40 * p % 256)
                    if clips and "file" in line:
                        shutil.copy(clips[a % len(clips)], f"{folder}/{line['file']}")
        f.write('{"version":1,"arm":"torn')


if __name__ == "__main__":
    main()
