# README's table of what fits on which GPU is what `info` plans for checkpoints of the published shapes, with one GiB of the
# GPU, or two of 80, left to its driver and to others.
source "$LIB"
minis wan22_hd128

# Where holes that are read take what is read, and not what a disk reads ahead.
if memory=$(mktemp -d -p /dev/shm 2>/dev/null); then
    trap 'rm -rf "$memory"' EXIT
    cd "$memory" || exit 1
fi

declare -A of=(["Wan 2.1 1.3B"]=wan-1.3b ["Wan 2.1 14B"]=wan-14b ["Wan 2.2 TI2V-5B"]=wan-5b ["Mochi 1"]=mochi [HunyuanVideo]=hunyuan)
in_gib() { awk -v "bytes=$1" 'BEGIN { printf "%.1f GiB", bytes / 2 ^ 30 }'; }
rows=0
while IFS='|' read -r _ gpu model size device host _; do
    gpu=${gpu%GB*} model=$(xargs <<<"$model") size=$(xargs <<<"$size")
    name=${of[$model]-}
    [[ $name ]] || fail "no published shapes of $model"
    [[ -d $name ]] || published "$name"
    sparge-gen info "$name" --backend cuda --memory-limit $((gpu - (gpu == 80 ? 2 : 1)))G --json --size "${size%,*}" \
        --frames "${size#*, }" >plan.json || fail "$name"
    need=$(json plan.json plan.need_bytes) available=$(json plan.json plan.available_bytes) blocks=$(json plan.json plan.host_bytes)
    ((need <= available)) || fail "$model, $size needs $(in_gib "$need") of $gpu GB"
    [[ $(xargs <<<"$device") == "$(in_gib "$need")" ]] || fail "$gpu GB, $model, $size:$device on the GPU; planned $(in_gib "$need")"
    [[ $(xargs <<<"$host") == "$(((blocks)) && in_gib "$blocks")" ]] ||
        fail "$gpu GB, $model, $size:$host on the host; planned $(in_gib "$blocks")"
    rows=$((rows + 1))
done < <(grep -E '^\| [0-9]+ GB \|' "${LIB%/*}/../../README.md")
((rows >= 8)) || fail "README's table has $rows rows"

# Without a limit, or for a render, a GPU that is not here is an error.
if ! sparge-gen info --backend cuda &>/dev/null; then
    refused 1 cuda info wan-1.3b --backend cuda
    refused 1 cuda --model wan-1.3b "${prompt[@]}" --backend cuda --memory-limit 7G
fi
