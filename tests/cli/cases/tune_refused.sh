# What tune cannot do is said before it works, and no file comes of it.
source "$LIB"
small+=(--frames 5)
try tune "${small[@]}" -o t.json
try tune "${prompt[@]}" "${small[@]}" -o none/t.json
try tune "${prompt[@]}" "${small[@]}" -o t.json --l1 0.05 --l2 0.04
try tune "${prompt[@]}" "${small[@]}" -o t.json --l2 0.04
try tune "${prompt[@]}" "${small[@]}" -o t.json --quiet
expect_files
