# The first help fits on a screen; help COMMAND and COMMAND --help are one text, and so are the two names of all options.
source "$LIB"
(($(sparge-gen --help | wc -l) <= 45)) || fail "more than 45 lines"
[[ $(sparge-gen help) == "$(sparge-gen --help)" ]] || fail
[[ $(sparge-gen help all) == "$(sparge-gen --help all)" ]] || fail
[[ $(sparge-gen help render) == "$(sparge-gen help all)" ]] || fail "help render"
[[ $(sparge-gen help help) == "$(sparge-gen help)" ]] || fail "help help"
for command in compare eval tune info "bench attention"; do
    # shellcheck disable=SC2086
    [[ $(sparge-gen help $command) == "$(sparge-gen $command --help)" ]] || fail "$command"
done
(($(for command in all compare eval tune info check "bench step" "bench attention" "bench cold"; do
    # shellcheck disable=SC2086
    sparge-gen help $command
done | awk 'length > m { m = length } END { print m + 0 }') <= 120)) || fail "a line is longer than 120 characters"
# An underscore is a hyphen.
sparge-gen --num_frames x 2>&1 | grep -qF "sparge-gen: --frames: 'x' is not a whole number" || fail "underscores"
[[ $(sparge-gen help evla 2>&1) == *"did you mean eval?" ]] || fail "a misspelt command"
