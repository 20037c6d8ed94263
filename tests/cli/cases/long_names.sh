# Names of the 255 bytes that a file may have, for everything that is written.
source "$LIB"
long() { printf "%0$((255 - ${#1}))d%s" 0 "$1"; }
sparge-gen "${prompt[@]}" "${small[@]}" --frames 1 -q -o "$(long .y4m)" --latents "$(long .safetensors)" \
    --json "$(long .json)" || fail
expect_files "$(long .y4m)" "$(long .safetensors)" "$(long .json)"
