# What cannot be compared is refused with its name and the reason.
source "$LIB"
pictures=$(dirname "$LIB")/../unit/pictures
broken=$(dirname "$LIB")/../fuzz/corpus/image
cp "$pictures"/{scene.png,noisy.png,coded.jpg,small_a.png} "$broken"/{cut.jpg,huge.png,announced.png,sixteen.png} .
mkdir three two other four empty
for i in 1 2 3; do cp scene.png three/f$i.png; done
cp three/f[13].png two
for i in 1 2 3; do cp scene.png other/g$i.png; done
for i in 1 2 3 4; do cp scene.png four/g$i.png; done
mkfifo pipe
try compare
try compare scene.png
try compare scene.png noisy.png coded.jpg
try compare --seed 3 scene.png noisy.png
try compare scene.png --output x noisy.png
try compare scene.png missing.png
try compare scene.png three
try compare two three
try compare three two
try compare three four
try compare three other
try compare empty three
try compare scene.png small_a.png
try compare sixteen.png sixteen.png
try compare scene.png cut.jpg
try compare huge.png scene.png
try compare announced.png scene.png
try compare pipe scene.png
try compare scene.png noisy.png --json missing/report.json
