/* hostile_cases.h - the cases of hostile.c: name, what is done to which file, how the command ends, and what its
 * message must hold. What only concerns one reader is in the unit tests of that reader. */
/* clang-format off */

/* ---- safetensors ---- */
AT("empty weights", put, VAE_W, NULL, "", "the file is empty")
AT("seven bytes", cut, VAE_W, NULL, "7", "7 bytes are too few")
AT("header cut", cut, VAE_W, NULL, "1000", "cut short")
AT("data cut", cut, VAE_W, NULL, "-1", "tensor|beyond")
AT("data cut in a shard", cut, DIT_W, NULL, "-1", "tensor|beyond")
AT("trailing byte", add, VAE_W, NULL, "x", "the last 1 byte belongs")
AT("a terabyte of zeros", size, VAE_W, NULL, "1099511627776", "the last 1099511")
AT("header length 0", length, VAE_W, "0", "", "not a safetensors file")
AT("header length 2^63", length, VAE_W, "9223372036854775808", "{}", "not a safetensors")
AT("header length 2^64-1", length, VAE_W, "18446744073709551615", "{}", "not a safetensors")
AT("header over 100 MB", length, VAE_W, "100000001", "{}", "not a safetensors file")
AT("no safetensors", put, VAE_W, NULL, "PK\3\4 a pickle of old", "not a safetensors")
AT("header in UTF-16", length, VAE_W, "4", "\xff\xfe{}", "not a safetensors")
BAD("unknown dtype", entry, VAE_W, BIAS, D("\"F33\"", "[8]", "[0,16]"), VAE_W "|" BIAS "|dtype \"F33\"")
BAD("dtype of integers", entry, VAE_W, BIAS, D("\"I16\"", "[8]", "[0,16]"), VAE_W "|" BIAS "|wrong type")
BAD("rank 0", entry, VAE_W, BIAS, D("\"BF16\"", "[]", "[0,16]"), VAE_W "|" BIAS "|16 bits")
BAD("rank 9", entry, VAE_W, BIAS, D("\"BF16\"", "[8,1,1,1,1,1,1,1,1]", "[0,16]"), VAE_W "|" BIAS "|9 dimensions")
BAD("other shape, same size", entry, VAE_W, BIAS, D("\"BF16\"", "[2,4]", "[0,16]"),
    VAE_W "|misshapen: " BIAS " is [2, 4], should be [8]")
BAD("negative dimension", entry, VAE_W, BIAS, D("\"BF16\"", "[-8]", "[0,16]"), VAE_W "|" BIAS "|shape[0]")
BAD("fractional dimension", entry, VAE_W, BIAS, D("\"BF16\"", "[8.5]", "[0,16]"), VAE_W "|" BIAS "|shape[0]")
BAD("dimension 1e30", entry, VAE_W, BIAS, D("\"BF16\"", "[1e30]", "[0,16]"), VAE_W "|" BIAS "|shape[0]")
BAD("dimension 2^64", entry, VAE_W, BIAS, D("\"BF16\"", "[18446744073709551616]", "[0,16]"), VAE_W "|" BIAS "|integer")
BAD("product wraps to 8", entry, VAE_W, BIAS, D("\"BF16\"", "[4294967296,4294967296,8]", "[0,16]"),
    VAE_W "|" BIAS "|too large")
BAD("begin after end", entry, VAE_W, BIAS, D("\"BF16\"", "[8]", "[16,0]"), VAE_W "|" BIAS "|[16, 0]")
BAD("end beyond the file", entry, VAE_W, BIAS, D("\"BF16\"", "[8]", "[0,99999999]"), VAE_W "|" BIAS "|beyond")
BAD("overlap", entry, VAE_W, BIAS, D("\"BF16\"", "[12]", "[0,24]"), VAE_W "|overlaps tensor \"" BIAS)
BAD("hole", entry, VAE_W, BIAS, D("\"BF16\"", "[4]", "[0,8]"), VAE_W "|8 bytes of data before it")
BAD("missing tensor", entry, VAE_W, BIAS, NULL, VAE_W "|16 bytes of data before it")
BAD("tensor twice", entry, VAE_W, "decoder.conv_in.\\u0062ias", D("\"BF16\"", "[8]", "[0,16]"),
    VAE_W "|\"" BIAS "\" stands there twice")
BAD("tensor of size 0", entry, VAE_W, "none", D("\"BF16\"", "[0,8]", "[0,0]"), VAE_W "|extra: none [0, 8]")
BAD("name of 300 bytes", entry, VAE_W, N100 N100 N100, D("\"BF16\"", "[0]", "[0,0]"), VAE_W "|extra: nnn|nnn... [0]")
AT("NUL in a name", entry, VAE_W, "a\\u0000b", "{}", "header: not valid JSON at byte 1")
AT("terminal codes in a name", entry, VAE_W, "a\\u001b[2Jb", "{}", "tensor \"a?[2Jb\"")
AT("broken UTF-8 in a name", entry, VAE_W, "a\xff", "{}", "header: not valid JSON at byte 1")
AT("metadata of numbers", entry, VAE_W, "__metadata__", "{\"a\":1}", "__metadata__: \"a\"")
AT("metadata is a list", entry, VAE_W, "__metadata__", "[]", "__metadata__")
GOOD("misaligned data are read", shift, VAE_W, NULL, NULL)
BAD("a million tensors", many, VAE_W, NULL, "1000000", VAE_W "|00000 extra")
BAD("NaN weights, all", poison, DIT_W, NULL, NULL, "transformer/|tensor \"|\" has a NaN|the first at element 0")
BAD("NaN in the text encoder", poke, TEXT_W, "encoder.block.0.layer.0.SelfAttention.k.weight", "nan",
    TEXT_W "|SelfAttention.k.weight\" has a NaN")
BAD("infinity in the decoder", poke, VAE_W, BIAS, "inf", VAE_W "|" BIAS)
AT("weights are a folder", folder, VAE_W, NULL, NULL, "is a folder")
AT("weights are a pipe", fifo, VAE_W, NULL, NULL, "is not a regular file")
AT("weights are /dev/zero", link, VAE_W, NULL, "/dev/zero", "is not a regular file")
AT("weights link nowhere", link, VAE_W, NULL, "nowhere", "cannot be opened")
AT("weights link in a circle", link, VAE_W, NULL, "diffusion_pytorch_model.safetensors", "cannot be opened")
BAD("weights gone", gone, VAE_W, NULL, NULL, "/vae: has neither diffusion_pytorch_model.safetensors")
AT("weights shut", shut, VAE_W, NULL, NULL, "cannot be opened: Permission denied")

/* ---- the index of shards ---- */
AT("empty index", put, DIT_X, NULL, "", "the file is empty")
AT("index cut", cut, DIT_X, NULL, "700", "index: not valid JSON at byte")
BAD("shard in a folder above", swap, DIT_X, "\"" SHARD, "\"../" SHARD, DIT_X "|weight_map|\"../")
BAD("shard by absolute name", swap, DIT_X, "\"" SHARD, "\"/etc/passwd", DIT_X "|weight_map|\"/etc/passwd")
AT("shard not there", swap, DIT_X, "00001-of", "00009-of", "shard \"diffusion_pytorch_model-00009-of")
AT("tensor in another shard", swap, DIT_X, "00001-of", "00002-of",
    "weight_map: tensor \"|should be in diffusion_pytorch_model-00002")
BAD("tensor in no shard", swap, DIT_X, "\"weight_map\": {", "\"weight_map\": {\"gone\": \"" SHARD "\",",
    DIT_X "|\"gone\" is in no file")
BAD("tensor in two shards", entry, DIT_W, "blocks.0.attn1.norm_k.weight", D("\"F32\"", "[0]", "[0,0]"),
    DIT_X "|is both in")
AT("index deep", repeat, DIT_X, "{\"weight_map\":", "[ 1000000", "index: not valid JSON")
AT("index of 100000 shards", index, DIT_X, NULL, "100000", "shard \"s0\" is named, but")
AT("index of 101 MB", size, DIT_X, NULL, "101000000", "101000000 bytes")
AT("shard links to a device", link, DIT_W, NULL, "/dev/zero", "is not a regular file")
AT("shard is a pipe", fifo, DIT_W, NULL, NULL, "is not a regular file")
BAD("shard gone", gone, DIT_W, NULL, NULL, DIT_X ": shard \"" SHARD "\" is named, but")

/* ---- the transformer's config ---- */
AT("layers 0", set, DIT, "num_layers", "0", "num_layers")
AT("layers -1", set, DIT, "num_layers", "-1", "num_layers")
AT("layers 10^9", set, DIT, "num_layers", "1000000000", "num_layers")
AT("layers 2^64", set, DIT, "num_layers", "18446744073709551616", "line 1|integer")
AT("layers 1.5", set, DIT, "num_layers", "1.5", "num_layers")
AT("layers of text", set, DIT, "num_layers", "\"1\"", "num_layers")
AT("layers missing", set, DIT, "num_layers", NULL, "num_layers: is missing")
BAD("one layer too many", set, DIT, "num_layers", "2", "transformer/|missing: blocks.1.")
BAD("4096 layers", set, DIT, "num_layers", "4096", "transformer/|missing: blocks.1.|more missing")
AT("heads 0", set, DIT, "num_attention_heads", "0", "num_attention_heads")
AT("heads 10^9", set, DIT, "num_attention_heads", "1000000000", "num_attention_heads")
BAD("heads that do not fit", set, DIT, "num_attention_heads", "3", "transformer/|misshapen")
AT("head size odd", set, DIT, "attention_head_dim", "63", "attention_head_dim")
AT("head size NaN", set, DIT, "attention_head_dim", "NaN", "line 1|not valid JSON")
AT("eps 1e999", set, DIT, "eps", "1e999", "line 1|overflow")
AT("eps negative", set, DIT, "eps", "-1", "eps")
AT("patch 0", set, DIT, "patch_size", "[1,0,2]", "patch_size: entry 1")
AT("patch of two frames", set, DIT, "patch_size", "[2,2,2]", "patch_size: entry 0 is 2")
AT("patch of two", set, DIT, "patch_size", "[2,2]", "patch_size")
AT("patch no list", set, DIT, "patch_size", "2", "patch_size")
BAD("text width", set, DIT, "text_dim", "33",
    "transformer/|misshapen: condition_embedder.text_embedder.linear_1.weight")
AT("image to video", set, DIT, "image_dim", "1280", "added_kv_proj_dim")
BAD("channels differ", set, DIT, "out_channels", "8", "transformer/|misshapen: proj_out.weight")
AT("key twice", swap, DIT, "{", "{\"eps\": 1,", "line|duplicate")
AT("config is a list", put, DIT, NULL, "[]", "should be a JSON object")
AT("config empty", put, DIT, NULL, "", "the file is empty")
AT("config deep", repeat, DIT, "{\"a\":", "[ 60000", "line 1|depth")
AT("config of 15 MB of lists", repeat, DIT, "{\"a\":[[]", ",[] 15000000", "has more than 65536 values")
AT("config of 17 MB", repeat, DIT, "{\"a\":[[]", ",[] 17000000", "|bytes; at most")
AT("config is a folder", folder, DIT, NULL, NULL, "is a folder")
AT("config is a pipe", fifo, DIT, NULL, NULL, "is not a regular file")
AT("config is /dev/zero", link, DIT, NULL, "/dev/zero", "is not a regular file")
AT("config gone", gone, DIT, NULL, NULL, "cannot be opened")
AT("config shut", shut, DIT, NULL, NULL, "cannot be opened: Permission denied")
BAD("no folder transformer", gone, "transformer", NULL, NULL, DIT ": cannot be opened")
BAD("transformer is a file", put, "transformer", NULL, "x", DIT ": cannot be opened: Not a directory")

/* ---- the configs beside it ---- */
AT("VAE levels 0", set, VAE, "dim_mult", "[]", "dim_mult")
AT("VAE factor 0", set, VAE, "dim_mult", "[1,0,2]", "dim_mult: entry 1")
AT("VAE factor 10^9", set, VAE, "dim_mult", "[1,1000000000,2]", "dim_mult: entry 1")
AT("VAE latents of 10^9", set, VAE, "z_dim", "1000000000", "z_dim")
AT("VAE latents of 8", set, VAE, "z_dim", "8", "latents_mean")
AT("VAE divided by 0", set, VAE, "latents_std", "[0,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1]", "latents_std: entry 0")
AT("VAE base negative", set, VAE, "base_dim", "-4", "base_dim")
BAD("VAE base larger", set, VAE, "base_dim", "8", VAE_W "|misshapen")
AT("VAE blocks 10^9", set, VAE, "num_res_blocks", "1000000000", "num_res_blocks")
AT("VAE patch 10^9", set, VAE, "patch_size", "1000000000", "patch_size")
AT("VAE scale", set, VAE, "scale_factor_spatial", "8", "scale_factor_spatial")
AT("VAE switches of numbers", set, VAE, "temperal_downsample", "[1,0]", "temperal_downsample")
AT("VAE mean missing", set, VAE, "latents_mean", NULL, "latents_mean: is missing")
AT("text width 0", set, TEXT, "d_model", "0", "d_model")
AT("text heads 10^9", set, TEXT, "num_heads", "1000000000", "num_heads")
BAD("text layers 3", set, TEXT, "num_layers", "3", TEXT_W "|missing: encoder.block.2")
AT("text layers negative", set, TEXT, "num_layers", "-3", "num_layers")
AT("text buckets 0", set, TEXT, "relative_attention_num_buckets", "0", "relative_attention_num_buckets")
AT("text distance 10^12", set, TEXT, "relative_attention_max_distance", "1000000000000",
    "relative_attention_max_distance")
AT("text epsilon NaN", set, TEXT, "layer_norm_epsilon", "NaN", "line 1")
BAD("text vocabulary 600", set, TEXT, "vocab_size", "600", TEXT_W "|misshapen: shared.weight")
AT("text of another kind", set, TEXT, "model_type", "\"clip_text_model\"", "model_type: |clip_text_model")
AT("text activation", set, TEXT, "feed_forward_proj", "\"swish\"", "feed_forward_proj")
AT("scheduler unknown", set, SCHEDULER, "_class_name", "\"DDIMScheduler\"", "_class_name: |DDIMScheduler")
AT("scheduler shift 0", set, SCHEDULER, "shift", "0", "shift")
AT("scheduler shift 1e300", set, SCHEDULER, "shift", "1e300", "shift")
AT("scheduler shift of text", set, SCHEDULER, "shift", "\"7\"", "shift")
AT("scheduler steps 0", set, SCHEDULER, "num_train_timesteps", "0", "num_train_timesteps")
AT("scheduler steps 10^12", set, SCHEDULER, "num_train_timesteps", "1000000000000", "num_train_timesteps")
AT("scheduler order 9", put, SCHEDULER, NULL, UNIPC(",\"solver_order\":9"), "solver_order")
AT("scheduler of noise", put, SCHEDULER, NULL, UNIPC(",\"predict_x0\":false"), "predict_x0")
AT("scheduler not JSON", put, SCHEDULER, NULL, "class_name: x\n", "line 1")
AT("scheduler gone", gone, SCHEDULER, NULL, NULL, "cannot be opened")
AT("pipeline unknown", set, INDEX, "_class_name", "\"FluxPipeline\"", "_class_name: \"FluxPipeline\"")
AT("transformer of another class", set, "transformer/config.json", "_class_name", "\"FluxTransformer2DModel\"",
   "_class_name: |WanTransformer3DModel")
AT("vae of another class", set, "vae/config.json", "_class_name", "\"AutoencoderKL\"",
   "_class_name: |AutoencoderKLWan")
AT("pipeline of terminal codes", set, INDEX, "_class_name", "\"\\u001b[2JWan\\u009b1m\"", "_class_name: \"?[2JWan??1m\"")
AT("pipeline missing", set, INDEX, "_class_name", NULL, "_class_name: is missing")
AT("pipeline of a list", set, INDEX, "_class_name", "[\"WanPipeline\"]", "_class_name")
AT("pipeline points outside", set, INDEX, "vae", "[\"diffusers\",\"../../vae\"]", "vae: |../../vae")
AT("pipeline without VAE", set, INDEX, "vae", NULL, "vae")
AT("pipeline VAE is text", set, INDEX, "vae", "\"vae\"", "vae")
AT("pipeline of nulls", set, INDEX, "transformer", "[null,null]", "transformer")
AT("boundary 2", set, INDEX, "boundary_ratio", "2", "boundary_ratio")
AT("boundary without expert", set, INDEX, "boundary_ratio", "0.5", "boundary_ratio")
AT("expert that is not there", swap, INDEX, "\"boundary_ratio\": null", "\"boundary_ratio\": 0.5", "boundary_ratio")
AT("pipeline not JSON", put, INDEX, NULL, "<html>404</html>", "line 1")
AT("pipeline empty", put, INDEX, NULL, "", "the file is empty")
AT("pipeline a folder", folder, INDEX, NULL, NULL, "is a folder")
AT("pipeline a pipe", fifo, INDEX, NULL, NULL, "is not a regular file")
AT("pipeline of a pointer", put, INDEX, NULL, "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 491\n",
    "line 1")
AT("own defaults no JSON", put, OWN, NULL, "{", "line 1")
AT("own width 0", set, OWN, "width", "0", "width")
AT("own frames 10^9", set, OWN, "frames", "1000000000", "frames")
AT("own prompt a number", set, OWN, "negative_prompt", "5", "negative_prompt")
AT("own guidance of text", set, OWN, "cfg_scale", "\"3\"", "cfg_scale")
AT("own vocabulary of text", set, OWN, "vocabulary", "\"ball\"", "vocabulary: should be a list")
AT("own vocabulary empty", set, OWN, "vocabulary", "[]", "vocabulary: should be a list of 1 to 10000 entries, has 0")
AT("own vocabulary of a number", set, OWN, "vocabulary", "[\"a\",5]", "vocabulary: entry 1")
AT("own vocabulary of nulls", set, OWN, "vocabulary", "[null]", "vocabulary: entry 0")
AT("own vocabulary of two words", set, OWN, "vocabulary", "[\"blue sky\"]", "vocabulary: entry 0 should be one word")
AT("own vocabulary of terminal codes", set, OWN, "vocabulary", "[\"\\u001b[2J\"]", "vocabulary: entry 0")
AT("own vocabulary of a long word", set, OWN, "vocabulary", "[\"" N100 "\"]", "vocabulary: entry 0")
AT("own world a list", set, OWN, "world", "[1]", "world: should be a string")
AT("own world blank", set, OWN, "world", "\"  \"", "world: should not be blank")
AT("own world of terminal codes", set, OWN, "world", "\"\\u001b[2J\"", "world: has the control character U+001B")
AT("own world of C1 codes", set, OWN, "world", "\"\\u009b2J\"", "world: has the control character U+009B")
AT("own world right to left", set, OWN, "world", "\"a\\u202eb\"", "world: has the control character U+202E")
AT("own world of 400 bytes", set, OWN, "world", "\"" N100 N100 N100 N100 "\"", "world: should have at most 300 bytes")
AT("own is a folder", folder, OWN, NULL, NULL, "is a folder")

/* ---- tuned thresholds ---- */
AT("thresholds empty", put, TUNED, NULL, "", "the file is empty")
AT("thresholds cut", put, TUNED, NULL, "{\"format\":\"sparge-gen thresholds\",", "line 1")
AT("thresholds of another format", put, TUNED, NULL, "{\"a\":1}", "format: should be")
AT("thresholds of another version", put, TUNED, NULL, THRESHOLDS(2, 1, 1, "[0]", "0.5"), "version: is 2")
AT("thresholds for 65536 layers", put, TUNED, NULL, THRESHOLDS(1, 65536, 1, "[0]", "0.5"), "amount: |65536 layers")
AT("thresholds for 10^9 heads", put, TUNED, NULL, THRESHOLDS(1, 1, 1000000000, "[0]", "0.5"), "heads: should be")
AT("thresholds NaN", put, TUNED, NULL, THRESHOLDS(1, 1, 1, "[0]", "NaN"), "line 1")
AT("thresholds infinite", put, TUNED, NULL, THRESHOLDS(1, 1, 1, "[0]", "1e999"), "line 1")
AT("thresholds above 1", put, TUNED, NULL, THRESHOLDS(1, 1, 1, "[0]", "1.5"), "amount: entry 0")
AT("thresholds without buckets", put, TUNED, NULL, THRESHOLDS(1, 1, 1, "[]", "0.5"), "buckets")
AT("thresholds of late steps alone", put, TUNED, NULL, THRESHOLDS(1, 1, 1, "[7]", "0.5"), "buckets: the last should")
AT("thresholds of terminal codes", put, TUNED, NULL, "{\"format\":\"\\u001b[2J\"}", "format: should be")
AT("thresholds deep", repeat, TUNED, "{\"amount\":", "[ 60000", "line 1|depth")
AT("thresholds of 15 MB", repeat, TUNED, "{\"amount\":[0", ",0 15000000", "has more than 262144 values")
AT("thresholds of 17 MB", repeat, TUNED, "{\"amount\":[0", ",0 17000000", "|bytes; at most")
AT("thresholds a folder", folder, TUNED, NULL, NULL, "is a folder")
AT("thresholds a pipe", fifo, TUNED, NULL, NULL, "is not a regular file")

/* ---- the tokenizer ---- */
AT("pieces empty", put, PIECES, NULL, "", "the file is empty")
AT("pieces cut", cut, PIECES, NULL, "5001", "not a SentencePiece model: broken at byte")
BAD("pieces cut between two", pieces, "tokenizer", NULL, "61", PIECES ": ends after a piece")
AT("piece of 1 GB", put, PIECES, NULL, "\x0a\x80\x80\x80\x80\x04\x0a\x05hello",
    "not a SentencePiece model: broken at byte 0")
AT("piece of 2^64", put, PIECES, NULL, "\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01hello",
    "not a SentencePiece model: broken at byte 0")
AT("pieces of 65 MB", size, PIECES, NULL, "68157441", "68157441 bytes")
BAD("ten million pieces", repeat, PIECES, "", "\x0a\x04\x0a\x02hi 60000000", "tokenizer")
BAD("pieces gone", gone, PIECES, NULL, NULL, PIECES)
AT("pieces a folder", folder, PIECES, NULL, NULL, "is a folder")
AT("pieces a pipe", fifo, PIECES, NULL, NULL, "is not a regular file")
AT("pieces /dev/zero", link, PIECES, NULL, "/dev/zero", "is not a regular file")
AT("vocabulary cut", cut, TOKENS, NULL, "20000", "line")
AT("vocabulary empty", put, TOKENS, NULL, "", "")
AT("vocabulary differs", swap, TOKENS, "\"q\"", "\"qq\"", "model.vocab: entry")
AT("vocabulary deep", repeat, TOKENS, "{\"model\":", "[ 1000000", "line 1|depth")
AT("vocabulary of lists", repeat, TOKENS, "{\"model\":[[]", ",[] 60000000", "has more than 2097152 values")
AT("token id 3e9", swap, TOKENS, "\"id\": 0", "\"id\": 3e9", "added_tokens: a token id")
AT("end of text out of range", swap, TOKENS, "\"ids\": [\n     1", "\"ids\": [\n     900", "post_processor")
AT("unknown out of range", swap, TOKENS, "\"unk_id\": 3", "\"unk_id\": 3000", "model.unk_id")
AT("token id negative", swap, TOKENS, "\"id\": 0", "\"id\": -5", "added_tokens: a token id")
BAD("more tokens than rows", swap, TOKENS, "\"<extra_id_0>\",\n    0.0\n   ]",
    "\"<extra_id_0>\",0],[\"z1\",-9],[\"z2\",-9],[\"z3\",-9],[\"z4\",-9],[\"z5\",-9],[\"z6\",-9]",
    "the tokenizer has|rows")
AT("tokenizer class", set, TOKENS2, "tokenizer_class", "\"LlamaTokenizer\"", "tokenizer_class: LlamaTokenizer")
AT("tokenizer class hostile", set, TOKENS2, "tokenizer_class", "\"\\u001b[2J\\n\\u009b\"",
    "tokenizer_class: ?[2J??? is")
AT("tokenizer config list", put, TOKENS2, NULL, "[]", "")
AT("tokenizer config twice", swap, TOKENS2, "{", "{\"unk_id\": 1,", "line|duplicate")
AT("tokenizer config a pipe", fifo, TOKENS2, NULL, NULL, "is not a regular file")
BAD("no folder tokenizer", gone, "tokenizer", NULL, NULL, PIECES)

/* ---- prompts ---- */
USE("prompt file empty", put, "p.txt", NULL, "", 2, "p.txt: has no prompt",
    FILE_OF " -o clip.y4m")
USE("prompt file BOM only", put, "p.txt", NULL, "\xef\xbb\xbf\r\n", 2, "p.txt: has no prompt",
    FILE_OF " -o clip.y4m")
USE("prompt file of UTF-16", put, "p.txt", NULL, "\xff\xfe" "b", 2, "p.txt: line 1 is not UTF-8: byte 0xff",
    FILE_OF " -o clip.y4m")
USE("prompt file broken", put, "p.txt", NULL, "ball\n\nbox \xc3(\n", 2,
    "p.txt: line 3 is not UTF-8: byte 0xc3 at position 5",
    FILE_OF " -o clip.y4m")
USE("prompt file of zeros", size, SCHEDULER, NULL, "1000", 2, SCHEDULER ": has a zero byte",
    "--prompt-file ../m/" SCHEDULER " --size 32x32 -o clip.y4m")
USE("prompt file of 10^5 lines", repeat, "p.txt", "", "a\n 200000", 2, "not with 100000",
    FILE_OF " -o -")
USE("prompt of 1 MB", repeat, "p.txt", "", "ball  1000000", 0, "",
    FILE_OF " -o clip.y4m")
USE("prompt of 1 MB, one word", repeat, "p.txt", "", "b 1000000", 0, "",
    FILE_OF " -o clip.y4m")
USE("prompt of 1 MB of refs", repeat, "p.txt", "", "&amp;amp; 1000000", 0, "",
    FILE_OF " -o clip.y4m")
USE("prompt file of 2 MB", repeat, "p.txt", "", "ball  2000000", 2, "p.txt: more than 1 MiB",
    FILE_OF " -o clip.y4m")
USE("prompt file endless", link, "p.txt", NULL, "/dev/zero", 2, "p.txt: ",
    FILE_OF " -o clip.y4m")
USE("prompt file a pipe", fifo, "p.txt", NULL, NULL, 2, "p.txt: ",
    FILE_OF " -o clip.y4m")
USE("prompt file a folder", folder, "p.txt", NULL, NULL, 1, "p.txt: ",
    FILE_OF " -o clip.y4m")
USE("prompt both directions", put, "p.txt", NULL,
    "\xe2\x80\xae ball \xe2\x81\xa6 \xd7\x90\xd7\x91 \xe2\x80\x8b\xef\xbf\xbe\r\n", 0, "",
    FILE_OF " -o clip.y4m")
USE("prompt that is a path", put, "p.txt", NULL, "../../../../tmp/\n/etc/passwd\nCON\nnul.mp4\n..\n", 0, "",
    FILE_OF " -o clip.y4m")
WISH("prompt empty", 0, "", "--prompt= --size 32x32" SMALL)

/* ---- sizes ---- */
WISH("size 0", 2, "--size: '0x32'", SAY " --size 0x32" SMALL)
WISH("size negative", 2, "--size: '-32x32'", SAY " --size=-32x32" SMALL)
WISH("size of 2^64", 2, "--size: '18446744073709551648x32'", SAY " --size 18446744073709551648x32" SMALL)
WISH("size 65535", 2, "--size: '65535x65535'", SAY " --size 65535x65535" SMALL)
WISH("size 16384", 2, "size: |positions", SAY " --size 16384x16384" SMALL)
WISH("size 4096, 2045 frames", 1, "tokens are too many", SAY " --size 4096x4096 --frames 2045" CLIP)
WISH("size too large to hold", 1, "this render needs|GiB may be used",
    SAY " --size 1024x1024 --memory-limit 100M" SMALL)
WISH("size no multiple", 2, "size: 33x32|nearest is 32x32", SAY " --strict --size 33x32" SMALL)
WISH("width 0", 2, "--width: '0'", SAY " --width 0 --height 32" SMALL)
WISH("frames 0", 2, "--frames: '0'", SAY " --frames 0 --size 32x32" CLIP)
WISH("frames negative", 2, "--frames: '-5'", SAY " --frames -5 --size 32x32" CLIP)
WISH("frames 10^9", 2, "--frames: '1000000000'", SAY " --frames 1000000000 --size 32x32" CLIP)
WISH("frames 99997", 2, "frames: |positions", SAY " --frames 99997 --size 32x32" CLIP)
WISH("frames no multiple", 2, "frames: 4: |nearest is", SAY " --strict --frames 4 --size 32x32" CLIP)
WISH("frames many, pictures", 1, "this render needs",
    SAY " --frames 2047 --size 96x96 --memory-limit 100M -q -o f%d.png")
WISH("seconds 1e300", 2, "--seconds: '1e300'", SAY " --seconds 1e300 --size 32x32" CLIP)
WISH("seconds NaN", 2, "--seconds: 'nan'", SAY " --seconds nan --size 32x32" CLIP)
WISH("steps 10^9", 2, "--steps: '1000000000'", SAY " --steps 1000000000 --size 32x32" CLIP)
WISH("threads 10^9", 2, "--threads: '1000000000'", SAY " --threads 1000000000 --size 32x32" SMALL)
WISH("fps 0", 2, "--fps: '0'", SAY " --fps 0 --size 32x32" SMALL)
WISH("shift infinite", 2, "--flow-shift: 'inf'", SAY " --flow-shift inf --size 32x32" SMALL)

/* ---- latents ---- */
USE("latents empty", put, "l.safetensors", NULL, "", 1, "l.safetensors: the file is empty",
    "--latents ../m/l.safetensors" CLIP)
USE("latents of another kind", length, "l.safetensors", "2", "{}", 1, "l.safetensors: there is no tensor \"latents\"",
    "--latents ../m/l.safetensors" CLIP)
USE("latents of size 0", length, "l.safetensors", "80",
    "{\"latents\":" D("\"F32\"", "[16,1,1,0]", "[0,0]") "}             ", 1, "l.safetensors: there is no tensor",
    "--latents ../m/l.safetensors" CLIP)
USE("latents a pipe", fifo, "l.safetensors", NULL, NULL, 1, "l.safetensors: is not a regular file",
    "--latents ../m/l.safetensors" CLIP)
USE("latents a folder", folder, "l.safetensors", NULL, NULL, 1, "l.safetensors: is a folder",
    "--latents ../m/l.safetensors" CLIP)
