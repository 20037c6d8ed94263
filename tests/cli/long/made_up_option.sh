# An option takes a member of sg_settings, a row of the table, and the code that uses it. A program with a made-up one, which no code
# uses: it is parsed, has bounds, stands in help, in completions and in the manual page; clips and evaluations keep it, info prints
# it, and arms differ by it. Only app/ is compiled anew, to be linked with the libraries of the build.
source "$LIB"
build=${FIXTURES%/tests/fixtures}
top=$(cd "${LIB%/*}/../.." && pwd)
{ [[ -e $build/build.ninja ]] && type ninja; } >/dev/null || skip "no build by ninja beside the program"
cp -r "$top/app" app
member='    double         made_up;'
row='    {REAL("made-up", SAMPLER, SAMPLING, made_up, 0, 1, "nothing")},'
sed -i "/^    double  *cfg_scale, /i\\$member" app/options/options.h
sed -i "/^    {REAL(\"flow-shift\"/i\\$row" app/options/option_table.c
[[ $(diff -r "$top/app" app | grep -c '^[<>]') == 2 ]] || fail "$(diff -r "$top/app" app)"
ninja -C "$build" -t commands sparge-gen | grep -F CMakeFiles/sparge-gen.dir/ |
    sed "s|$top/app|$PWD/app|g; s|CMakeFiles/sparge-gen.dir/|$PWD/objects/|g; s| -o sparge-gen | -o $PWD/program/sparge-gen |; s| && cd .*||" >commands
grep -o " -o $PWD/objects/[^ ]*" commands | sed 's/ -o //; s|/[^/]*$||' | sort -u | xargs mkdir -p program
sed '$d; s/$/ -O0 -g0/' commands | (cd "$build" && xargs -d '\n' -P "$(nproc)" -n 1 bash -c) >log 2>&1 || fail "$(tail -n 20 log)"
tail -n 1 commands | (cd "$build" && bash) >log 2>&1 || fail "$(tail -n 20 log)"
rm -r app objects commands log
PATH=$PWD/program:$PATH
clip=("${prompt[@]}" "${small[@]}" --frames 1 -q)

refused 2 --made-up "${clip[@]}" --made-up 1.5
refused 2 --made-up "${clip[@]}" --made-up -0.1
refused 2 --made-up "${clip[@]}" --made-up much
refused 2 --made-upp "${clip[@]}" --made-upp 0.5
refused 2 --made-up info --made-up 0.5
for command in "" check compare eval; do
    # shellcheck disable=SC2086
    sparge-gen $command --help all | grep -q '^ *--made-up X  *nothing$' || fail "help of $command"
done
for topic in bash zsh man; do sparge-gen help $topic | tr -d '\\' | grep -q -e --made-up || fail "$topic"; done

sparge-gen "${clip[@]}" -o without.png && sparge-gen "${clip[@]}" --made-up 0.5 --json r -o with.png || fail
has r settings.made_up=0.5
[[ $(sparge-gen info --json - with.png | json - settings.made_up) == 0.5 && -z $(sparge-gen info --json - without.png | json - settings.made_up) ]] || fail info
makes_again with.png
[[ $again == *" --made-up 0.5 "* ]] || fail "$again"

refused 2 dense:made-up=1.5 compare "${clip[@]}" --arms dense,dense:made-up=1.5:name=b
refused 2 "the same" compare "${clip[@]}" --made-up 0.5 --arms dense,dense:made-up=0.5
# Two arms, which are rendered; that their latents are equal is found then, since no code uses the option.
sparge-gen compare "${clip[@]}" --repeat 1 --arms dense,dense:made-up=0.5 -o arms >/dev/null 2>&1
(($? == 1)) || fail "two arms"
[[ $(json arms/report.json 'arms[*].settings.made_up') == 0.5 && $(json arms/report.json 'arms[1].settings.made_up') == 0.5 ]] || fail
sparge-gen info "$(echo arms/dense-made-up*)" | grep -q '^again: .* --made-up 0.5 ' || fail "$(sparge-gen info arms/dense-*)"
sparge-gen info "$(echo arms/side.*)" | grep -q '^again: .* --arms .dense,dense:made-up=0.5. ' || fail "$(sparge-gen info arms/side.*)"

printf 'a ball\n' >set.txt
set=(eval --prompts set.txt "${small[@]}" --frames 1 -q -o runs)
sparge-gen "${set[@]}" --made-up 0.25 --arms dense,dense:made-up=0.5 || fail eval
has runs/manifest.json made_up=0.25 'arm_settings[0].made_up=0.25' 'arm_settings[1].made_up=0.5' again="* --made-up 0.25 *"
refused 2 'made_up: 0.25 -> 0.75' "${set[@]}" --made-up 0.75 --arms dense,dense:made-up=0.5
refused 2 'made_up: 0.25 -> none' "${set[@]}" --arms dense,dense:made-up=0.5

rm -rf "$REPORTS"/* ./* # reports have an option that no schema knows
