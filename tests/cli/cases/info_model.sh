# What is in a model, what it renders unless told otherwise, and what that takes.
source "$LIB"
sparge-gen info --json - --size 32x32 --frames 5 >j || fail
has j format=sparge-gen command=info version=[1-9]* family=wan defaults.{width=32,height=32,frames=5,steps=[1-9]*} plan.peak_bytes=[1-9]* size_multiple=16 image=optional
[[ $(json j 'components[*].parameters' | grep -c '^[1-9]') == 3 ]] || fail "$(json j 'components[*].parameters')"
sparge-gen info "$SPARGE_GEN_MODEL" --size 32x32 --frames 5 >text || fail
# What is free changes from one moment to the next.
same_but_bytes() { cmp <(grep -v _bytes "$1") <(grep -v _bytes "$2"); }
# With a file's name the text is printed, too; an earlier report is replaced, another file only beside what is asked about.
for _ in first again; do sparge-gen info --json k --size 32x32 --frames 5 >too && same_but_bytes j k || fail "$(diff j k)"; done
[[ $(head -n 1 too) == "$(head -n 1 text)" ]] || fail "$(<too)"
refused 2 "too is there and is no report" info --json too
refused 2 "needs a value" info --json
for line in tiny-wan: component render attention picture device denoising decoding peak; do grep -q "^$line " text || fail "no $line"; done

# How weights may lie, and which way is taken: those that are not quantised in one way; others as the file has them, or widened,
# which takes more. On a GPU blocks of layers are on the device, or, where these are too many, on the host.
[[ $(json j 'ways[*].offloaded' 'ways[*].taken') == "false true" ]] || fail "$(json j 'ways[*].taken')"
! grep "^weights as" text || fail "one way is no choice"
{ echo "file transformer/" && shapes_of "$SPARGE_GEN_MODEL"/transformer/*.safetensors; } >shapes
published_gguf wan transformer Q8_0 shapes
quantised=(--model "$SPARGE_GEN_MODEL" --diffusion-model wan-transformer-Q8_0.gguf --attention dense --size 32x32 --frames 5)
for as in file bf16; do
    sparge-gen info "${quantised[@]}" --dtype bf16 --weights-as $as --json j >text || fail $as
    has j 'ways[0].weights_as=file' 'ways[1].weights_as=bf16' 'ways[0].offloaded=false' 'ways[1].offloaded=false'
    [[ $(json j 'ways[*].taken') == $([[ $as == file ]] && printf 'true\nfalse' || printf 'false\ntrue') ]] || fail $as
    (($(json j 'ways[0].peak_bytes') < $(json j 'ways[1].peak_bytes'))) || fail "$(<text)"
    grep -A 2 '^weights as' text | grep -q "^$as .* <- taken$" || fail "$(<text)"
done
gpu=(info "${quantised[@]}" --backend cuda --dtype bf16)
sparge-gen "${gpu[@]}" --memory-limit 1G --json j >text || fail
[[ $(json j 'ways[*].taken' | tr '\n' ' ') == "true false false false " ]] || fail "$(<text)"
need=$(json j 'ways[0].need_bytes')
((need == $(json j plan.need_bytes) && need > $(json j 'ways[1].need_bytes'))) || fail "$(<text)"
sparge-gen "${gpu[@]}" --memory-limit "$(json j 'ways[1].need_bytes')" --json j >text || fail
[[ $(json j 'ways[*].taken' | tr '\n' ' ') == "false true false false " ]] || fail "$(<text)"
has j plan.denoise.blocks_on_host=[3-6] "ways[1].host_bytes=$(json j plan.host_bytes)" "ways[1].need_bytes=$(json j plan.need_bytes)"
grep -q '^file .* offloaded  <- taken$' text && grep -q '^offload .* of the denoiser, [3-6] blocks, stay on the host' text || fail "$(<text)"
sparge-gen "${gpu[@]}" --memory-limit 10K --json j >text || fail
[[ $(json j 'ways[*].taken' | sort -u) == false ]] || fail "$(<text)"
