# The same command gives the same clip, dense and sparse.
source "$LIB"

for options in "--dtype f32" "--dtype bf16" "--dtype bf16 --attention sparge --topk 0.5"; do
    for name in a b; do
        # shellcheck disable=SC2086
        sparge-gen "${prompt[@]}" --backend cuda --steps 4 --seed 7 --quiet -o $name.y4m $options 2>log || fail "$(<log)"
    done
    cmp a.y4m b.y4m || fail "$options"
done
