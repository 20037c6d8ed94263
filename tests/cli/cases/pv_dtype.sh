# A CPU multiplies values in bf16 or int8 as it is told to.
source "$LIB"
for type in bf16 int8; do
    sparge-gen "${prompt[@]}" --backend cpu --attention sage --pv-dtype $type --size 512x512 --frames 1 --steps 2 \
        --cfg-scale 1 --dense-steps 0 --quiet --json r.json -o $type.y4m || fail
    has r.json settings.pv_dtype=$type
done
! cmp -s bf16.y4m int8.y4m || fail "int8 gives what bf16 gives"
