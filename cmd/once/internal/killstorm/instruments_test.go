package killstorm

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// TestInstrumentsMustAgree: a storm is not OK if the instruments have counted too much, too little, or an execution
// where there was none.
func TestInstrumentsMustAgree(t *testing.T) {
	t.Parallel()
	good := Instruments{Executed: 94, Last: 20, UnderWay: 16, Replayed: 100}
	for name, c := range map[string]struct {
		change func(*Instruments)
		says   string // "": it is OK
	}{
		"as it was":                {func(*Instruments) {}, ""},
		"a straggler's replay":     {func(i *Instruments) { i.Replayed += 2 }, ""},
		"too few by the last":      {func(i *Instruments) { i.Last, i.Executed = 19, 93 }, "the metrics of the last process count 19 refunds, but the database has 20"},
		"too many by the last":     {func(i *Instruments) { i.Last, i.Executed = 21, 95 }, "count 21 refunds"},
		"too few by others":        {func(i *Instruments) { i.Executed = 78 }, "the metrics have missed 22 refunds, but at most 21 were running"},
		"executed once more":       {func(i *Instruments) { i.Again = 1 }, "1 refunds were executed a second time"},
		"replays are not counted":  {func(i *Instruments) { i.Replayed = 99 }, "the metrics count 99 replays"},
		"too many replays counted": {func(i *Instruments) { i.Replayed = 103 }, "the metrics count 103 replays"},
	} {
		i := instruments{sum: good, effects: 80}
		c.change(&i.sum)
		r := Report{Operations: 100, Effects: 100, Details: Details{Broken: 3, Abandoned: 2}}
		r.compare(&i)
		if got := strings.Join(r.Reasons, "; "); (got == "") != (c.says == "") || !strings.Contains(got, c.says) {
			t.Errorf("%s: %q", name, got)
		}
		if c.says == "" && r.Instruments.Unread != 6 {
			t.Errorf("%s: %+v", name, r.Instruments)
		}
	}
}

// TestInstrumentsAreRead: only refunds that took effect are counted, executed and replayed ones apart.
func TestInstrumentsAreRead(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for n, labels := range []string{
			`decision="new_execution",effect="applied",operation="POST /charges"`,
			`decision="new_execution",effect="applied",operation="POST /refunds"`,
			`decision="conflict_retry",effect="applied",operation="POST /refunds"`,
			`decision="new_execution",effect="not_applied",operation="POST /refunds"`,
			`decision="db_hit",effect="applied",operation="POST /refunds"`,
			`decision="cache_hit",effect="applied",operation="POST /refunds"`,
			`decision="in_flight",effect="not_applied",operation="POST /refunds"`,
		} {
			fmt.Fprintf(w, "once_operations_total{%s} %d\nonce_operation_duration_seconds_count{%[1]s} 1000\n", labels, 1<<n)
		}
	}))
	defer server.Close()
	c, err := (&instruments{address: strings.TrimPrefix(server.URL, "http://")}).read(t.Context())
	if err != nil || c != (counted{executed: 1<<1 + 1<<2, replayed: 1<<4 + 1<<5}) {
		t.Errorf("%+v, %v", c, err)
	}
}
