# A job over HTTP has the bits of the command. A wrong member is refused by its name; /options lists those there are.
source "$LIB"
source "${LIB%/*}/serve.sh"
start --threads 1 --memory-limit 600M

call 200 /healthz
[[ $(<answer) == '{"status":"ok"}' ]] || fail "$(<answer)"
call 200 /options
for name in prompt size frames steps seed attention topk output_format; do grep -q "\"name\":\"$name\"" answer || fail "no $name"; done
grep -qE '"name":"(output|json|threads|image)"' answer && fail "a path, or the machine, is a job's to choose"
[[ $(json answer 'models[*]' 'inputs[*]') == "tiny-wan"* ]] || fail "$(json answer 'models[*]')"

submit '{"prompt": "a red ball", "size": "32x48", "frames": 1, "steps": 2, "seed": 5}'
grep -qi "^location: /jobs/$id" head || fail "$(<head)"
[[ $id =~ ^[0-9a-f]{32}$ && $(json answer object) == job ]] || fail "$(<answer)"
expect_job completed
[[ $(json answer settings.seed) == 5 && $(json answer 'files[0].file') == content.png && $(json answer made.width) == 32 ]] || fail "$(<answer)"
call 200 "/jobs/$id/content"
grep -qi '^content-type: image/png' head || fail "$(<head)"
mv answer served.png
sparge-gen --backend cpu --threads 1 -p "a red ball" --size 32x48 --frames 1 --steps 2 --seed 5 -q -o own.png >/dev/null || fail
cmp served.png own.png || fail "other bits"
call 206 "/jobs/$id/content" -H 'Range: bytes=0-7'
[[ $(wc -c <answer) == 8 ]] || fail "a range"
call 404 "/jobs/$id/content?index=1"

# A form, with a video, which has to be long enough.
from_video=(-F prompt=ball -F size=32x32 -F steps=2 -F strength=0.5 -F output_format=y4m -F video=@video.y4m)
sparge-gen -p ball --size 32x32 --frames 5 --steps 1 -q -o video.y4m >/dev/null || fail
call 400 /jobs "${from_video[@]}" -F frames=9
[[ $(json answer error.param) == video ]] || fail "$(<answer)"
call 202 /jobs "${from_video[@]}" -F frames=5
first=$(json answer id)
[[ $(json answer 'inputs[0]') == video ]] || fail "$(<answer)"
call 400 /jobs -F prompt=ball -F "mask=@served.png"
[[ $(json answer error.param) == mask ]] || fail "$(<answer)"
ls served/uploads | grep . && fail "an upload was left"

# What is wrong.
refused() { # PARAM JSON
    post 400 /jobs "$2"
    [[ $(json answer error.param) == "$1" ]] || fail "$2: $(<answer)"
}
refused promt '{"promt": "a"}'
refused prompt '{}'
refused frames '{"prompt": "a", "frames": 0}'
refused frames '{"prompt": "a", "frames": "9"}'
refused output '{"prompt": "a", "output": "/tmp/x.mp4"}'
refused image '{"prompt": "a", "image": "/etc/passwd"}'
refused model '{"prompt": "a", "model": "../x"}'
refused lora '{"prompt": "a", "lora": ["x"]}'
printf -v long '%20000s' a
refused prompt "{\"prompt\": \"$long\"}"
refused null '[1]'
refused null '{"prompt": '
post 413 /jobs '{"prompt": "a", "size": "1024x1024", "frames": 81}'
call 415 /jobs -d prompt=a
call 405 /jobs -X PUT
call 404 /jobs/0123456789abcdef0123456789abcdef
call 404 '/jobs/..%2f..%2fetc'
call 404 /nothing
call 403 /healthz -H 'Host: evil.example'
call 403 /jobs -H 'Origin: https://evil.example'

# The list, the newest first; a job that waits or works is ended by DELETE, and gone.
submit '{"prompt": "long", "size": "64x64", "frames": 1, "steps": 1000, "cache": "off"}'
long=$id
submit '{"prompt": "waits", "frames": 1}'
call 200 '/jobs?limit=2'
[[ $(json answer 'data[*].id') == "$id"$'\n'"$long" && $(json answer has_more) == true ]] || fail "$(<answer)"
call 200 "/jobs?order=asc&after=$first"
[[ $(json answer first_id) == "$long" ]] || fail "$(<answer)"
call 400 '/jobs?limit=x'
call 200 "/jobs/$id" -X DELETE
call 404 "/jobs/$id"
call 200 "/jobs/$long" -X DELETE
gone() { [[ $(curl -s -o /dev/null -w '%{http_code}' "$url/jobs/$long") == 404 ]]; }
wait_for gone
call 200 /metrics
grep -q '^sparge_gen_jobs{status="queued"} 0$' answer || fail "$(<answer)"
grep -q '^sparge_gen_http_requests_total [1-9]' answer || fail "$(<answer)"
grep -q '^sparge_gen_jobs_ended_total{status="completed"} [1-9]' answer || fail "$(<answer)"
grep -q '^sparge_gen_work_seconds_total .*[1-9]' answer || fail "$(<answer)"
# each sample has a type, which stands before it
awk '$1 == "#" { if ($2 == "TYPE") type[$3] = $4; next }
    { name = $1; sub(/{.*/, "", name) }
    NF != 2 || $2 !~ /^[0-9.]+$/ || type[name] != (name ~ /_total$/ ? "counter" : "gauge") { exit 1 }' answer || fail "$(<answer)"
stop || fail "exit $?: $(<log)"
