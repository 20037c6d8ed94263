# Jobs outlive their server. SIGTERM ends it at the next step and keeps the queue. After kill -9, in any phase, the
# queue runs, an interrupted job runs again, at most twice, and finished jobs are still there.
source "$LIB"
source "${LIB%/*}/serve.sh"
long='{"prompt": "long", "size": "64x64", "frames": 1, "steps": 1000, "cache": "off"}'
short='{"prompt": "a red ball", "size": "32x32", "frames": 1, "steps": 2, "seed": 5}'
works() { [[ $(curl -s "$url/jobs/$first") == *'"stage":"denoise","done":'[1-9]* ]]; }

start -o results
submit "$short"
done=$id
expect_job completed
call 200 "/jobs/$done/content"
mv answer right.png
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
cmp answer right.png || fail
for attempt in 1 2 3; do
    wait_for works
    call 200 "/jobs/$first"
    [[ $(json answer attempts) == "$attempt" ]] || fail "$attempt: $(<answer)" # a stop by SIGTERM does not count
    stop KILL
    start -o results
done
expect_job failed "$first"
[[ $(json answer error) == *"interrupted three times"* ]] || fail "$(<answer)"
expect_job completed "$second"

# Killed during an upload: there is no job, and the file goes.
head -c 3000000 /dev/zero >upload
curl -s --limit-rate 200K "$url/jobs" -F prompt=x -F image=@upload >/dev/null &
comes() { [[ -n $(find results/uploads -type f -size +50k) ]]; }
wait_for comes
stop KILL
start -o results
[[ -z $(ls results/uploads) ]] || fail "$(ls results/uploads)"

# Killed while a clip is decoded into its file, and while a batch has some of its files: these go.
decodes() { [[ $(curl -s "$url/jobs/$id") == *'"stage":"decode","done":'[1-9]* ]]; }
has_second() { [[ -e results/jobs/$id/content-0002.png ]]; }
gone() { [[ ! -e results/jobs/$id ]]; }
submit '{"prompt": "a", "size": "256x256", "frames": 81, "steps": 1, "cfg_scale": 1, "output_format": "y4m"}'
wait_for decodes
stop KILL
start -o results
call 200 "/jobs/$id" -X DELETE
wait_for gone
submit '{"prompt": "a", "size": "32x32", "frames": 1, "steps": 1, "batch": 10000}'
wait_for has_second
stop KILL
touch "results/jobs/$id/content-9999.png" # as if the render had come so far
start -o results
[[ ! -e results/jobs/$id/content-9999.png ]] || fail "$(ls "results/jobs/$id")"
wait_for has_second
call 200 "/jobs/$id" -X DELETE
stop KILL # before or after the job is removed
start -o results
gone || fail "$(ls "results/jobs/$id")"

# Killed at any moment.
submitted=()
for ((k = 0; k < 20; k++)); do
    for n in 1 2; do
        submit "$short"
        submitted+=("$id")
    done
    sleep "0.$((RANDOM % 4))$((RANDOM % 10))"
    stop KILL
    start -o results
    grep -E "left alone|not taken" log && fail "kill $k"
done
idle() { curl -s "$url/metrics" | grep -cE '^sparge_gen_jobs\{status="(queued|in_progress)"\} 0$' | grep -qx 2; }
wait_for idle
completed=0
for id in "${submitted[@]}"; do
    call 200 "/jobs/$id"
    status=$(json answer status)
    if [[ $status == completed ]]; then
        completed=$((completed + 1))
        call 200 "/jobs/$id/content"
        cmp answer right.png || fail "$id"
    else
        [[ $status == failed && $(json answer error) == "it was interrupted three times" ]] || fail "$(<answer)"
    fi
done
((completed >= 34)) || fail "$completed of 40 completed: a kill interrupts one job, and 20 can end 6 of them"
find results -type f ! -name job.json ! -name content.png ! -name .lock | grep . && fail "files that belong to no job"
stop || fail "exit $?: $(<log)"
