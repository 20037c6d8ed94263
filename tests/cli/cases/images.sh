# Renders of one frame: by default to out.png, as JPEG and WebP with their settings; a grid of many; sets of COCO's captions.
source "$LIB"
one=("${prompt[@]}" "${small[@]}" --frames 1)
sparge-gen "${one[@]}" 2>log || fail "$(<log)"
expect_files out.png log
[[ $(tail -n 1 log) == "out.png: image in "* ]] || fail "$(<log)"
sparge-gen "${one[@]}" -q -o a.jpg || fail
makes_again a.jpg
if has_mp4; then
    sparge-gen "${one[@]}" -q -o a.webp || fail
    [[ $(sparge-gen info a.webp) == *"again: ${again% -o *} -o again.webp" ]] || fail "$(sparge-gen info a.webp)"
fi
rm ./*

# width and height of a PNG
size() { od -An -j 16 -N 8 -t u4 --endian=big "$1" | tr -s ' '; }
sparge-gen "${one[@]}" --batch 5 --seed 7 --grid grid.png 2>log || fail "$(<log)"
expect_files log grid.png out-000{1..5}.png
[[ $(size grid.png) == " 104 68" && $(tail -n 1 log) == "grid.png: all 5 images"* ]] || fail "$(size grid.png), $(<log)"
again=$(sparge-gen info grid.png | sed -n 's/^again: //p')
eval "$again -q --grid again.png" || fail "$again"
cmp grid.png again.png || fail "$again"
[[ $(sparge-gen info out-0002.png) != *batch* ]] || fail "a picture tells of others"
printf 'a red ball\na blue cube\n' >set.txt
sparge-gen --prompt-file set.txt "${small[@]}" --frames 1 -q --grid two.png -o b.jpg || fail
[[ $(size two.png) == " 68 32" ]] || fail "$(size two.png)"
refused 1 two.png info two.png # of two prompts
expect_files log grid.png again.png two.png set.txt out-000{1..5}.png out-1-000{1..5}.png b-000{1,2}.jpg

# images named by COCO's, an arm a folder
cat >captions.json <<'END2'
{"info": {"year": 2014}, "images": [{"id": 12, "file_name": "COCO_val2014_000000000012.jpg"}],
 "annotations": [{"image_id": 12, "id": 5, "caption": "a red ball"}, {"image_id": 12, "id": 6, "caption": "a blue cube"},
                 {"image_id": 13, "id": 7, "caption": "a red ball"}]}
END2
sparge-gen eval --prompts captions.json "${small[@]}" --frames 1 --arms dense,dense:steps=3:name=three --out out -q || fail
(cd out && printf '%s ' dense/* three/*) >names
[[ $(<names) == "dense/12-0.png dense/12~2-0.png dense/13-1.png three/12-0.png three/12~2-0.png three/13-1.png " ]] || fail "$(<names)"
[[ $(json out/results.jsonl flicker | sort | uniq -c) == *" 6 null" ]] || fail "$(<out/results.jsonl)"
! cmp -s out/dense/12-0.png out/dense/13-1.png || fail "two equal images"
