# Blocks that stay on the host give the same clip with less memory on the device, as planned; auto takes that where all
# blocks are too much, and says so.
source "$LIB"

for options in "--dtype f32" "--dtype bf16" "--dtype bf16 --attention sparge --topk 0.5"; do
    for how in off on; do
        # shellcheck disable=SC2086
        sparge-gen "${prompt[@]}" --backend cuda --steps 20 --seed 7 --offload $how --json $how.json -o $how.y4m $options \
            2>log || fail "$(<log)"
    done
    grep -q "^offload: .* GiB of the denoiser, .* blocks, stay on the host" log || fail "$(<log)"
    cmp off.y4m on.y4m || fail "$options"
    saved=$(($(json off.json peak_bytes) - $(json on.json peak_bytes)))
    planned=$(($(json off.json plan.peak_bytes) - $(json on.json plan.peak_bytes)))
    ((saved > 0 && saved == planned)) || fail "$options: $saved bytes saved, $planned planned"
done

# here denoising needs more than decoding
few=("${prompt[@]}" --backend cuda --dtype bf16 --size 32x32 --frames 1 --steps 20 --seed 7)
sparge-gen "${few[@]}" --quiet --json few.json -o few.y4m 2>log || fail "$(<log)"
sparge-gen "${few[@]}" --quiet --offload on --json on.json -o on.y4m 2>log || fail "$(<log)"
limit=$(json on.json plan.need_bytes)
sparge-gen "${few[@]}" --memory-limit $limit -o auto.y4m 2>log || fail "$(<log)"
grep -q "^offload: " log || fail "$(<log)"
cmp few.y4m auto.y4m || fail "auto"
refused 1 GiB "${few[@]}" --memory-limit $limit --offload off -o no.y4m
