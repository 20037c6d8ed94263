# Sizes and frame counts that the model cannot make: the nearest that it can is offered.
source "$LIB"
try "${prompt[@]}" --size 70x64 -o x.y4m
try "${prompt[@]}" --size 64x64 --frames 7 -o x.y4m
try "${prompt[@]}" --size 64x64 --frames 5 -o x.png
expect_files
