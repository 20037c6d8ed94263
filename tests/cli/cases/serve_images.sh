# OpenAI's API of images and models, as its clients use it: an image has the bits of a job's.
source "$LIB"
source "${LIB%/*}/serve.sh"
start
call 200 /v1/models
[[ $(json answer object 'data[0].id' 'data[0].object') == *list*tiny-wan*model* ]] || fail "$(<answer)"

# What Open WebUI 0.12.4 sends.
webui='{"model": "tiny-wan", "prompt": "a red ball", "n": 1, "size": "32x32", "response_format": "b64_json"}'
post 200 '/v1/images/generations?api-version=1' "$webui" -H 'Authorization: Bearer '
json answer 'data[0].b64_json' | base64 -d >one.png || fail "$(<answer)"
call 200 /jobs
id=$(json answer first_id)
call 200 "/jobs/$id/content"
cmp answer one.png && [[ $(head -c 4 one.png | tail -c 3) == PNG ]] || fail "other bytes"

small='"size": "32x32", "steps": 2'
post 200 /v1/images/generations '{"prompt": "a ball", "n": 2, "response_format": "url", "output_format": "jpeg", "quality": "high", "user": "me", "background": "auto", '"$small}"
[[ $(json answer output_format) == jpeg && $(json answer size) == 32x32 ]] || fail "$(<answer)"
post 200 /v1/images/generations '{"prompt": "a ball", "response_format": "url", '"$small}" -H 'X-Forwarded-Proto: https'
[[ $(json answer 'data[0].url') == https://127.0.0.1:*/content* ]] || fail "$(<answer)"
post 200 /v1/images/generations '{"prompt": "a ball", "n": 2, "response_format": "url", "output_format": "jpeg", '"$small}"
for address in $(json answer 'data[*].url'); do
    [[ $address == "$url"/jobs/* ]] || fail "$address"
    curl -s "$address" | head -c 2 | od -An -tx1 | grep -q 'ff d8' || fail "$address is no JPEG"
done
post 200 /v1/images/generations '{"prompt": "a ball", "quality": null, "style": "vivid", "user": "me", '"$small}"
[[ $(grep "is ignored" log | cut -d ' ' -f 1 | sort) == $'background\nquality\nstyle\nuser' ]] || fail "$(<log)"

post 200 /v1/images/generations '{"prompt": "a ball", "stream": true, "partial_images": 1, "size": "32x32", "steps": 200, "cache": "off"}'
grep '^event: ' answer >events
[[ $(<events) == $'event: image_generation.partial_image\nevent: image_generation.completed' ]] || fail "$(cut -c 1-200 answer)"
sed -n 's/^data: //p' answer | tail -n 1 | json - b64_json | base64 -d | head -c 4 | grep -q PNG || fail "no image"

refused() { # PARAM JSON
    post 400 /v1/images/generations "$2"
    [[ $(json answer error.param error.type) == "$1"*invalid_request_error ]] || fail "$2: $(<answer)"
}
refused n '{"prompt": "a", "n": 11}'
refused response_format '{"prompt": "a", "response_format": "png"}'
refused model '{"prompt": "a", "model": "dall-e-3"}'
refused prompt '{"n": 1}'
refused size '{"prompt": "a", "size": "large"}'
refused mask '{"prompt": "a", "mask": "x"}'
refused path '{"prompt": "a", "path": "x"}'
refused output_format '{"prompt": "a", "output_format": "gif"}'
refused partial_images '{"prompt": "a", "partial_images": 4}'

call 400 /v1/images/edits -F prompt=x -F "image=@one.png" -F "mask=@one.png"
[[ $(json answer error.param) == mask ]] || fail "$(<answer)"
call 400 /v1/images/edits -F prompt=x
[[ $(json answer error.param) == image ]] || fail "$(<answer)"
if [[ -d $FIXTURES/sd35_image ]]; then
    stop
    start -m "$FIXTURES/sd35_image"
    # Open WebUI's, whose model is empty until somebody names one
    for part in image 'image[]'; do
        call 200 /v1/images/edits -F model= -F prompt=x -F n=1 -F size=32x32 -F background=auto -F response_format=b64_json \
            -F "$part=@one.png;type=image/png" -F steps=2
        json answer 'data[0].b64_json' | base64 -d | head -c 4 | grep -q PNG || fail "$(<answer)"
    done
fi

works() { [[ $(curl -s "$url/jobs?limit=1") == *'"status":"in_progress"'* ]]; }
cancelled() { [[ $(curl -s "$url/jobs?limit=1") == *'"status":"cancelled"'* ]]; }

# A client that leaves cancels its image.
curl -s "$url/v1/images/generations" -H 'Content-Type: application/json' -d '{"prompt": "a", "steps": 1000, "size": "64x64"}' &
wait_for works
kill $!
wait_for cancelled

# So does a server that stops, which answers the client with 503.
curl -s -o waited -w '%{http_code}' "$url/v1/images/generations" -H 'Content-Type: application/json' \
    -d '{"prompt": "a", "steps": 1000, "size": "64x64"}' >code &
wait_for works
stop || fail "exit $?: $(<log)"
wait $!
[[ $(<code) == 503 ]] || fail "$(<code)"
start
cancelled || fail "$(curl -s "$url/jobs?limit=1")"
stop || fail "exit $?: $(<log)"
