# A sparse render reports how much it left out, in each layer and step, and the command that info prints makes it again.
source "$LIB"
large=(--size 512x512 --frames 1 --steps 2 --cfg-scale 1)
sparge-gen "${prompt[@]}" "${large[@]}" --topk 0.25 --pv 6 --dense-layers 0,4-5 --tail off --json j -v -o a.png 2>log || fail
has j settings.attention=sparge settings.topk=0.25 settings.dense_layers=0,4-5 attention.seconds.predict=0.* \
    attention.totals.{dense=9,sparge=3,density=0.25} 'attention.totals.pv_groups=[1-9]*' 'attention.layers[7].mass=0.*'
[[ $(json j 'attention.layers[*].why' | tr '\n' ' ') == "step step step step step step layer policy policy policy layer layer " ]] || fail "$(<j)"
[[ $(json j 'attention.layers[*].density' | tr '\n' ' ') == "0.25 0.25 0.25 " ]] || fail "$(<j)"
grep -q '^attention: sparge in the last 1 of 2 steps: .*0,4-5' log && grep -q '^attention: 75 % .* 1 of 2 steps .* 3 of 6 layers' log || fail "$(<log)"
grep -q '^step  1  dense  ' log && grep -q '^step  2  sparge   25 % ' log || fail "$(<log)"
makes_again a.png
