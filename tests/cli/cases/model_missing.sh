# No model, or something else in its place.
source "$LIB"
mkdir folder
echo >file
try --model missing "${prompt[@]}"
try --model folder "${prompt[@]}"
try --model file "${prompt[@]}"
try info missing
SPARGE_GEN_MODEL=elsewhere try "${prompt[@]}"
expect_files folder file
