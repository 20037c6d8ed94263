# What is kept has limits: the number of finished jobs, the bytes of all, the space of the disk. On a full disk the job
# at work fails and others are refused, without a path in the message; the server goes on.
source "$LIB"
source "${LIB%/*}/serve.sh"
short='{"prompt": "a", "size": "64x64", "frames": 1, "steps": 1}'
long='{"prompt": "long", "size": "64x64", "frames": 1, "steps": 1000, "cache": "off"}'
done_job() {
    submit "$short"
    expect_job completed
}

start --max-jobs 2
done_job
first=$id
done_job
done_job
call 404 "/jobs/$first"
[[ ! -e served/jobs/$first && $(find served/jobs -name content.png | wc -l) == 2 ]] || fail "$(ls -R served)"
stop || fail

start --max-disk 32K # as a render without compression counts
second=$id
post 413 /jobs '{"prompt": "a", "size": "256x256", "frames": 1, "steps": 1}'
for i in 1 2 3 4 5; do done_job; done
call 404 "/jobs/$second"
bytes=$(find served/jobs -type f -printf '%s+')
((${bytes}0 <= 32768)) || fail "$bytes"
stop || fail

full_disk 200k
rm disk/full
start -o disk/served
trap 'kill -9 $server 2>/dev/null; wait $server; umount disk' EXIT
done_job
submit "$long"
working() { [[ $(curl -s "$url/jobs/$id") == *'"stage":"denoise"'* ]]; }
wait_for working
head -c 1M /dev/zero >disk/full 2>/dev/null
post 507 /jobs "$short"
[[ $(json answer error.message) != *disk/* ]] || fail "$(<answer)"
call 200 "/jobs/$id" -X DELETE
rm disk/full
done_job
head -c 1M /dev/zero >disk/full 2>/dev/null
truncate -s -8192 disk/full # for job.json, but no result
submit '{"prompt": "a", "size": "128x128", "frames": 9, "steps": 1, "output_format": "y4m"}'
expect_job failed
[[ $(json answer error) == "content.y4m: "*"No space left on device" ]] || fail "$(<answer)"
rm disk/full
done_job
stop || fail "exit $?: $(<log)"
