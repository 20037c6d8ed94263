# What cannot be compared is refused before anything is rendered, and leaves no folder.
source "$LIB"
try compare "${prompt[@]}" --arms dense
try compare "${prompt[@]}" --arms dense,dense
try compare "${prompt[@]}" --arms dense,sparse
try compare "${prompt[@]}" --arms dense,sparge:topk=2
try compare "${prompt[@]}" --arms dense:topk=0.3,sparge
try compare "${prompt[@]}" --arms dense,sparge:tpk=0.3
try compare "${prompt[@]}" --arms dense,sparge:sparse-config=missing.json
try compare "${prompt[@]}" --arms 'dense,sparge:dense-layers=9'
try compare "${prompt[@]}" --topk 0.3 --tau 0.3
try compare "${prompt[@]}" --size 100x100 --strict
try compare "${prompt[@]}" --size 32x32 --frames 5 -o missing/out
try compare "${prompt[@]}" --size 32x32 --frames 5 -o ''
try compare "${prompt[@]}" --size 32x32 --frames 5 --json missing/report.json
try compare "${prompt[@]}" a.png b.png
try compare --arms dense,sage a.png b.png
try compare --arms dense,sage
try compare --attention sparge "${prompt[@]}"
touch file
try compare "${prompt[@]}" --size 32x32 --frames 5 -o file
mkdir -p out/dense.mp4 out/dense.y4m
sparge-gen compare "${prompt[@]}" --size 32x32 --frames 5 -o out 2>log
[[ $? == 1 && $(<log) == *"is a folder" ]] || fail "$(<log)"
expect_files file log out out/dense.mp4 out/dense.y4m
