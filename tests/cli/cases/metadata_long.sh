# A prompt of 100,000 bytes comes back whole.
source "$LIB"
has_mp4 || skip "a build without FFmpeg"
long=$(printf 'red ball %.0s' {1..11000})
for clip in a.png a.mp4; do
    sparge-gen --prompt "$long" "${small[@]}" --frames 1 -q -o $clip || fail "$clip"
    sparge-gen info --json $clip | grep -qF "\"prompt\": \"$long\"" || fail "$clip"
done
