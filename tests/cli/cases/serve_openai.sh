# The Python package `openai` gets images, streams, edits and videos, and raises its own errors where it is refused.
source "$LIB"
source "${LIB%/*}/serve.sh"
find_openai || skip "no Python with the package openai"
use() { "$python" -B -W ignore "${LIB%/*}/openai_client.py" "$@" || fail "$(<log)"; }

start
use "$url"
stop || fail "exit $?: $(<log)"

echo 0123456789abcdef0123 >key
start --api-key-file key --max-queue 1 -o guarded
use guarded "$url" "$(<key)"
stop || fail "exit $?: $(<log)"
