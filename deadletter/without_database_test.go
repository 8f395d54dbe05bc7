package deadletter

// The tests with databases are in integration/deadletter: "make test-of DIR=deadletter" runs them after these.

import (
	"encoding/json"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/oncelib/once/store/sqlplane"
)

var dialects = []sqlplane.Dialect{sqlplane.PostgreSQL, sqlplane.MySQL, sqlplane.SQLite}

// TestFilterIsACondition: each field of a filter is one condition with one argument, and the zero value means the letters that are dead.
func TestFilterIsACondition(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	full := Filter{
		UID: "u", Origin: "inbox", Consumer: "c", Source: "s", EventID: "1", Topic: "t", Key: "k", Type: "y", Class: "permanent", Cause: "order # is unknown",
		Since: at, Before: at.Add(time.Hour), State: StateApplied,
	}
	for _, d := range dialects {
		if text, args, err := (Filter{}).where(d); err != nil || text != "state = ?" || len(args) != 1 || args[0] != string(StateDead) {
			t.Errorf("%s: %q, %v, %v", d, text, args, err)
		}
		text, args, err := full.where(d)
		if err != nil || strings.Count(text, "?") != 13 || len(args) != 13 || args[0] != string(StateApplied) {
			t.Errorf("%s: %q, %v, %v", d, text, args, err)
		}
		p := plan{Filter: Filter{}, DeadUntil: at, FailedSince: at}
		if text, args, err := p.where(d); err != nil || strings.Count(text, "?") != len(args) || !strings.Contains(text, "redrive_at is null") || !strings.Contains(text, "first_failed_at") {
			t.Errorf("%s: %q, %v, %v", d, text, args, err)
		}
	}
	for _, wrong := range []Filter{{State: "lost"}, {Origin: "broker"}} {
		if _, _, err := wrong.where(sqlplane.SQLite); err == nil || !strings.Contains(err.Error(), "Try: ") {
			t.Errorf("%+v: %v", wrong, err)
		}
	}
}

// TestFilterBoundsWhatIsRead: with Most, the oldest letters of the state are read and no others; a letter that is named is read in any case.
func TestFilterBoundsWhatIsRead(t *testing.T) {
	t.Parallel()
	for _, all := range []Filter{{}, {UID: "u", Most: 10}} {
		if text, args := all.table(); text != "once_deadletter" || len(args) != 0 {
			t.Errorf("%+v: %q, %v", all, text, args)
		}
	}
	text, args := Filter{Most: 10}.table()
	if !strings.Contains(text, "limit ?") || len(args) != 2 || args[0] != string(StateDead) || args[1] != int64(10) {
		t.Errorf("%q, %v", text, args)
	}
}

// TestFilterInTheAudit: the audit has what was asked for, and a redrive that was killed reads the same filter again.
func TestFilterInTheAudit(t *testing.T) {
	t.Parallel()
	if got := (Filter{Limit: 7, Most: 9}).String(); got != "all letters" {
		t.Error(got)
	}
	f := Filter{Consumer: "billing", Cause: "order # is unknown"}
	if got := f.String(); got != `letters {"consumer":"billing","cause":"order # is unknown"}` {
		t.Error(got)
	}
	if got := scopeOf(Filter{Origin: "inbox", Consumer: "billing"}) + "," + scopeOf(Filter{}); got != "deadletter inbox billing,deadletter" {
		t.Error(got)
	}
	until := time.Date(2026, 1, 2, 3, 4, 5, 6000, time.UTC)
	b, err := json.Marshal(plan{Filter: f, DeadUntil: until, FailedSince: until.Add(-defaultRetention)})
	if err != nil {
		t.Fatal(err)
	}
	var again plan
	if err := json.Unmarshal(b, &again); err != nil || again.Filter != f || !again.DeadUntil.Equal(until) || !again.FailedSince.Equal(until.Add(-defaultRetention)) {
		t.Errorf("%s: %+v, %v", b, again, err)
	}
}

// TestWrongRequestsAskNoDatabase: a change without a name or a reason, and a rate that cannot be kept, is refused before the database is asked.
func TestWrongRequestsAskNoDatabase(t *testing.T) {
	t.Parallel()
	letters := New(nil, Config{})
	for name, o := range map[string]RedriveOptions{
		"no name":             {Reason: "repaired"},
		"no reason":           {Who: "ada", Reason: " "},
		"two lines":           {Who: "ada", Reason: "repaired\nbob: also"},
		"a blank at the end":  {Who: "ada ", Reason: "repaired"},
		"no UTF-8":            {Who: "ada", Reason: "\xff"},
		"too long":            {Who: "ada", Reason: strings.Repeat("x", maxSigned+1)},
		"a negative rate":     {Who: "ada", Reason: "repaired", Rate: -1},
		"a rate of years":     {Who: "ada", Reason: "repaired", Rate: minRate / 2},
		"a rate beyond all":   {Who: "ada", Reason: "repaired", Rate: maxRate * 2},
		"no number":           {Who: "ada", Reason: "repaired", Rate: math.NaN()},
		"a dry run with such": {DryRun: true, Rate: math.Inf(1)},
	} {
		if _, err := letters.Redrive(t.Context(), Filter{}, o); err == nil || !strings.Contains(err.Error(), "Try: ") {
			t.Errorf("%s: %v", name, err)
		}
		if o.DryRun || o.Rate != 0 {
			continue
		}
		if _, err := letters.Discard(t.Context(), Filter{}, o.Who, o.Reason); err == nil || !strings.Contains(err.Error(), "Try: ") {
			t.Errorf("discard, %s: %v", name, err)
		}
	}
	for _, good := range []RedriveOptions{{DryRun: true}, {Who: "ada", Reason: "repaired", Rate: minRate}, {Who: "ada", Reason: "repaired", Rate: maxRate}} {
		if err := good.check(); err != nil {
			t.Errorf("%+v: %v", good, err)
		}
	}
}
