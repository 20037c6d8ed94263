# Thresholds found in a render on the device: those of a render on the host but for what rounding moves over a bound.
source "$LIB"
tiny=(--size 256x256 --frames 17 --steps 2 --cfg-scale 1 --dtype f32 --buckets 2 --quiet)

for backend in cpu cuda; do
    sparge-gen tune "${prompt[@]}" "${tiny[@]}" --backend $backend -o $backend.json --json r-$backend.json >log 2>&1 ||
        fail "$(<log)"
done
density() { json r-$1.json reached.density; }
awk "BEGIN { d = $(density cpu) - $(density cuda); exit !(d < 0.01 && d > -0.01) }" ||
    fail "$(density cpu) kept on the host, $(density cuda) on the device"
sparge-gen "${prompt[@]}" --size 256x256 --frames 17 --steps 2 --cfg-scale 1 --backend cuda --quiet --dense-steps 0 \
    --sparse-config cuda.json -o a.y4m 2>log || fail "$(<log)"
