# Two renders to the same name do not meet: one of the two clips is there, whole.
source "$LIB"
run() { sparge-gen "${prompt[@]}" "${small[@]}" --frames 5 -q -s "$1" -o "$2" --threads 1; }
has_mp4 && mp4=mp4
for end in y4m ${mp4-}; do
    run 1 a.$end || fail
    run 2 b.$end || fail
    run 1 c.$end & first=$!
    run 2 c.$end & second=$!
    wait $first || fail
    wait $second || fail
    cmp -s a.$end c.$end || cmp -s b.$end c.$end || fail
    expect_files a.$end b.$end c.$end
    rm -- *
done
