# shellcheck shell=bash
# small_model FROM TO: a copy of the small model whose defaults make a render of under a second. Sourced.
small_model() {
    cp -r "$1" "$2"
    sed -i -E 's/"(width|height)": [0-9]+/"\1": 32/; s/"frames": [0-9]+/"frames": 5/; s/"steps": [0-9]+/"steps": 2/' "$2/sparge-gen.json"
}
