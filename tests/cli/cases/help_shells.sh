# Completion of options, values and commands in bash; the manual page has every option.
source "$LIB"
sparge-gen help bash >completion || fail
source ./completion
complete_line() {
    COMP_WORDS=("$@") COMP_CWORD=$(($# - 1)) COMPREPLY=()
    _sparge_gen
    echo "${COMPREPLY[*]}"
}
[[ $(complete_line sparge-gen comp) == compare ]] || fail "a command"
[[ $(complete_line sparge-gen --neg) == --negative-prompt ]] || fail "an option"
[[ $(complete_line sparge-gen --attention s) == "sage sparge" ]] || fail "a value"
[[ $(complete_line sparge-gen bench attention --order hilbert-) == "hilbert-cube hilbert-frame" ]] || fail "of bench attention"
[[ -z $(complete_line sparge-gen info --sampler) ]] || fail "an option of another command"
touch clip.mp4
[[ $(complete_line sparge-gen info cl) == clip.mp4 ]] || fail "a file"
rm clip.mp4
touch "two words.txt"
complete_line sparge-gen --prompt-file tw >/dev/null
[[ ${#COMPREPLY[@]} == 1 ]] || fail "a name with a blank is one word"
[[ $(complete_line sparge-gen --attention = s) == "sage sparge" ]] || fail "a value after ="
[[ $(complete_line sparge-gen --offload =) == "auto off on" ]] || fail "no value after ="
sparge-gen help zsh | grep -q -- "'--attention=\[.*\]:KIND:(dense sage sparge)'" || fail "zsh"
sparge-gen help man >page || fail
for command in "" compare eval tune info "bench step" "bench attention" "bench cold" check; do
    # shellcheck disable=SC2086
    sparge-gen $command --help all | sed -nE 's/^ +(-., )?(--[a-z0-9-]+).*/\2/p' | sed 's/-/\\\\-/g' | while read -r option; do
        grep -q -e "$option" page || fail "the manual page lacks $option"
    done || exit 1
done
! grep -E '.\.(TP|SH|SS|br)' page || fail "a request of the manual page does not begin its line"
