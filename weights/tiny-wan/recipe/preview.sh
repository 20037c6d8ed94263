#!/usr/bin/env bash
# The preview in the project's README: six clips by the program itself, seed 0, three in a row. usage: preview.sh PROGRAM OUT.webp
set -euo pipefail
program=$1 out=$2
clips=$(mktemp -d)
trap 'rm -rf "$clips"' EXIT
cat >"$clips/prompts.txt" <<'END'
a red ball bouncing on green grass
a big blue heart spins while snow is falling
in the desert at sunset, an orange star is moving left
a white star and a pink ball rising in the night sky
a cyan pyramid spinning under the northern lights, the camera zooms in
a green ring growing under water among bubbles
END
"$program" -m "$(dirname "$0")/.." --prompt-file "$clips/prompts.txt" --seed 0 -o "$clips/c.y4m"
inputs=() scaled='' names=''
for k in 1 2 3 4 5 6; do
    inputs+=(-i "$clips/c-000$k.y4m")
    scaled+="[$((k - 1))]scale=208:208:flags=area[c$k];"
    names+="[c$k]"
done
ffmpeg -v error -y "${inputs[@]}" -filter_complex \
    "$scaled${names}xstack=inputs=6:fill=white:layout=0_0|212_0|424_0|0_212|212_212|424_212" \
    -c:v libwebp -quality 80 -compression_level 6 -loop 0 "$out"
