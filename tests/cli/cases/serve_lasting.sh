# Jobs outlive their server: SIGTERM ends it at the next step and keeps the queue; after kill -9 the interrupted job runs again, once.
source "$LIB"
source "${LIB%/*}/serve.sh"
long='{"prompt": "long", "size": "64x64", "frames": 1, "steps": 1000, "cache": "off"}'
short='{"prompt": "a red ball", "size": "32x32", "frames": 1, "steps": 2}'
works() { [[ $(curl -s "$url/jobs/$first") == *'"stage":"denoise","done":'[1-9]* ]]; }

start -o results
submit "$short"
done=$id
expect_job completed
submit "$long"
first=$id
submit "$short"
second=$id
wait_for works
sparge-gen serve -o results --port 0 2>other && fail "two servers of one folder"
grep -q "another server has this folder" other || fail "$(<other)"
stop || fail "exit $?: $(<log)"
touch results/uploads/left
mkdir results/jobs/0123456789abcdef0123456789abcdef

start -o results
[[ $(ls results/uploads results/jobs) != *left* && ! -e results/jobs/0123456789abcdef0123456789abcdef ]] || fail "$(ls -R results)"
call 200 "/jobs/$done/content"
wait_for works
call 200 "/jobs/$first"
[[ $(json answer attempts) == 1 ]] || fail "a stop by SIGTERM counts: $(<answer)"
stop KILL

start -o results
wait_for works
call 200 "/jobs/$first"
[[ $(json answer attempts) == 2 ]] || fail "$(<answer)"
stop KILL

start -o results
expect_job failed "$first"
[[ $(json answer error) == *"interrupted twice"* ]] || fail "$(<answer)"
expect_job completed "$second"
call 200 "/jobs/$second/content"
stop || fail "exit $?: $(<log)"
