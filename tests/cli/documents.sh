# shellcheck shell=bash disable=SC2154
# Runs the commands of documents: all lines of their fenced blocks without a language. Sourced by cases after lib.sh.
#
# A checkpoint is a mini under the name that the document has, a prompt set its first two prompts, and so on: `furnish`. Renders
# are made small by a sparge-gen before the real one, which takes for --size, --frames and --steps what `shrink` says.

# What cannot be run here: how many commands begin so, and how.
not_run=(
    '6 (git|pip|hf|vbench) '                       # needs the network
    '1 app/run '                                   # installs packages; tests/install runs it with stand-ins
    '7 (cmake|\(cd build|tests/run|mkdir new|SPARGE_GEN_CPUMASK=)' # builds, or runs all tests
    '17 (python3|venv/bin/python|PYTHON=|tests/bench/)' # needs PyTorch
    '1 mpirun '
)

commands_of() { # FILE: each on a line, with those that go on joined, NUMBER:COMMAND
    awk '/^```/ { plain = !inside && $0 == "```"; inside = !inside; next }
        plain && !/^ *(#|$)/ { if (!at) at = FNR; line = line $0; if (sub(/\\$/, "", line)) next; print at ":" line; at = line = "" }' "$1"
}

furnish() {
    local set
    [[ -d $FIXTURES/wan21_hd12 ]] || skip "no mini checkpoints beside the program"
    has_mp4 || skip "this build writes no MP4"
    export OMP_NUM_THREADS=1
    declare -A mini=([wan-1.3b]=wan21_hd64 [Wan2.2-T2V-A14B]=wan22_a14b [Wan2.2-I2V-A14B]=wan22_i2v [FLUX.1-schnell]=flux_schnell
        [sd3.5-medium]=sd35_image [clip-vit-base-patch32]=judge/clip [DIR]=judge/clip)
    for set in "${!mini[@]}"; do ln -s "$FIXTURES/${mini[$set]}" "$set"; done
    ln -s "$FIXTURES/wan21_hd12/transformer/diffusion_pytorch_model.safetensors" wan2.1-t2v-14b-Q8_0.gguf
    ln -s "$FIXTURES/wan21_hd12/vae/diffusion_pytorch_model.safetensors" wan_2.1_vae.safetensors
    ln -s "$FIXTURES/wan21_hd12/text_encoder/model.safetensors" umt5-xxl-encoder-Q8_0.gguf
    mkdir google prompts crop crop/16-9
    ln -s "$FIXTURES/wan21_hd12/tokenizer" google/umt5-xxl
    echo '{"transformer": {"num_attention_heads": 2, "attention_head_dim": 12}}' >sparge-gen.json
    for set in "${LIB%/*}"/../../prompts/*.csv; do head -n 3 "$set" >"prompts/${set##*/}"; done
    printf 'a red ball\na blue cube\n' >prompts.txt
    printf '{"prompt": "a red ball"}\n' >set.jsonl
    echo '[{"prompt_en": "a red ball", "dimension": ["color"]}]' >VBench_full_info.json
    echo '[{"prompt_en": "the cat looks up", "file_name": "cat.jpg", "type": "animal"}]' >i2v-bench-info.json
    ln -s "$pictures/large.jpg" cat.jpg
    ln -s "$pictures/large.jpg" crop/16-9/cat.jpg
    command sparge-gen "${prompt[@]}" --size 64x64 --frames 9 --steps 1 -q -o dense.mp4
    cp dense.mp4 sparse.mp4
    cp dense.mp4 dog.mp4
    mkdir -p path/to essays
    ln -s "${LIB%/*}/../../weights/tiny-language" path/to/llama
    for set in wiki.test.raw essays/a.txt; do cp "${LIB%/*}/../../README.md" $set; done
    printf '{"input": "a", "answers": ["b"]}\n' >narrativeqa.jsonl
    for set in dense sparse; do mkdir $set && command sparge-gen "${prompt[@]}" --size 64x64 --frames 5 --steps 1 -q -o $set/%02d.png; done
}

# compare, eval and tune need 1,024 tokens to have something to compare, and take a mini in place of tiny-wan; models of images have
# one frame.
shrink() {
    local small=64x64 frames=5 steps=2 args=() sized='' framed='' stepped='' SPARGE_GEN_MODEL=$SPARGE_GEN_MODEL
    case $* in
    compare*Wan2.2* | eval*Wan2.2*) small=256x256 frames=13 ;;
    compare* | eval* | tune*) frames=31 SPARGE_GEN_MODEL=$FIXTURES/wan21_hd64 ;;
    esac
    while (($#)); do
        case $1 in
        --size) args+=("$1" "$small") sized=1 && shift ;;
        --frames) args+=("$1" $((${2} == 1 ? 1 : frames))) framed=1 && shift ;;
        --steps) args+=("$1" $((${2} < 16 ? steps : 16))) stepped=1 && shift ;;
        FLUX* | sd3*) args+=("$1") framed=1 ;;
        *) args+=("$1") ;;
        esac
        shift
    done
    [[ $sized ]] || args+=(--size "$small")
    [[ $framed ]] || args+=(--frames "$frames")
    [[ $stepped ]] || args+=(--steps "$steps")
    command sparge-gen "${args[@]}"
}

# A text is short.
shrink_text() {
    local args=()
    while (($#)); do
        args+=("$1")
        [[ $1 != --lengths ]] || { args+=(400) && shift; }
        shift
    done
    command sparge-gen "${args[@]}"
}

sparge-gen() {
    case $* in
    language*) shrink_text "$@" ;;
    *--merge* | compare\ [^-]*) command sparge-gen "$@" ;;
    info*--size* | -* | compare* | eval* | tune*) shrink "$@" ;;
    *) command sparge-gen "$@" ;;
    esac
}

# Runs those of the documents. Ends unless as many as above are left out.
run_documents() { # FILE...
    local file at line i ran=0 left=()
    for file; do
        while IFS=: read -r at line; do
            for i in "${!not_run[@]}"; do
                [[ $line =~ ^${not_run[i]#* } ]] && left[i]=$((${left[i]-0} + 1)) && continue 2
            done
            [[ $line == sparge-gen\ * || $line == head\ * ]] || fail "$file:$at: no command that is known: $line"
            eval "$line" >log 2>&1 </dev/null || fail "$file:$at: $line
$(tail -n 5 log)"
            ran=$((ran + 1))
        done < <(commands_of "${LIB%/*}/../../$file")
    done
    for i in "${!not_run[@]}"; do
        [[ ${left[i]-0} == "${not_run[i]%% *}" ]] || fail "${left[i]-0} commands begin with ${not_run[i]#* }, which are not run"
    done
    echo "$ran commands were run, $(IFS=+ && echo $((${left[*]}))) were not"
    ((ran > 30))
}
