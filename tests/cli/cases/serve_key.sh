# A server with a key answers only clients that have it, under the hosts and from the origins that were named. The queue
# and uploads have limits.
source "$LIB"
source "${LIB%/*}/serve.sh"
key=0123456789abcdef0123
echo $key >key
chmod 644 key
start --host 0.0.0.0 --api-key-file key --allow-host video.example --allow-origin https://app.example --max-queue 1 --max-upload 1K --models . --loras .
grep -qx -e "--api-key-file: key: all users of this machine can read it" log || fail "$(<log)"
url=${url/0.0.0.0/127.0.0.1}
sparge-gen serve --port "${url##*:}" -o other 2>taken
(($? == 1)) && grep -q -e "--port ${url##*:}: Address already in use" taken || fail "$(<taken)"
with=(-H "Authorization: Bearer $key")

call 200 /healthz
for path in /options /jobs /metrics; do call 401 $path; done
call 401 /jobs -H "Authorization: Bearer ${key}x"
call 200 /jobs "${with[@]}"
call 401 "/jobs?api_key=$key"
post 204 /login "{\"key\": \"$key\"}"
cookie=$(sed -n 's/^[Ss]et-[Cc]ookie: \([^;]*\);.*HttpOnly.*SameSite=Strict.*/\1/p' head)
call 200 /jobs -H "Cookie: $cookie"

call 200 /jobs "${with[@]}" -H "Host: video.example"
call 403 /jobs "${with[@]}" -H "Host: other.example"
call 200 /jobs "${with[@]}" -H "Origin: https://app.example"
grep -qi "^access-control-allow-origin: https://app.example" head || fail "$(<head)"
call 403 /jobs "${with[@]}" -H "Origin: https://evil.example"

head -c 2000 /dev/zero >large
call 413 /jobs "${with[@]}" -F prompt=x -F image=@large
post 400 /jobs '{"prompt": "x", "model": "nothing"}' "${with[@]}"
post 400 /jobs '{"prompt": "x", "lora": "nothing:1"}' "${with[@]}"
long='{"prompt": "long", "size": "64x64", "frames": 1, "steps": 1000, "cache": "off"}'
post 202 /jobs "$long" "${with[@]}"
works() { curl -s "$url/jobs" "${with[@]}" | grep -q in_progress; }
wait_for works
post 202 /jobs "$long" "${with[@]}"
post 429 /jobs "$long" "${with[@]}"
grep -qi '^retry-after: ' head || fail "$(<head)"
stop || fail "exit $?: $(<log)"
