# Two pictures, and two folders of frames, scored: a table on stdout, all figures in the report.
source "$LIB"
pictures=$(dirname "$LIB")/../unit/pictures
mkdir a b
cp "$pictures/scene.png" a/frame-9.png
cp "$pictures/scene.png" a/frame-10.png
cp "$pictures/coded.jpg" a/frame-11.jpg
cp "$pictures/noisy.png" b/frame-9.png
cp "$pictures/scene.png" b/frame-10.png
cp "$pictures/scene.png" b/frame-11.png
echo "no frame" >b/README
cp "$pictures/grey.jpg" b/.hidden.jpg
try compare a/frame-9.png b/frame-9.png
try compare a/frame-9.png a/frame-10.png
try compare a b
try compare a a
try compare a b --json report.json
try compare --json - -- a/frame-9.png a/frame-10.png
sparge-gen compare "$pictures/scene.png" "$pictures/coded.jpg" --json - >one.json 2>log || fail "$(<log)"
[[ ! -s log && $(head -c 1 one.json) == "{" ]] || fail "stdout does not hold the report alone"
sed -E 's/([0-9]\.[0-9]{9})[0-9]+/\1/' report.json # the last digits are libm's
