# Help goes to stdout and knows every command and option; the first one fits on a screen. Each command explains itself, by its own
# options only; help COMMAND and COMMAND --help are one text, and so are the two names of all options.
source "$LIB"
commands=(compare eval tune language info check "bench step" "bench attention" "bench cold")
sparge-gen --help >first 2>log || fail
[[ ! -s log && $(wc -l <first) -le 45 ]] || fail "more than 45 lines, or some on stderr"
for command in "${commands[@]}"; do grep -q "^  sparge-gen $command " first || fail "no $command"; done
for option in prompt model output size frames steps seed attention topk json quiet; do grep -q -- " --$option" first || fail "$option"; done
sparge-gen >log 2>nothing # nothing asked for: help, but on stderr, and not counted as success
[[ $? == 2 && ! -s log && $(<nothing) == "$(<first)" ]] || fail "$(<nothing)"
[[ $(sparge-gen help) == "$(<first)" && $(sparge-gen help help) == "$(<first)" ]] || fail "help"
sparge-gen help all >all || fail
[[ $(sparge-gen --help all) == "$(<all)" && $(sparge-gen help render) == "$(<all)" ]] || fail "help all"
cat first all >texts
for command in "${commands[@]}"; do
    # shellcheck disable=SC2086
    sparge-gen help $command | tee -a texts >of && [[ $(sparge-gen $command -h) == "$(<of)" ]] || fail "$command"
    [[ $(head -n 1 of) == "  sparge-gen $command "* && $(<of) == *--threads* ]] || fail "$(<of)"
done
awk 'length > 120 { exit 1 }' texts || fail "a line is longer than 120 characters"
of() { sparge-gen $1 --help | grep -q -e "$2"; } # "COMMAND" TEXT
of info "--json FILE" && of "bench attention" --shape || fail "an option of their own"
of info --sampler || of "bench step" --shape || of check --output && fail "an option of another command"
of "bench attention" "wan14b-480p, tiny-wan" && of "bench attention" "llama-8b-24k, llama-8b-128k" && of "bench attention" "flux-1024, flux-2048, sd35-1024" || fail "no shapes of models"
sparge-gen bench --help | grep -q "bench attention" || fail bench

sparge-gen --version >version || fail
[[ $(head -n 1 version) == "sparge-gen "[0-9]*.[0-9]*.[0-9]*", writes "*".png, .jpg, .y4m" && $(wc -l <version) == 7 ]] || fail "$(<version)"
for line in CUDA oneDNN FFmpeg stb_image libmicrohttpd "^License: Apache-2.0$"; do grep -q "$line" version || fail "no $line in $(<version)"; done
sparge-gen --num_frames x 2>&1 | grep -q -- "--frames: 'x'" || fail "an underscore is a hyphen"
sparge-gen help attention >attention && grep -q "^  sparge-gen compare -p" attention && grep -q -- " --topk X" attention ||
    fail "$(<attention)"
grep -q -- --sampler attention && fail "an option of another section"
[[ $(sparge-gen help seconds) == "Of render, compare, eval, info:"*"--seconds X"* ]] || fail "$(sparge-gen help seconds)"
[[ $(sparge-gen help repeat) == *"Of compare:"*"(also --repeats)"*"Of bench step, bench attention, bench cold:"* ]] || fail "$(sparge-gen help repeat)"
[[ $(sparge-gen help generate) == "$(<all)" ]] || fail "help generate"
[[ $(sparge-gen help evla 2>&1) == *"did you mean eval?" ]] || fail "a misspelt command"
