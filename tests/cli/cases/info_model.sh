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
