# Every message that refuses or notes something says what ../messages has: that file tells its format. A command that fails
# prints nothing on stdout and leaves its folder as it is. run.sh --update PROGRAM messages writes the file anew.
source "$LIB"
set -o pipefail
messages=${LIB%/*}/messages
top=$PWD
mapfile -t lines <"$messages"

# As in a row: stderr, then stdout. What fails must print nothing there and leave the files as they are.
sparge-gen() {
    local code=0
    command sparge-gen "$@" 2>&1 >"$top/stdout" || code=$?
    cat "$top/stdout"
    ((code)) || return 0
    [[ ! -s $top/stdout && $(files) == "$there" ]] || { echo "$* left:"; cat "$top/stdout"; files | diff - <(echo "$there"); } >>"$top/left"
    return $code
}

# A filter of rows: sizes depend on the processor.
figures() { sed -E 's/[0-9.]+ GiB/N GiB/g; s/ \(weights.*\)//'; }

# The lines of a section, as they should be, in a folder and a shell of its own.
section() { # FIRST END
    local -i at code
    local line text there=
    mkdir "$top/$1" && cd "$top/$1" || exit 1
    for ((at = $1; at < $2; at++)); do
        line=${lines[at]}
        printf '%s\n' "$line"
        case $line in
            '? '*)
                eval "${line:2}" || { printf '%s\n' "${lines[@]:at+1:$2-at-1}"; return; }
                ;;
            '% '*)
                eval "${line:2}" >&2 || fail "$line"
                there=
                ;;
            '$ '*)
                [[ $there ]] || there=$(files)
                text=$(eval "sparge-gen ${line:2}")
                code=$?
                ((code)) || there=
                text=${text:+ $text}
                printf '%d%s\n' $code "${text//$'\n'/$'\n'  }"
                while [[ ${lines[at + 1]-} == [0-9]* || ${lines[at + 1]-} == '  '* ]]; do at+=1; done
                ;;
        esac
    done
}

first=0
for ((n = 1; n <= ${#lines[@]}; n++)); do
    [[ $n == "${#lines[@]}" || ${lines[n]} == '== '* ]] || continue
    (section $first $n) || fail "section ${lines[first]}"
    first=$n
done >"$top/new"
[[ ! ${UPDATE-} ]] || cp "$top/new" "$messages"
diff -u "$messages" "$top/new" && [[ ! -e $top/left ]] || fail "$(cat "$top/left" 2>/dev/null)" # what should be, what is
