# No model, or something else in its place.
source "$LIB"
mkdir folder
echo >file
try --model missing "${prompt[@]}"
try --model folder "${prompt[@]}"
try --model file "${prompt[@]}"
try info missing
SPARGE_GEN_MODEL=elsewhere try "${prompt[@]}"
SPARGE_GEN_MODEL=folder try "${prompt[@]}"
SPARGE_GEN_MODEL=file try bench step
SPARGE_GEN_MODEL=folder try --model file "${prompt[@]}"
SPARGE_GEN_MODEL=$(printf 'far%.0s' {1..2000}) try info
expect_files folder file
