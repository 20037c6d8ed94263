# Every level that the GPU has renders, and says what it ran as; one above the GPU's own is refused in one line.
source "$LIB"

for level in sm80 sm89 sm90; do
    code=0
    sparge-gen "${prompt[@]}" --gpumask $level --attention sparge --steps 3 -o $level.y4m 2>log || code=$?
    if ((code == 0)); then
        grep -q " as $level" log || fail "$level: $(<log)"
        [[ -s $level.y4m ]] || fail "$level: no clip"
    else
        ((code == 1)) && [[ $level != sm80 ]] || fail "$level: exit $code: $(<log)"
        [[ $(<log) == "sparge-gen: --gpumask LEVEL: "*$level ]] || fail "$level: $(<log)"
        [[ ! -e $level.y4m ]] || fail "$level: a clip all the same"
    fi
    rm -f $level.y4m log
done
expect_files
