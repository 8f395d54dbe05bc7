#!/usr/bin/env bash
# prove.sh: runs the tests of the tier "prove": those that begin with testenv.Prove or
# testenv.Both. With -n it prints them, as "directory test".
set -euo pipefail
cd "$(dirname "$0")/.."

tests=$(go run ./internal/testenv/tier/list)
if [ "${1:-}" = -n ]; then
	echo "$tests"
	exit 0
fi

# The long walks on MySQL are sampled, see testenv.Sample. Another commit has another sample.
ONCE_SAMPLE=$(git rev-parse 'HEAD^{tree}')
export ONCE_SAMPLE ONCE_TIER=prove ONCE_PROVED
ONCE_PROVED=$(mktemp)
trap 'rm -f "$ONCE_PROVED"' EXIT

failed=()
while read -r dir; do
	names=$(awk -v dir="$dir" '$1 == dir { print $2 }' <<<"$tests")
	echo "--- $dir:" $names
	: >"$ONCE_PROVED"
	# From the module of the package, so that it is found with GOWORK=off as well.
	(cd "$dir" && go test -count=1 -timeout 2h ${PROVEFLAGS:-} -run "^(${names//$'\n'/|})\$" .) || failed+=("$dir")
	# Each test has told that it runs: one that the compiler leaves out has not.
	if idle=$(comm -23 <(sort <<<"$names") <(sort -u "$ONCE_PROVED")); [ -n "$idle" ]; then
		echo "listed, but they did not run:" $idle >&2
		failed+=("$dir")
	fi
done < <(cut -d ' ' -f 1 <<<"$tests" | uniq)

if [ ${#failed[@]} -gt 0 ]; then
	echo "make prove: failed in: ${failed[*]}" >&2
	exit 1
fi
