# The peak that was planned is the one that the system shows, and decoding a longer clip does not take more.
source "$LIB"

# measure OPTION...: sets measured and planned, in KiB
measure() {
    sparge-gen "${prompt[@]}" --backend cpu --steps 1 --cfg-scale 1 --quiet --json r.json "$@" 2>log || fail "$(<log)"
    measured=$(($(json r.json peak_bytes) / 1024))
    planned=$(($(json r.json plan.peak_bytes) / 1024))
}

within() { # PART OPTION...: the PARTth part
    measure "${@:2}"
    local -i off=$((measured - planned))
    (($1 * ${off#-} <= measured)) || fail "${*:2}: $measured KiB measured, $planned KiB planned"
}

clips=(a.y4m)
! has_mp4 || clips+=(a.mp4)
for clip in "${clips[@]}"; do
    within 10 --size 128x128 --frames 9 -o "$clip"
    within 10 --size 256x256 --frames 9 -o "$clip"
done
within 10 --size 128x128 --frames 9 --dtype bf16 -o a.y4m

# A picture that is read before the model is opened counts once: a white one of 4000x4000.
base64 -d <<<"H4sIAAAAAAACA+sM8HPn5ZLiYmBg4PX0cAliYOBfAMKMQAGGYyz31jMwiMd4ujiGVNx6e9EQKMpzyODPbDZJ62leGUF7tcUcxEscsaJ2vRdNWBFf7AVWrEh21wJurMgKhxXiJS9G7R+1f9T+UftH7R+1f9T+UftH7R+1f9T+UftH7R+1f9T+UftH7R+1f9T+UftH7R+1fxDaX3qXYd6qw12/J0ySAI23e7r6uaxzSmgCAEVAce6VFwAA" | gunzip >white.png
within 10 --size 64x64 --frames 5 --image white.png -o a.y4m

# 56 frames more may take what was planned for their latents, and less than half of their pixels.
frames=56 frame_kib=48
measure --size 128x128 --frames 9 -o a.y4m
few=$measured few_planned=$planned
measure --size 128x128 --frames $((9 + frames)) -o a.y4m
grown=$((measured - few - planned + few_planned))
((2 * grown < frames * frame_kib)) || fail "$frames frames more took $grown KiB more than planned"

# Quantised weights, as the file has them and widened.
{ echo "file transformer/" && shapes_of "$SPARGE_GEN_MODEL"/transformer/*.safetensors; } >shapes
published_gguf wan transformer Q8_0 shapes
for as in file bf16; do
    for dtype in f32 bf16; do
        within 20 --model "$SPARGE_GEN_MODEL" --diffusion-model wan-transformer-Q8_0.gguf --attention dense --weights-as $as \
            --dtype $dtype --size 128x128 --frames 9 -o a.y4m
    done
done
