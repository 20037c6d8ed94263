/* hostile_cogvideox_i2v.h - the cases of hostile.c for CogVideoX from an image: what differs from text to video. */
/* clang-format off */

/* ---- the denoiser ---- */
AT("no image beside the latents", set, DIT, "in_channels", "6", "in_channels: 6 in and 4 out: |image to video twice as many")
BAD("as many in as out", set, DIT, "in_channels",
    "4", ONE_W "|misshapen: patch_embed.proj.weight is [144, 8, 2, 2], should be [144, 4, 2, 2]")
AT("learned positions without rotation", set, DIT, "use_rotary_positional_embeddings", "false",
    "use_learned_positional_embeddings: |use_rotary_positional_embeddings")
AT("learned positions of patches of two frames", set, DIT, "patch_size_t", "2",
    "use_learned_positional_embeddings: |patches of 2 frames")
AT("learned positions a text", set, DIT, "use_learned_positional_embeddings", "\"yes\"",
    "use_learned_positional_embeddings: should be true or false")
BAD("places that nobody wants", set, DIT, "use_learned_positional_embeddings",
    "false", ONE_W "|extra: patch_embed.pos_embedding")
BAD("places of another clip", set, DIT, "sample_frames",
    "17", ONE_W "|misshapen: patch_embed.pos_embedding is [1, 66, 144], should be [1, 96, 144]")
BAD("places of an absurd clip", set, DIT, "sample_frames", "1048576", ONE_W "|misshapen: patch_embed.pos_embedding")
AT("a sample of half a patch", set, DIT, "sample_width", "11", "sample_width: 11 is no multiple of patch_size 2")
BAD("no places", swap, ONE_W, "patch_embed.pos_embedding", "patch_embed.poz_embedding", ONE_W "|missing: patch_embed.pos_embedding")
BAD("places of NaN", poke, ONE_W, "patch_embed.pos_embedding", "nan", "patch_embed.pos_embedding")
ABSURD(DIT, "temporal_compression_ratio")
AT("an offset of another width", set, DIT, "ofs_embed_dim", "20", "ofs_embed_dim: 20, but |time_embed_dim 28")
AT("an offset below none", set, DIT, "ofs_embed_dim", "-1", "ofs_embed_dim: should be a ")
BAD("an offset without weights", set, DIT, "ofs_embed_dim", "28", ONE_W "|missing: ofs_embedding.linear_1.weight")

/* ---- the VAE ---- */
BAD("no encoder", swap, VAE_W, "encoder.conv_in.conv.weight", "encoder.conv_up.conv.weight", VAE_W "|missing: encoder.conv_in.conv.weight")
BAD("both halves", set, VAE, "latent_channels",
    "6", VAE_W "|decoder.conv_in.conv.weight is [20, 4, 3, 3, 3]|encoder.conv_out.conv.weight is [8, 20, 3, 3, 3]")
AT("scaling by a text", set, VAE, "invert_scale_latents", "\"yes\"", "invert_scale_latents: should be true or false")
BAD("an encoder of NaN", poke, VAE_W, "encoder.conv_in.conv.weight", "nan", "encoder.conv_in.conv.weight")

/* ---- wishes ---- */
WISH("no picture", 2, "--image FILE is needed", SAY " --size 40x24" CLIP)
WISH("another size", 2, "size: 32x32: this model knows the positions of 40x24 alone",
    SAY " --image ../" PICTURE " --size 32x32" CLIP)
WISH("a picture to end with", 2, "last-image: ", COGVIDEOX_I2V " --last-image ../" PICTURE)
