# FP8 from level sm89 up, near the clip of BF16; below that it is refused before anything is computed.
source "$LIB"

refused 1 "--pv-dtype TYPE: only backend cuda" "${prompt[@]}" --backend cuda --gpumask sm80 --attention sage --pv-dtype fp8 -o a.y4m
if sparge-gen "${prompt[@]}" --backend cuda --gpumask sm89 --steps 1 -o a.y4m 2>log; then
    for attention in sage sparge; do
        sparge-gen compare "${prompt[@]}" --repeat 1 --backend cuda --steps 3 --dense-steps 0 --quiet \
            --arms "$attention:pv-dtype=bf16,$attention:pv-dtype=fp8" -o $attention --json $attention.json || fail
        has $attention.json 'arms[1].settings.pv_dtype=fp8'
    done
    rm -r sage sparge sage.json sparge.json
fi
rm -f a.y4m log
expect_files
