# Arms that would run the same kernels are refused before anything is rendered, on a terminal in red.
source "$LIB"
try compare --prompt ball "${small[@]}" --frames 1
try compare --prompt ball "${small[@]}" --frames 1 --arms dense,sage --repeats 2
try compare --prompt ball --size 512x512 --frames 1 --steps 4 --arms sage,sage:dense-steps=0.25:name=b
try compare --prompt ball "${small[@]}" --frames 1 --steps 15 --arms dense,dense:cache=usual
try compare --prompt ball --size 512x512 --frames 1 --steps 4 --arms sage,dense,sage:dense-layers=0-5
try compare --prompt ball --size 512x512 --frames 1 --steps 4 --arms dense,sparge:topk=0.5,sparge:topk=0.5:name=again
expect_files
script -qec true /dev/null &>/dev/null || exit 0
TERM=xterm script -qec "sparge-gen compare --prompt ball ${small[*]} --frames 1 -o x" /dev/null >log && fail "it is no failure"
grep -q $'\x1b\\[31msparge-gen: --arms: dense and sparge would run the same kernels' log || fail "not red: $(<log)"
