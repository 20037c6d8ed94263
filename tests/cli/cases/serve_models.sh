# Models and LoRAs that jobs name: a job has the bits of the command, and tells how long a change of the model took. A
# broken model fails its job, and no other.
source "$LIB"
source "${LIB%/*}/serve.sh"
mini=$FIXTURES/wan21_hd12
[[ -d $mini ]] || skip "no mini checkpoints"
mkdir models loras
ln -s "$SPARGE_GEN_MODEL" models/tiny
ln -s "$FIXTURES/wan21_hd64" models/folder
cp "$mini/transformer/diffusion_pytorch_model.safetensors" models/alone.safetensors
cp "$mini/transformer/config.json" models
ln -s "$SPARGE_GEN_MODEL/fast.safetensors" loras
mkdir models/broken && echo '{' >models/broken/model_index.json
cp -rL "$mini" models/cut && truncate -s -100 models/cut/transformer/*.safetensors
parts=(--vae "$mini/vae/diffusion_pytorch_model.safetensors" --text-encoder "$mini/text_encoder/model.safetensors"
    --tokenizer "$mini/tokenizer")
start -m models/alone.safetensors "${parts[@]}" --models models --loras loras --lora-merge # of jobs that name some

same=(--size 64x64 --frames 1 --steps 2 --seed 5 --backend cpu --quiet)
asked='"prompt": "a red ball", "size": "64x64", "frames": 1, "steps": 2, "seed": 5'
expect_same() { # JSON-MEMBERS NOTICE OPTION...
    submit "{$asked$1}"
    expect_job completed
    [[ $(json answer 'notices[*]') == $2 ]] || fail "$1: $(<answer)"
    call 200 "/jobs/$id/content"
    rm -f own.png
    sparge-gen -p "a red ball" "${same[@]}" "${@:3}" -o own.png >/dev/null || fail
    cmp answer own.png || fail "other bits: $1"
}
call 200 /options
[[ $(json answer 'models[*]') == *alone.safetensors*folder*tiny* && $(json answer 'loras[*]') == fast.safetensors ]] || fail "$(<answer)"
expect_same '' '' -m models/alone.safetensors "${parts[@]}"
expect_same ', "model": "folder"' 'folder was opened in *' -m models/folder
expect_same ', "model": "folder"' '' -m models/folder
expect_same ', "model": "tiny", "lora": ["fast.safetensors:0.5"]' 'tiny was opened in *' -m models/tiny --lora loras/fast.safetensors:0.5
expect_same ', "model": "tiny", "lora": "fast.safetensors:0.7"' 'tiny was opened in *' -m models/tiny --lora loras/fast.safetensors:0.7
grep -qE "^job [0-9a-f]{32}: tiny was opened in [0-9.]+ s and loaded in [0-9.]+ s$" log || fail "$(<log)"
mv models/alone.safetensors models/other.safetensors # the parts of the usual model serve another file alone
expect_same ', "model": "other.safetensors"' 'other.safetensors was opened in *' -m models/other.safetensors "${parts[@]}"

for model in broken cut; do
    post 400 /jobs "{$asked, \"model\": \"$model\"}"
    [[ $(json answer error.param) == model && $(json answer error.message) == "model: $model/"* ]] || fail "$(<answer)"
done
post 400 /jobs "{$asked, \"model\": \"tiny\", \"lora\": \"fast.safetensors:x\"}"
[[ $(json answer error.param) == lora ]] || fail "$(<answer)"
expect_same ', "model": "other.safetensors"' '' -m models/other.safetensors "${parts[@]}"

# A model that breaks while its job waits fails the job, with the cause; the next job has the usual model.
mv models/other.safetensors models/alone.safetensors
submit "{\"prompt\": \"long\", \"size\": \"64x64\", \"frames\": 1, \"steps\": 1000, \"cache\": \"off\"}"
long=$id
submit "{$asked, \"model\": \"folder\"}"
waits=$id
ln -sfn broken models/folder
call 200 "/jobs/$long" -X DELETE
expect_job failed "$waits"
[[ $(json answer error) == "model: folder/model_index.json: "* ]] || fail "$(<answer)"
expect_same '' 'alone.safetensors was opened in *' -m models/alone.safetensors "${parts[@]}"
stop || fail "exit $?: $(<log)"
