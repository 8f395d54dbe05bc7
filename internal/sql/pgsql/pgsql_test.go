package pgsql

import (
	"strconv"
	"testing"

	"github.com/oncelib/once/store"
)

// Of 200,000 operations about five pairs would share a 32-bit lock, and one of each
// pair would be told "in flight" for another's work.
func TestLockIDsAre64Bits(t *testing.T) {
	seen := map[int64]string{}
	for i := range 200_000 {
		key := strconv.Itoa(i)
		lock := LockID(store.ID{Scope: "s", Key: key})
		if other, shared := seen[lock]; shared {
			t.Fatalf("keys %s and %s share lock %d", other, key, lock)
		}
		seen[lock] = key
	}
}

func TestLockIDsDependOnScopeAndKey(t *testing.T) {
	ids := []store.ID{{Scope: "a", Key: "b"}, {Scope: "b", Key: "a"}, {Scope: "ab", Key: ""}, {Scope: "", Key: "ab"}}
	for i, a := range ids {
		for _, b := range ids[i+1:] {
			if LockID(a) == LockID(b) {
				t.Errorf("%v and %v share a lock", a, b)
			}
		}
	}
}

func TestExpectingKeepsTheStatement(t *testing.T) {
	got := Expecting(" update t set a = 1 ; ", "2")
	want := "with once_write as (update t set a = 1\nreturning 1) select case count(*) when 2 then 1 else (count(*) || ' rows affected, expected: 2')::int end from once_write"
	if got != want {
		t.Errorf("got %s", got)
	}
}

func TestClassifyKnowsWhatIsInDoubt(t *testing.T) {
	for state, want := range map[string]store.Kind{
		"40001": store.KindRetry, "40P01": store.KindRetry, "25P02": store.KindAborted,
		"08006": store.KindLost, "57P01": store.KindLost, "23505": store.KindOther, "": store.KindOther,
	} {
		if got := Classify(state); got != want {
			t.Errorf("%s: %v, want %v", state, got, want)
		}
	}
}
