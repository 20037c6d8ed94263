# A file system that knows no files without a name, and no renaming that replaces nothing: the same clips and names, and nothing left
# after an interrupt or a failure.
source "$LIB"
[[ -n ${NO_TMPFILE-} ]] || skip "no library to preload"
has_mp4 && mp4=clip.mp4
run() { sparge-gen "${prompt[@]}" "${small[@]}" --frames 5 -q "$@"; }
for name in clip.y4m ${mp4-} f-%d.png; do
    run -o "$name" --latents a.safetensors || fail "$name"
    LD_PRELOAD=$NO_TMPFILE run -o "b-$name" --latents b.safetensors || fail "$name"
    cmp a.safetensors b.safetensors || fail "$name: latents"
    for file in clip.* f-*; do [[ ! -e $file ]] || cmp "$file" "b-$file" || fail "$file"; done
    rm -f -- *
    expect_files
done
export LD_PRELOAD=$NO_TMPFILE
[[ $(run) == out.* && $(run) == out-1.* ]] && cmp out.* out-1.* || fail "the next name: $(ls)"
expect_files out.* out-1.*
rm out.* out-1.*
env --default-signal=INT sparge-gen "${prompt[@]}" "${small[@]}" --steps 1000 -o clip.y4m 2>/dev/null &
wait_for writes $!
kill -INT $!
kill -INT $! 2>/dev/null || true
wait $!
expect_files
