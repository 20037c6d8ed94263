# --json reports settings, times, memory and tokens; on stdout it is alone there.
source "$LIB"
sparge-gen "${prompt[@]}" "${small[@]}" --frames 5 -o a.y4m --json - >r.json 2>log || fail "$(<log)"
[[ $(head -c 1 r.json) == "{" && $(tail -n 1 r.json) == "}" ]] || fail "$(<r.json)"
has r.json format=sparge-gen version=[1-9]* command=render settings.{"prompt=${prompt[1]}",frames=5,steps=2} output=a.y4m seed=0 steps=2 attention.policy.attention='?*' \
    {prompt_tokens,tokens,peak_bytes,plan.peak_bytes,stage_peak_bytes.decode}='[1-9]*' {seconds.total,seconds_per_step}='[0-9]*'
