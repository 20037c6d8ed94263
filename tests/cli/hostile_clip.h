/* hostile_clip.h - the cases of hostile.c for CLIP as a judge: a folder of CLIPModel that must be refused. */
/* clang-format off */
#define CONFIG "config.json"
#define PREPARED "preprocessor_config.json"
#define WEIGHTS "model.safetensors"

/* ---- config ---- */
ABSURD(CONFIG, "projection_dim")
BAD("no config", gone, CONFIG, NULL, NULL, "--clip: |" CONFIG ": cannot be opened")
AT("a config of texts alone", set, CONFIG, "model_type", "\"clip_text_model\"", "model_type: ")
AT("no model_type", set, CONFIG, "model_type", NULL, "model_type: ")
AT("texts that are a number", set, CONFIG, "text_config", "3", "text_config: should be an object")
AT("old pictures that are a list", set, CONFIG, "vision_config_dict", "[1]", "vision_config_dict: should be an object")
AT("no width", swap, CONFIG, "\"hidden_size\": 16", "\"hidden_size\": 0", "text_config: hidden_size: should be a ")
AT("heads that do not divide", swap, CONFIG, "\"num_attention_heads\": 2", "\"num_attention_heads\": 3",
    "text_config: num_attention_heads: 3 does not divide")
AT("another activation", swap, CONFIG, "\"quick_gelu\"", "\"relu\"", "text_config: hidden_act: ")
AT("patches larger than the picture", set, CONFIG, "vision_config_dict", "{\"patch_size\": 64}", "vision_config: patch_size: ")
AT("a million patches", set, CONFIG, "vision_config_dict", "{\"image_size\": 4096, \"patch_size\": 1}",
    "vision_config: patch_size: ")
BAD("2000 layers", set, CONFIG, "vision_config_dict", "{\"num_hidden_layers\": 2000}", "num_hidden_layers: 2000, but the weights are")
BAD("the published sizes", set, CONFIG, "text_config", "{}", "missing|misshapen: text_model.embeddings.token_embedding.weight")
BAD("another projection", set, CONFIG, "projection_dim", "11", "misshapen: text_projection.weight is [12, 16], should be [11, 16]")
BAD("a layer more", set, CONFIG, "vision_config_dict", "{\"num_hidden_layers\": 3}", "missing: vision_model.encoder.layers.2.")
BAD("a layer less", set, CONFIG, "vision_config_dict", "{\"num_hidden_layers\": 1}", "extra: vision_model.encoder.layers.1.")

/* ---- weights ---- */
BAD("no weights", gone, WEIGHTS, NULL, NULL, WEIGHTS)
BAD("cut weights", cut, WEIGHTS, NULL, "-9", WEIGHTS)
BAD("no header", size, WEIGHTS, NULL, "4", WEIGHTS)
BAD("no norm at the end", swap, WEIGHTS, "vision_model.post_layernorm.bias", "vision_model.post_layernorm.base",
    "missing: vision_model.post_layernorm.bias")
BAD("no projection", swap, WEIGHTS, "visual_projection.weight", "visuel_projection.weight", "extra: visuel_projection.weight")
BAD("a number that is none", poke, WEIGHTS, "text_projection.weight", "nan", "text_projection.weight")
BAD("no number at all", poison, WEIGHTS, NULL, NULL, "/m: |\"text_model.embeddings.token_embedding.weight\"|token 0 is not finite")
GOOD("weights at odd bytes", shift, WEIGHTS, NULL, NULL)

/* ---- tokenizer, preparation ---- */
BAD("no vocabulary", gone, "vocab.json", NULL, NULL, "vocab.json")
BAD("no merges", gone, "merges.txt", NULL, NULL, "merges.txt")
BAD("a vocabulary that is a list", put, "vocab.json", NULL, "[]", "vocab.json")
BAD("an id beyond the table", set, "tokenizer_config.json", "added_tokens_decoder",
    "{\"9999\": {\"content\": \"<x>\", \"special\": true}}", "the tokenizer has 715 ids, but the text encoder's table only 714 rows")
GOOD("no preparation", gone, PREPARED, NULL, NULL)
BAD("preparation that is a list", put, PREPARED, NULL, "[]", PREPARED)
AT("a side that is too short", set, PREPARED, "size", "31", "size: a side of 31 pixels is shorter than the 32")
AT("another middle", set, PREPARED, "crop_size", "{\"height\": 32, \"width\": 30}", "crop_size: 30x32")
AT("no deviation", set, PREPARED, "image_std", "[1, 1, 0]", "image_std")
AT("pictures that are not resized", set, PREPARED, "do_resize", "false", "do_resize: should be true")

/* ---- wishes ---- */
WISH("too little memory", 1, "CLIP needs|GiB may be used", JUDGE " --memory-limit 10K")
WISH("with arms", 2, "--clip is for two results", "--prompt ball -o clip")
