#!/usr/bin/env bash
# A page in a headless Chromium. usage: run.sh PROGRAM arms|eval|serve: that of a comparison, of an evaluation, of the web server.
# Exit code 77 is a skip.
set -euo pipefail
program=$(readlink -f "${1:?usage: run.sh PROGRAM arms|eval|serve}")
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
skip() { echo "skipped: $*"; exit 77; }
command -v chromium chromium-browser google-chrome >/dev/null || skip "there is no Chromium"
command -v python3 >/dev/null || skip "there is no Python"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"

comparison() {
    # shellcheck disable=SC2016
    hostile='a red ball </script><b>"& <!-- ${x} `'
    "$program" compare -p "$hostile" --size 256x256 --frames 17 --steps 2 --cfg-scale 1 --dense-steps 0.5 \
        --repeat 1 \
        --arms 'dense,sage,sparge:topk=0.3:dense-layers=0:name=<i>three</i>' -o apart >table
    "$program" compare -q -p ball --size 256x256 --frames 17 --steps 2 --cfg-scale 1 --dense-steps 0.5 \
        --arms 'sparge:topk=1:name=a,sparge:topk=1:tail=off:name=b' --repeat 1 -o same >/dev/null 2>log && exit 1
    "$program" compare -q -p ball --size 32x32 --frames 1 --steps 16 --cfg-scale 1 --arms dense,dense:cache=usual,dense:steps=9 \
        --repeat 3 -o steps >/dev/null
    "$program" compare -q -m "${program%/*}/tests/fixtures/wan22_i2v" -p ball --size 128x128 --frames 5 --steps 2 --cfg-scale 1 \
        --cfg-scale-2 1 --image "$here/../fuzz/corpus/image/rgb.png" --last-image "$here/../fuzz/corpus/image/base.jpg" \
        --repeat 1 --arms dense,dense:steps=3 -o begun >/dev/null
    python3 -B "$here/report_arms.py" apart same steps "$hostile" table
}

evaluation() {
    for seed in 1 2 3; do
        "$program" -q -p ball --size 128x128 --frames 17 --steps 1 --cfg-scale 1 --seed $seed -o $seed.mp4
    done
    python3 -B "$here/eval_folder.py" many 40 3 {1,2,3}.mp4
    python3 -B "$here/eval_folder.py" few 2 3 {1,2,3}.mp4
    python3 -B "$here/eval_folder.py" one 2 1 1.mp4
    "$program" eval --merge many
    "$program" eval --merge few
    "$program" eval --merge one
    "$program" -q -p ball --size 128x128 --frames 1 --steps 1 --cfg-scale 1 --batch 3 -o i.png
    python3 -B "$here/eval_folder.py" images 2 3 i-000{1,2,3}.png
    "$program" eval --merge images
    python3 -B "$here/report_eval.py" many few one images
}

serving() {
    [[ $("$program" --version) == *'libmicrohttpd for'* ]] || skip "this build has no server"
    python3 -B "$here/serve_page.py" "$program"
}

case ${2:?usage: run.sh PROGRAM arms|eval|serve} in
arms) comparison ;;
eval) evaluation ;;
serve) serving ;;
*) echo "run.sh: there is no page $2" >&2; exit 2 ;;
esac
