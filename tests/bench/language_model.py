"""A language model of Llama-3.1-8B's shape with random weights, and transformers' ways to read a text with it."""
import json
import os

import torch

SHAPE = {"hidden_size": 4096, "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": 128,
         "intermediate_size": 14336, "vocab_size": 128256}
SMALL = {"hidden_size": 128, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 32,
         "intermediate_size": 256, "vocab_size": 2048}


def config_of(shape):
    from transformers import LlamaConfig
    return LlamaConfig(**shape, max_position_embeddings=131072, rope_theta=500000.0, rms_norm_eps=1e-5, tie_word_embeddings=False,
                       bos_token_id=0, eos_token_id=0)


def make(folder, quick, device):
    """Writes weights of this shape, which the other side loads too, and the tokenizer of weights/tiny-language. A folder that
    is whole is kept."""
    import shutil
    from transformers import LlamaForCausalLM
    done = os.path.join(folder, "done")
    if os.path.exists(done):
        return
    os.makedirs(folder, exist_ok=True)
    torch.manual_seed(0)
    torch.set_default_dtype(torch.bfloat16)
    with torch.device(device):
        model = LlamaForCausalLM(config_of(SMALL if quick else SHAPE))
    torch.set_default_dtype(torch.float32)
    model.save_pretrained(folder)
    here = os.path.dirname(os.path.abspath(__file__))
    tokenizer = os.path.join(here, "..", "..", "weights", "tiny-language")
    for name in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copy(os.path.join(tokenizer, name), folder)
    with open(done, "w", encoding="utf-8") as f:
        json.dump(SMALL if quick else SHAPE, f)


def ways(folder, device, tokens):
    """Calls that read `tokens` random tokens, exactly, and make the last one's logits: by each of torch's kernels that can."""
    from torch.nn.attention import SDPBackend, sdpa_kernel
    from transformers import LlamaForCausalLM
    model = LlamaForCausalLM.from_pretrained(folder, dtype=torch.bfloat16, attn_implementation="sdpa").to(device).eval()
    ids = torch.randint(0, model.config.vocab_size, (1, tokens), device=device)
    kernels = {"cuDNN": SDPBackend.CUDNN_ATTENTION, "flash": SDPBackend.FLASH_ATTENTION} if device == "cuda" else {"math": None}

    def read(kernel):
        with torch.inference_mode():
            if kernel is None:
                return model(input_ids=ids, use_cache=True, logits_to_keep=1).logits
            with sdpa_kernel(kernel):
                return model(input_ids=ids, use_cache=True, logits_to_keep=1).logits
    return {f"transformers, {name}": lambda k=k: read(k) for name, k in kernels.items()}
