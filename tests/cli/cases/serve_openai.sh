# The package `openai`, as programs use it, makes images and videos, is refused by its own errors, and gets along without a word of ours.
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

if [[ -d $FIXTURES/sd35_image ]]; then
    start -m "$FIXTURES/sd35_image"
    use edit "$url" "$pictures/../../fuzz/corpus/image/rgb.png"
    stop || fail "exit $?: $(<log)"
fi
