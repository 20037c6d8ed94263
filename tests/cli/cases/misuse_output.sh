# Names that cannot become a clip are refused before the model is opened.
source "$LIB"
export SPARGE_GEN_MODEL=/nowhere
mkdir folder folder.y4m
echo >file
try "${prompt[@]}" --output clip.gif
try "${prompt[@]}" --output clip
try "${prompt[@]}" --output missing/clip.y4m
try "${prompt[@]}" --output file/clip.y4m
try "${prompt[@]}" --output folder.y4m
try "${prompt[@]}" --output folder/
try "${prompt[@]}" --output ""
try "${prompt[@]}" --output a%d-%d.png
try "${prompt[@]}" --output f%d/a.png
try "${prompt[@]}" --output clip.y4m --json missing/report.json
try "${prompt[@]}" --output clip.y4m --latents missing/l.safetensors
try "${prompt[@]}" --output clip.y4m --latents l.bin
try --output clip.y4m --latents l.safetensors
name=$(printf 'x%.0s' {1..252}).y4m
sparge-gen "${prompt[@]}" --output "$name" && exit 1
expect_files folder folder.y4m file
