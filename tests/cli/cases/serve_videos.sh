# /v1/videos as OpenAI's clients use it, and txt2img of Stable Diffusion web UI.
source "$LIB"
source "${LIB%/*}/serve.sh"
start
call 200 /v1/videos -F prompt="a red ball" -F model=tiny-wan -F seconds=0.5 -F size=32x32 -F steps=2
id=$(json answer id)
[[ $(json answer object status) == video*@(queued|in_progress) && $id =~ ^[0-9a-f]{32}$ ]] || fail "$(<answer)"
over() { call 200 "/v1/videos/$id" && [[ $(json answer status) != @(queued|in_progress) ]]; }
wait_for over
[[ $(json answer status progress size model prompt error) == completed*100*32x32*tiny-wan*"a red ball"*null ]] || fail "$(<answer)"
[[ $(json answer seconds) == 0.* && $(json answer completed_at) -ge $(json answer created_at) ]] || fail "$(<answer)"
call 200 "/v1/videos/$id/content"
cp answer video
call 200 "/jobs/$id/content"
cmp answer video || fail "other bytes"
call 200 "/v1/videos?limit=1"
[[ $(json answer object 'data[0].id' has_more) == list*$id*false ]] || fail "$(<answer)"

sparge-gen -p x --size 32x32 --frames 1 --steps 1 -q -o one.png >/dev/null || fail
call 200 /v1/videos -F prompt=x -F "input_reference=@one.png" -F size=32x32 -F frames=5 -F steps=2
id=$(json answer id)
expect_job completed
[[ $(json answer 'inputs[0]') == image ]] || fail "$(<answer)"
call 200 "/jobs/$id/inputs/image"
cmp answer one.png || fail "not what was uploaded"
grep -qi '^content-type: application/octet-stream' head && grep -qi '^content-disposition: attachment' head &&
    grep -qi '^x-content-type-options: nosniff' head || fail "a browser may take it for a page: $(<head)"
for name in video job.json content.mp4; do call 404 "/jobs/$id/inputs/$name"; done
call 404 "/jobs/0123456789abcdef0123456789abcdef/inputs/image"
call 400 /v1/videos -F prompt=x -F "input_reference=@one.png" -F "image=@one.png"
post 400 /v1/videos '{"prompt": "x", "input_reference": {"image_url": "http://x/"}}'
[[ $(json answer error.param error.message) == input_reference*upload* ]] || fail "$(<answer)"

# What SGLang 0.5.23 and FastVideo 0.2.1 send: their benchmarks, which wait for /health, send a picture, and SGLang's
# nodes for ComfyUI a video.
call 200 /health
call 200 /v1/videos -F model=tiny-wan -F prompt=x -F num_outputs_per_prompt=2 -F size=32x32 -F num_frames=5 -F fps=8 \
    -F num_inference_steps=2 -F "input_reference=@one.png;type=application/octet-stream"
id=$(json answer id)
[[ $(json answer seconds size) == *0.625*32x32* ]] || fail "$(<answer)"
expect_job completed
[[ $(json answer 'files[*].file' | wc -l) == 2 && $(json answer made.fps) == 8 ]] || fail "$(<answer)"
call 200 "/v1/videos/$id/content?variant=1"
cp answer second
call 200 "/jobs/$id/content?index=1"
cmp answer second || fail "another variant"
call 404 "/v1/videos/$id/content?variant=2"
call 400 "/v1/videos/$id/content?variant=thumbnail"
post 200 /v1/videos '{"prompt": "x", "size": "32x32", "seconds": 4, "fps": 8, "num_frames": 5, "guidance_scale": 1.0,
    "num_inference_steps": 2, "seed": 3, "enable_teacache": true, "generator_device": "cuda", "negative_prompt": null}'
call 200 "/jobs/$(json answer id)"
[[ $(json answer settings.frames settings.seconds settings.cfg_scale) == "5 - 1"* ]] || fail "$(<answer)"
call 200 /v1/videos -F prompt=x -F size=32x32 -F num_frames=5 -F num_inference_steps=2 -F strength=0.5 -F "video_reference=@second"
call 200 "/jobs/$(json answer id)"
[[ $(json answer 'inputs[0]') == video ]] || fail "$(<answer)"

post 400 /v1/videos '{"prompt": "x", "seconds": "many"}'
[[ $(json answer error.param) == seconds ]] || fail "$(<answer)"
post 200 /v1/videos '{"prompt": "x", "seconds": "0.3", "size": "32x32", "steps": 1000}'
id=$(json answer id)
call 200 "/v1/videos/$id" -X DELETE
[[ $(json answer object deleted) == video*true ]] || fail "$(<answer)"
gone() { [[ $(curl -s -o /dev/null -w '%{http_code}' "$url/v1/videos/$id") == 404 ]]; }
wait_for gone

# What Open WebUI 0.12.4 asks of Stable Diffusion web UI.
call 200 /sdapi/v1/options -H 'Authorization: Basic eDp5'
[[ $(json answer sd_model_checkpoint) == tiny-wan ]] || fail "$(<answer)"
call 200 /sdapi/v1/sd-models
[[ $(json answer '[0].title' '[0].model_name') == "tiny-wan tiny-wan" ]] || fail "$(<answer)"
post 200 /sdapi/v1/txt2img '{"prompt": "a ball", "batch_size": 1, "width": 32, "height": 32, "steps": 2, "negative_prompt": ""}'
[[ $(json answer 'images[*]' | wc -l) == 1 ]] || fail "$(cut -c 1-300 answer)"
post 400 /sdapi/v1/txt2img '{"prompt": "a ball", "override_settings": {"sd_model_checkpoint": "other"}}'
[[ $(json answer error.param) == model ]] || fail "$(<answer)"
post 200 /sdapi/v1/txt2img '{"prompt": "a ball", "negative_prompt": "", "steps": 2, "width": 32, "height": 48, "cfg_scale": 7, "seed": -1,
    "sampler_name": "Euler a", "batch_size": 2, "n_iter": 1, "restore_faces": false, "override_settings": {}}'
[[ $(json answer 'images[*]' | wc -l) == 2 ]] || fail "$(cut -c 1-300 answer)"
json answer 'images[1]' | base64 -d | head -c 4 | grep -q PNG || fail "no image"
[[ $(json answer parameters.height) == 48 && $(json answer info) == *seed* ]] || fail "$(<answer)"
post 400 /sdapi/v1/txt2img '{"prompt": "a", "steps": 0}'
[[ $(json answer error.param) == steps ]] || fail "$(<answer)"
stop || fail "exit $?: $(<log)"
