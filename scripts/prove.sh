#!/usr/bin/env bash
# prove.sh: runs the tests of the tier "prove": those whose first statement is
# testenv.Prove. With -n it prints them, as "directory test".
set -euo pipefail
cd "$(dirname "$0")/.."

list=
if [ "${1:-}" = -n ]; then
	list=yes
	shift
fi

# in_tier prints "directory test" of each test of the tier, in all modules.
in_tier() {
	git ls-files --cached --others --exclude-standard -- '*_test.go' | xargs awk '
		/^func (Test|Fuzz)[A-Za-z0-9_]*\(/ { name = $2; sub(/\(.*/, "", name); line = FNR }
		/^\ttestenv\.Prove\(/ && FNR == line + 1 { dir = FILENAME; sub(/\/?[^\/]*$/, "", dir); print (dir == "" ? "." : dir), name }' | sort
}

tests=$(in_tier)
if [ -n "$list" ]; then
	echo "$tests"
	exit 0
fi

# The long walks on MySQL are sampled, see testenv.Sample. Another commit has another sample.
ONCE_SAMPLE=$(git rev-parse 'HEAD^{tree}')
export ONCE_SAMPLE

failed=()
while read -r dir; do
	names=$(awk -v dir="$dir" '$1 == dir { printf "%s%s", sep, $2; sep = "|" }' <<<"$tests")
	echo "--- $dir: ${names//|/ }"
	# From the module of the package, so that it is found with GOWORK=off as well.
	(cd "$dir" && go test -count=1 -timeout 2h ${PROVEFLAGS:-} -run "^($names)\$" .) || failed+=("$dir")
done < <(cut -d ' ' -f 1 <<<"$tests" | uniq)

if [ ${#failed[@]} -gt 0 ]; then
	echo "make prove: failed in: ${failed[*]}" >&2
	exit 1
fi
