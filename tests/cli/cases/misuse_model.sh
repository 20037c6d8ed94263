# Options of which only the model tells that they would do nothing are refused before it works.
source "$LIB"
cp -rs "$(readlink -f "$SPARGE_GEN_MODEL")" model
rm model/sparge-gen.json
echo '{"cfg_scale": 1}' >model/sparge-gen.json
export SPARGE_GEN_MODEL=$PWD/model
small=(--size 32x32 --frames 1 --steps 1 -q)
try --prompt x "${small[@]}" --cfg-scale-2 2
try --prompt x "${small[@]}" --dynamic-cfg
try --prompt x "${small[@]}" --dynamic-cfg --cfg-scale 2
try --prompt x "${small[@]}" --guidance 6
try check --prompt x --cfg-scale-2 2 --size 32x32
rm -r model
expect_files
