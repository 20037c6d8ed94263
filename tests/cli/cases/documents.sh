# The commands of README.md and of all other documents work.
source "$LIB"
source "${LIB%/*}/documents.sh"
furnish
mapfile -t documents < <(cd "${LIB%/*}/../.." && find . -name '*.md' -not -path './build*' -printf '%P\n' | sort)
run_documents "${documents[@]}"
