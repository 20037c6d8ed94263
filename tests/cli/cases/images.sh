# A render of one frame is an image: its names and formats, what they keep, a grid of a batch, outputs that would be one file.
source "$LIB"
one=("${prompt[@]}" "${small[@]}" --frames 1)
sparge-gen "${one[@]}" 2>log || fail "$(<log)"
grep -o 'image of .*' log
grep -o 'out.png: image in' log
sparge-gen "${one[@]}" -q -o a.jpg || fail
cp a.jpg first.jpg
again=$(sparge-gen info a.jpg | sed -n 's/^again: //p')
eval "$again -q -o a.jpg" || fail "$again"
cmp a.jpg first.jpg || fail "$again"
if has_mp4; then
    sparge-gen "${one[@]}" -q -o a.webp || fail
    [[ $(sparge-gen info a.webp | sed -n 's/^again: //p') == "$again" ]] || fail "$(sparge-gen info a.webp)"
    rm a.webp
fi
rm ./*

# width and height of a PNG
size() { od -An -j 16 -N 8 -t u4 --endian=big "$1" | tr -s ' '; }
sparge-gen "${one[@]}" --batch 5 --seed 7 --grid grid.png 2>log || fail "$(<log)"
expect_files log grid.png out-000{1..5}.png
size grid.png
tail -n 1 log
again=$(sparge-gen info grid.png | sed -n 's/^again: //p')
eval "$again -q --grid again.png" || fail "$again"
cmp grid.png again.png || fail "$again"
sparge-gen info out-0002.png | grep -c batch
printf 'a red ball\na blue cube\n' >set.txt
sparge-gen --prompt-file set.txt "${small[@]}" --frames 1 -q --grid two.png -o b.jpg || fail
size two.png
sparge-gen info two.png 2>&1 # of two prompts
expect_files log grid.png again.png two.png set.txt out-000{1..5}.png b-000{1,2}.jpg
rm ./*

# refused before anything is rendered
try "${one[@]}" --grid g.png
try "${one[@]}" --batch 2 --grid g.gif | sed "s/ in this build.*//; s/.webp, //"
try "${one[@]}" --batch 2 --grid missing/g.png
try -q "${prompt[@]}" "${small[@]}" --frames 5 --batch 2 --grid g.png
try "${one[@]}" --batch 2 --grid out-0002.png
try "${one[@]}" --batch 2 --preview p.png --grid p-0001.png
try "${one[@]}" --batch 2 --json p.png --grid ./p-0002.png
try "${prompt[@]}" --frames 5 -o a.jpg
try "${one[@]}" --preview ./out.png
try "${one[@]}" --preview a.png --json ./a.png
try "${one[@]}" --json a.png -o a.png
try "${one[@]}" --strength 0.5
printf '\xff\xd8\xff\xe0\0\4ab\xff\xda\0\2' >foreign.jpg
try info foreign.jpg
rm foreign.jpg
expect_files

# a set of COCO's captions: images named by theirs, an arm a folder
cat >captions.json <<'END2'
{"info": {"year": 2014}, "images": [{"id": 12, "file_name": "COCO_val2014_000000000012.jpg"}],
 "annotations": [{"image_id": 12, "id": 5, "caption": "a red ball"}, {"image_id": 12, "id": 6, "caption": "a blue cube"},
                 {"image_id": 13, "id": 7, "caption": "a red ball"}]}
END2
sparge-gen eval --prompts captions.json "${small[@]}" --frames 1 --arms dense,dense:steps=3:name=three --out out 2>log || fail "$(<log)"
(cd out && printf '%s\n' dense/* three/*)
grep -o '.* images to be made' log
grep -o 'over . image.*' log
grep -o '"flicker":[a-z]*' out/results.jsonl | sort -u
cmp -s out/dense/12-0.png out/dense/13-1.png && fail "two equal images"
exit 0
