#!/bin/sh
# Checks the models with spin: each policy holds, and each broken variant fails.
set -eu
cd "$(dirname "$0")"
command -v spin >/dev/null || { echo "spin is missing. Try: apt-get install spin gcc" >&2; exit 1; }
temp=$(mktemp -d)
trap 'rm -rf "$temp"' EXIT
cp lease.pml "$temp"
cd "$temp"

# check EXPECTED NAME FLAGS...: errors found or not.
check() {
	expected=$1 name=$2
	shift 2
	spin -a "$@" lease.pml >spin.log 2>&1 || { cat spin.log; exit 1; }
	cc -O2 -DSAFETY -DCOLLAPSE -DMEMLIM=4096 -o pan pan.c
	./pan -m200000 >pan.log 2>&1 || true
	states=$(sed -n 's/^ *\([0-9.e+]*\) states, stored.*/\1/p' pan.log)
	errors=$(sed -n 's/.*errors: \([0-9]*\).*/\1/p' pan.log)
	if grep -q "max search depth too small\|out of memory" pan.log; then
		cat pan.log
		exit 1
	fi
	found=holds
	[ "$errors" = 0 ] || found=fails
	printf '%-60s %s (%s states)\n' "$name" "$found" "$states"
	[ "$found" = "$expected" ] || { cat pan.log; echo "$name: expected that it $expected" >&2; exit 1; }
}

check holds "no policy: unknown" -DPOLICY_NONE
check holds "the service dedupes" -DPOLICY_DEDUPED
check holds "the service is checked, with a tombstone" -DPOLICY_CHECK
check fails "no fence" -DPOLICY_DEDUPED -DNO_FENCE
check fails "a fence that only a takeover raises" -DPOLICY_DEDUPED -DFENCE_BY_TAKEOVER_ONLY
check fails "after a lost answer the record is sent alone" -DPOLICY_DEDUPED -DRECORD_SENT_ALONE
check fails "unknown runs again" -DPOLICY_NONE -DUNKNOWN_RUNS_AGAIN
check fails "the intent is committed after the call" -DPOLICY_NONE -DINTENT_AFTER_CALL
check fails "not found means that it has not happened" -DPOLICY_CHECK -DNOT_FOUND_IS_NO
