# README's table of what fits on which GPU is what `info` plans for checkpoints of the published shapes, with one GiB of the
# GPU left to its driver and to others. A type behind a model's name is its denoiser's, as a GGUF; the text encoder
# is Q8_0 then.
source "$LIB"
minis wan22_hd128 hunyuan_hd16 flux_dev

# Where holes that are read take what is read, and not what a disk reads ahead.
if memory=$(mktemp -d -p /dev/shm 2>/dev/null); then
    trap 'rm -rf "$memory"' EXIT
    cd "$memory" || exit 1
fi

declare -A of=(["Wan 2.1 1.3B"]=wan-1.3b ["Wan 2.1 14B"]=wan-14b ["Wan 2.2 A14B"]=wan-14b ["Wan 2.2 TI2V-5B"]=wan-5b ["Mochi 1"]=mochi
    [HunyuanVideo]=hunyuan ["Flux.1 dev"]=flux)
rows=0 wrong=
while IFS='|' read -r _ gpu model size device host _; do
    gpu=${gpu%GB*} model=$(xargs <<<"$model") size=$(xargs <<<"$size") text=text_encoder files=()
    name=${of[${model%, *}]-}
    [[ $name ]] || fail "no published shapes of $model"
    [[ -d $name ]] || published "$name"
    if [[ $model == *", "* ]]; then
        [[ $name != flux ]] || text=text_encoder_2
        published_gguf "$name" transformer "${model#*, }"
        published_gguf "$name" $text Q8_0
        files=(--diffusion-model "$name-transformer-${model#*, }.gguf" --text-encoder "$name-$text-Q8_0.gguf")
        [[ $model != *A14B* ]] || files+=(--high-noise-diffusion-model "${files[1]}")
    fi
    plan=$(sparge-gen info "$name" "${files[@]}" --backend cuda --memory-limit $((gpu - 1))G --size "${size%,*}" \
        --frames "${size#*, }") || fail "$name"
    [[ $plan != *"does not fit"* ]] || fail "$model, $size does not fit into $gpu GB: $plan"
    planned=$(sed -nE 's/^peak .* ([0-9.]+ GiB) of [0-9.]+ GiB must be free.*/\1/p' <<<"$plan")
    blocks=$(sed -nE 's/^offload +([0-9.]+ [GM]iB) of .*/\1/p' <<<"$plan" | sort -h | tail -n 1)
    [[ "$(xargs <<<"$device"), $(xargs <<<"$host")" == "$planned, $blocks" ]] ||
        wrong+="$gpu GB, $model, $size: README has$device,$host; planned $planned, $blocks"$'\n'
    rows=$((rows + 1))
done < <(grep -E '^\| [0-9]+ GB \|' "${LIB%/*}/../../README.md")
((rows >= 7)) || fail "README's table has $rows rows"
[[ ! $wrong ]] || fail "$wrong"

# Without a limit, or for a render, a GPU that is not here is an error.
if ! sparge-gen info --backend cuda &>/dev/null; then
    refused 1 cuda info wan-1.3b --backend cuda
    refused 1 cuda --model wan-1.3b "${prompt[@]}" --backend cuda --memory-limit 7G
fi
