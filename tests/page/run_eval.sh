#!/usr/bin/env bash
# The page of an evaluation in a headless Chromium. usage: run_eval.sh PROGRAM. Exit code 77 is a skip.
set -euo pipefail
program=$(readlink -f "${1:?usage: run_eval.sh PROGRAM}")
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
skip() { echo "skipped: $*"; exit 77; }
command -v chromium chromium-browser google-chrome >/dev/null || skip "there is no Chromium"
command -v python3 >/dev/null || skip "there is no Python"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
for seed in 1 2 3; do
    "$program" -q -p ball --size 128x128 --frames 17 --steps 1 --cfg-scale 1 --seed $seed -o $seed.mp4
done
python3 -B "$here/eval_folder.py" many 40 3 {1,2,3}.mp4
python3 -B "$here/eval_folder.py" one 2 1 1.mp4
"$program" eval --merge many
"$program" eval --merge one
python3 -B "$here/report_eval.py" many one
