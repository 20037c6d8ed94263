# On a terminal the changing line tells clips done, failed, the prompt and the stage; control characters of a prompt are not
# passed on, and a narrow terminal's line is not exceeded.
source "$LIB"
needs_terminal
printf '{"prompt": "a ball \\u001b[31mred\\u0007"}\n{"prompt": "\u732b\u732b\u732b"}\n' >set.jsonl
on_terminal "stty cols 70; sparge-gen eval --prompts set.jsonl ${small[*]} --frames 5 --arms dense --out out" >log || fail "$(<log)"
grep -q $'\r0/2 clips, 0 failed: dense, a ball ?\[31mred? | denoising 1/2.*\x1b\\[K' log || fail "no such line"
grep -q $'\r1/2 clips, 0 failed, [0-9.]* s left: dense, \u732b' log || fail "no such line"
tr '\r' '\n' <log | grep 'a ball.* | ' | awk '{ sub(/\033\[K.*/, ""); if (length($0) > 69) exit 1 }' || fail "too long"
grep -q 'out: 2 clips made' log || fail "no such line"
