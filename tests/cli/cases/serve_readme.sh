# The shell lines of app/serve/README.md work; so do its Python lines, where there is the package openai.
source "$LIB"
source "${LIB%/*}/serve.sh"
has_mp4 || skip "this build writes no MP4"
readme=${LIB%/*}/../../app/serve/README.md
lines_of() { awk -v of="\`\`\`$1" '$0 == "```" { on = 0 } on; $0 == of { on = 1 }' "$readme" | sed "s,http://127.0.0.1:8080,$url,"; }
start
lines_of sh >lines
[[ $(wc -l <lines) -ge 14 ]] || fail "$(<lines)"
set -e
while IFS= read -r line; do
    eval "${line/#curl /curl -f }" >answer || fail "$line"
done <lines
[[ -s ball.mp4 && $(json answer 'images[*]' | wc -l) == 1 ]] || fail "$(<answer)"
lines_of python >lines.py
if find_openai; then
    "$python" -W ignore lines.py >types || fail
    [[ -s ball.png && -s video.mp4 && $(tail -n 1 types) == image_generation.completed ]] || fail "$(<types)"
fi
set +e
stop || fail "exit $?: $(<log)"
