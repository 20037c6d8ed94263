# Twenty clients get what they asked for, in the order of the queue, and hostile clients do not keep others from it.
source "$LIB"
sparge-gen --version | grep -q '^libmicrohttpd for' || skip "this build has no server"
python3 "${LIB%/*}/serve_clients.py" sparge-gen
