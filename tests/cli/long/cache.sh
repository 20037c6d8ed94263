# Steps that are extrapolated: off below 16 steps, the same latents with and without looking, the first and the last computed; and
# arms with caches and numbers of steps of their own.
source "$LIB"
take=(--size 32x48 --frames 5)
render() { sparge-gen "${prompt[@]}" "${take[@]}" --latents "$1.safetensors" -o "$1.y4m" --json "$1.json" "${@:2}" || fail "$1"; }
render off --steps 20 --cache off
render none --steps 20
render usual --steps 20 --cache usual
render shadow --steps 20 --cache shadow
render few --steps 15 --cache fast
render few_off --steps 15
cmp off.y4m none.y4m || fail "off is not the default"
cmp few.y4m few_off.y4m || fail "15 steps are not computed all"
[[ $(tensors usual.safetensors) == "$(tensors shadow.safetensors)" ]] || fail "looking changes the latents"
[[ $(tensors usual.safetensors) != "$(tensors off.safetensors)" ]] || fail "nothing was skipped"
skipped() { printf ,; json "$1.json" 'cache.skipped_steps[*]' | tr '\n' ,; }
[[ $(skipped usual) == "$(skipped shadow)" ]] || fail "looking changes what is skipped"
for step in 0 1 2 3 19; do [[ $(skipped usual) != *,$step,* ]] || fail "step $step is skipped"; done
[[ $(skipped off) == , && $(skipped few) == , ]] || fail "a list where there is none"
has shadow.json 'cache.errors[0]=[0-9]*' cache.latent_error=0.[0-9]*
sparge-gen info usual.y4m >/dev/null 2>&1 && fail "Y4M has no settings"
sparge-gen "${prompt[@]}" "${take[@]}" --steps 20 --cache usual -o again.png --frames 1 || fail
[[ $(sparge-gen info again.png) == *"again: "*" --cache usual"* ]] || fail "the command again lacks the cache"
sparge-gen compare "${prompt[@]}" --repeat 1 "${take[@]}" --arms dense:steps=20,dense:steps=20:cache=usual,dense:steps=12 -o arms >table || fail
has arms/report.json 'arms[1].'{name=dense:steps=20:cache=usual,settings.steps=20,settings.cache=usual,'skipped_steps[0]=[0-9]*'} \
    'arms[2].'{name=dense:steps=12,settings.steps=12} 'arms[2].latents.'{relative_l2,cosine}{'[10]=null','[11]=0.*'}
grep -q '^dense:steps=12: .* dB to dense:steps=20$' table || fail "$(<table)"
echo "a ball" >set.txt
set=(eval --prompts set.txt --size 32x32 --frames 1 --steps 16 -o runs -q --arms)
for i in 1 2; do sparge-gen "${set[@]}" dense,dense:cache=usual:name=b || fail "eval"; done
refused 2 'arm_settings[1].cache: "usual" -> "fast"' "${set[@]}" dense,dense:cache=fast:name=b
refused 2 'arm_settings[1].steps: 16 -> 17' "${set[@]}" dense,dense:cache=usual:steps=17:name=b

# From 30 steps on it is the default of a render, and of nothing else; what has none says so.
few=(--size 32x32 --frames 1)
render twenty_nine "${few[@]}" --steps 29
render thirty "${few[@]}" --steps 30
render thirty_off "${few[@]}" --steps 30 --cache off
[[ $(skipped twenty_nine) == , && $(skipped thirty) == *[0-9]* && $(skipped thirty_off) == , ]] || fail "not from 30 steps on"
sparge-gen "${prompt[@]}" "${few[@]}" --steps 30 -o usual.png 2>log && grep -q '^cache: [0-9]* of 30 .*--cache off' log || fail "$(<log)"
sparge-gen info "${few[@]}" --steps 30 | grep -q "^ *cache usual: " || fail "info does not tell of the cache"
sparge-gen info "${few[@]}" --steps 29 | grep -q "^ *cache" && fail "info tells of a cache where there is none"
sparge-gen "${prompt[@]}" "${few[@]}" --steps 30 --cache off -o off.png -q || fail
sparge-gen info usual.png | grep -q "^again: .* --cache usual" || fail "the command again lacks the default"
sparge-gen info off.png | grep -q "^again: .* --cache off" || fail "the command again gets a cache"
sparge-gen compare "${prompt[@]}" --repeat 1 "${few[@]}" --steps 30 --arms dense,dense:steps=29 -o plain >/dev/null 2>&1 || fail
[[ -z $(json plain/report.json 'arms[*].skipped_steps[*]') ]] || fail "arms with a cache"
