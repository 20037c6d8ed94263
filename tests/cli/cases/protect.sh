# No command writes over what it reads, under whatever name.
source "$LIB"
[[ -d $FIXTURES/wan22_ti2v ]] || skip "no mini checkpoints beside the program"
cp "${LIB%/*}"/../fuzz/corpus/image/rgb.png a.png
cp -rL "$FIXTURES/wan22_ti2v" model
chmod -R u+w model
cp a.png b.png
echo "a cat" >p.txt
for name in lora latents mask qkv; do echo "$name" >$name.safetensors; done
echo '{}' >thresholds.json
echo '{}' >model/sparge-gen.json
mkdir single
cp -r model/tokenizer model/vae/config.json single
cp model/vae/*.safetensors single/vae.safetensors
cp -r model tuned
echo '{}' >tuned/sparge-attention.json
ln -s a.png link.png
ln a.png hard.png
mkdir out
printf 'prompt\na cat\n' >out/summary.csv
echo '{}' >out/manifest.json
sums() { find . -type f -exec md5sum {} + | sort; }
before=$(sums)

# reads WHAT ARGUMENT...: the command is misused, as what it would write is what WHAT reads
reads() {
    local code=0
    sparge-gen "${@:2}" >/dev/null 2>log.err || code=$?
    [[ $code == 2 && $(<log.err) == *" is what $1 reads, and would be replaced" ]] || fail "$code: ${*:2}: $(<log.err)"
    rm log.err
}

m=(-m model -p "a cat" --size 32x32 --frames 5 --steps 2)
reads --image tune "${m[@]}" -i a.png -o a.png
reads --image tune "${m[@]}" -i a.png -o ./a.png
reads --image tune "${m[@]}" -i a.png -o link.png
reads --image tune "${m[@]}" -i link.png -o hard.png
reads --image tune "${m[@]}" -i a.png -o t.json --json a.png
reads --prompt-file tune -m model --size 32x32 --frames 5 --prompt-file p.txt -o p.txt
reads --model tune "${m[@]}" -o model/vae/config.json
reads --model tune "${m[@]}" --json model/sparge-gen.json -o t.json --vae lora.safetensors
reads info info a.png --json link.png
reads info info model --json model/vae/config.json
reads --image bench step -m model --size 32x32 --frames 5 -i a.png --json a.png
reads --model bench step -m model --json model/model_index.json
reads --qkv bench attention --qkv qkv.safetensors --json qkv.safetensors
reads --model bench cold -m model --json model/transformer/config.json
reads "the model" "${m[@]}" --lora lora.safetensors:0.5 --json lora.safetensors
reads "the model" "${m[@]}" --high-noise-lora lora.safetensors:1 --json ./lora.safetensors
reads --vae "${m[@]}" --vae lora.safetensors --json lora.safetensors
reads --vae "${m[@]}" --vae single/vae.safetensors --json single/config.json
reads --text-encoder "${m[@]}" --text-encoder single/vae.safetensors --json single/tokenizer/tokenizer_config.json
reads --sparse-config "${m[@]}" --sparse-config thresholds.json --json thresholds.json
reads --block-mask "${m[@]}" --block-mask mask.safetensors --capture-qkv 0:0:mask.safetensors
reads --preview-decoder "${m[@]}" --preview-decoder mask.safetensors --json mask.safetensors
reads "the model" -m tuned -p "a cat" --json tuned/sparge-attention.json
reads --latents -m model --latents latents.safetensors --json latents.safetensors
reads --prompt-file -m model --prompt-file p.txt --json p.txt
SPARGE_GEN_MODEL=model reads "the model" -p "a cat" --json model/vae/config.json
reads --sparse-config compare "${m[@]}" --arms "dense,sparge:sparse-config=thresholds.json" --json thresholds.json
reads --block-mask compare "${m[@]}" --arms "dense,sparge:block-mask=mask.safetensors" --json mask.safetensors
reads compare compare a.png b.png --json b.png
reads --prompts eval -m model --prompts out/summary.csv --size 32x32 --frames 5 --arms dense -o out

# every name that the mini checkpoints have, and those of files that they lack; other files in the folder may be replaced
mkdir names
for name in $(find -L "$FIXTURES" -mindepth 2 -type f -printf '%f\n' | sort -u) wan.gguf models_t5.pth rule.pt pytorch_model.bin \
    added_tokens.json special_tokens_map.json processor_config.json sparge-gen.json; do
    : >"names/$name"
    reads --model bench cold -m names --json "names/$name"
done
rm -r names
sparge-gen "${m[@]}" -q --json model/report.json -o model/clip.y4m >/dev/null
sparge-gen "${m[@]}" -q --json model/report.json -o model/clip.y4m >/dev/null || fail "a clip in the model's folder was not replaced"
rm model/report.json model/clip.y4m
diff <(echo "$before") <(sums) || fail "a file has changed"

# an entry's picture, which is where its clip would be
rm -r out
echo '{"prompt": "a dog"}' >set.jsonl
set=(-m "$FIXTURES/sd35_medium" --prompts set.jsonl --arms dense,dense:cfg-scale=0.5:name=b --size 64x64 --steps 2)
sparge-gen eval "${set[@]}" -q -o out >/dev/null 2>log || fail "$(<log)"
cp a.png out/dense/"a cat-0.png"
echo '{"prompt": "a cat", "image": "out/dense/a cat-0.png"}' >>set.jsonl
sparge-gen eval "${set[@]}" -q -o out >/dev/null 2>log && fail "the clip took its picture's place"
grep -q 'a cat-0.png is what image reads' out/results.jsonl || fail "$(<log)"
cmp a.png out/dense/"a cat-0.png"
