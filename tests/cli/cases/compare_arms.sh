# Arms of one prompt: a folder with an image of each, all side by side, and a report; a table on stdout. The image of an arm is
# what a render by the same options gives.
source "$LIB"
few=(--size 512x512 --frames 1 --steps 2 --cfg-scale 1 --dense-steps 0)
arms='dense,sparge:topk=0.25:tail=off,sage:name=8 bits'
sparge-gen compare "${prompt[@]}" "${few[@]}" --repeat 1 --arms "$arms" --json copy.json -o out >table 2>log || fail "$(<log)"
clip=out/sparge-topk=0.25-tail=off.png
expect_files copy.json log table out out/dense.png $clip out/8-bits.png out/side.png out/report.json out/report.html
cmp copy.json out/report.json || fail "two reports"
[[ $(head -n 1 out/report.html) == "<!doctype html>" && $(tail -n 1 out/report.html) == "</script>" ]] || fail "no page"
sed -n 's|^<script type="application/json" id="report">\({.*}\)</script>$|\1|p' out/report.html >page.json
for file in copy page; do has $file.json format=sparge-gen command=compare version=3 tokens=1024 settings.arms="$arms"; done
has copy.json sheet=null measured="before compression" repeat=1 shared_seconds.warm_up=[0-9]* \
    'arms[0].attention_error=null' 'arms[0].psnr.mean=' 'arms[0].speedup.total.low=' 'arms[*].flicker=null*null*null' \
    'arms[1].density=0.25' "arms[1].file=${clip#out/}" 'arms[1].attention_error.relative_l1=0.*' 'arms[1].latents.relative_l2[1]=0.*' \
    'arms[1].seconds.rounds[0].steps[1]=[0-9]*' 'arms[1].densities[1][5]=0.25' 'arms[2].name=8 bits'
[[ -z $(json copy.json 'same_kernel[*]')$(json copy.json 'arms[*].speedup.shared_steps[*]') ]] || fail "$(<copy.json)"
[[ $(grep -c '^reading the prompt 1/1' log) == 1 ]] || fail "the prompt was read more than once"
for row in 'dense  *1.000 ' 'sparge:topk=0.25:tail=off  *0.250 ' '8 bits  *1.000 ' '8 bits  *[0-9]*\.[0-9]*  *0.9'; do
    grep -q "^$row" table || fail "no $row in $(<table)"
done
again=$(sparge-gen info out/side.png | sed -n 's/^again: //p')
[[ $again == *"--width 512 --height 512 --frames 1 "*"--arms '$arms' "* ]] || fail "$again"
has copy.json again="$again"
makes_again $clip

# Short renders go on in rounds by themselves, and what is shown adds up. What cannot be kept for a run that is interrupted keeps
# none from its end.
export OMP_NUM_THREADS=1
mkdir short
touch short/.unfinished
sparge-gen compare "${prompt[@]}" "${small[@]}" --frames 1 --arms dense,dense:flow-shift=2:name=b -o short >table 2>log || fail "$(<log)"
rounds=$(json short/report.json repeat)
((rounds > 1)) && grep -q "^seconds are of $rounds renders of each arm" table && grep -q '^more rounds, ' log || fail "$(<table)"
[[ $(grep -c 'begins anew$' log) == 1 && -e short/side.png ]] || fail "$(<log)"
[[ $(json short/report.json 'arms[*].seconds.rounds[*].total' | wc -l) == $((2 * rounds)) ]] || fail "no time of each round"
for arm in 0 1; do
    json short/report.json "arms[$arm].seconds."{total,denoise,decode,between,attention,measured.total} >sums
    paste -s sums | awk '{ exit !($1 > 0 && ($1 - $2 - $3 - $4) ^ 2 < 1e-18 && $5 < $2 && $6 > 0) }' || fail "$(<sums)"
    json short/report.json "arms[$arm].seconds."{attention,stages.{predict,select,quantise,attend,dense,cross}} >sums
    paste -s sums | awk '{ exit !(($1 - $2 - $3 - $4 - $5 - $6 - $7) ^ 2 < 1e-18 && $6 > 0 && $7 > 0) }' || fail "$(<sums)"
done
