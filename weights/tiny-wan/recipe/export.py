"""Checkpoints to a Diffusers WanPipeline folder: bf16, shards of at most 12 MiB, no path of the machine in any file.

start goes the other way: a folder to checkpoints, to train on from.
"""
import json
import shutil
from pathlib import Path

import torch
from diffusers import UniPCMultistepScheduler
from safetensors.torch import load_file
from transformers import AutoTokenizer

import captions
import denoiser
import factors
import onepass
from runtime import load, parser, save

SHARD = 12 * 2 ** 20
DEFAULTS = dict(width=256, height=256, frames=33, fps=16, steps=12, cfg_scale=3.0, negative_prompt="",
                fast_lora="fast.safetensors", fast_preset="lightx2v", image_lora="image.safetensors")
PIPELINE = {
    "_class_name": "WanPipeline", "_diffusers_version": "0.42.1", "boundary_ratio": None, "expand_timesteps": True,
    "scheduler": ["diffusers", "UniPCMultistepScheduler"], "text_encoder": ["transformers", "UMT5EncoderModel"],
    "tokenizer": ["transformers", "T5TokenizerFast"], "transformer": ["diffusers", "WanTransformer3DModel"],
    "transformer_2": [None, None], "vae": ["diffusers", "AutoencoderKLWan"]}


def write_json(path, value):
    path.write_text(json.dumps(value, indent=2, ensure_ascii=False) + "\n")


def export_tokenizer(spiece, folder):
    """tokenizer.json is made from spiece.model by AutoTokenizer: the class itself would build an empty vocabulary."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    shutil.copyfile(spiece, folder / "spiece.model")
    # No <extra_id_*>: their ids would lie beyond the embedding table.
    write_json(folder / "tokenizer_config.json", dict(
        tokenizer_class="T5Tokenizer", pad_token="<pad>", eos_token="</s>", unk_token="<unk>", extra_ids=0,
        additional_special_tokens=[], model_max_length=512, clean_up_tokenization_spaces=False))
    tokenizer = AutoTokenizer.from_pretrained(folder)
    tokenizer.backend_tokenizer.save(str(folder / "tokenizer.json"))


def start(folder, work):
    """What the tokenizer, vae and denoiser stages would have left in the work folder for this model folder."""
    work.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(folder / "tokenizer" / "spiece.model", work / "spiece.model")
    part = lambda name: {k: v for path in (folder / name).glob("*.safetensors") for k, v in load_file(path).items()}
    config = json.loads((folder / "vae" / "config.json").read_text())
    save(work / "vae.pt", dict(weights=part("vae"), mean=torch.tensor(config["latents_mean"]),
                               std=torch.tensor(config["latents_std"])))
    weights = {f"{name}.{k}": v for name in ("transformer", "text_encoder") for k, v in part(name).items()}
    weights["text_encoder.encoder.embed_tokens.weight"] = weights["text_encoder.shared.weight"]   # a folder has it once
    save(work / "denoiser.pt", weights)


def main():
    args = parser(__doc__, folder=("..", "where the model folder goes"), layers=(6, "of the denoiser")).parse_args()
    folder = Path(args.folder)
    folder.mkdir(parents=True, exist_ok=True)
    vae_state, state = load(args.work / "vae.pt"), load(args.work / "denoiser.pt")
    export_tokenizer(args.work / "spiece.model", folder / "tokenizer")

    vae = onepass.new_vae()
    vae.load_state_dict(vae_state["weights"])
    vae.register_to_config(latents_mean=vae_state["mean"].tolist(), latents_std=vae_state["std"].tolist())
    part = lambda name: {k[len(name) + 1:]: v for k, v in state.items() if k.startswith(name + ".")}
    transformer = denoiser.new_denoiser(vae.config.z_dim, layers=args.layers)
    transformer.load_state_dict(part("transformer"))
    text_encoder = denoiser.new_text_encoder(part("text_encoder")["shared.weight"].shape[0])
    text_encoder.load_state_dict(part("text_encoder"))
    scheduler = UniPCMultistepScheduler(prediction_type="flow_prediction", use_flow_sigmas=True,
                                        num_train_timesteps=1000, flow_shift=5.0)
    for name, module in (("vae", vae), ("transformer", transformer), ("text_encoder", text_encoder)):
        shutil.rmtree(folder / name, ignore_errors=True)
        module.to(torch.bfloat16).save_pretrained(folder / name, max_shard_size=SHARD)
    scheduler.save_pretrained(folder / "scheduler")
    for name in ("fast.safetensors", "image.safetensors"):
        if (args.work / name).exists():
            shutil.copyfile(args.work / name, folder / name)
    write_json(folder / "model_index.json", PIPELINE)
    write_json(folder / "sparge-gen.json", dict(DEFAULTS, world=captions.world(), vocabulary=captions.known(),
                                                **factors.fit(vae)))
    for path in sorted(folder.glob("*/*.safetensors")):
        assert path.stat().st_size <= SHARD, path


if __name__ == "__main__":
    main()
