package meter_test

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/oncelib/once/gauge"
	"github.com/oncelib/once/internal/base/instrument"
	"github.com/oncelib/once/internal/meter"
)

var update = flag.Bool("update", false, "write the tables of the page")

// page is where the tables stand that a reader looks into.
const page = "../../docs/observability.md"

// playbook is what idempotency playbooks call an instrument, or a part of it.
var playbook = map[instrument.ID]string{
	instrument.Operations:    "`idempotent.created`: decision `new_execution`; `idempotent.replayed`: `cache_hit`, `db_hit`; `idempotent.conflict`: `mismatch`, `in_flight`; `deduplication_decision`: the label",
	instrument.Retries:       "`retry_attempt_count`, seen by the server",
	instrument.RetryAttempts: "`retry_attempt_count`, seen by the client",
	instrument.LockWait:      "`lock_wait_time_ms`, in seconds",
	instrument.AcquireWait:   "`db_connection_wait_time`",
}

func table(head string, rows [][]string) string {
	var b strings.Builder
	b.WriteString(head + "\n|" + strings.Repeat("---|", strings.Count(head, "|")-1) + "\n")
	for _, r := range rows {
		b.WriteString("| " + strings.Join(r, " | ") + " |\n")
	}
	return b.String()
}

func code(list ...string) string {
	for i, s := range list {
		if s != "" {
			list[i] = "`" + s + "`"
		}
	}
	return strings.Join(list, ", ")
}

// tables are those of the page, by name.
func tables() map[string]string {
	var instruments, gauges, decisions [][]string
	for i, in := range instrument.All {
		kind := "counter"
		if in.Buckets != nil {
			kind = "histogram"
		}
		instruments = append(instruments, []string{code(in.Name), code(in.OTel), kind + ", " + code(in.Unit), code(append([]string(nil), in.Labels...)...), in.Help, playbook[instrument.ID(i)]})
	}
	for _, in := range gauge.Instruments() {
		kind := "gauge"
		if in.Grows {
			kind = "counter"
		}
		gauges = append(gauges, []string{code(in.Name), code(in.OTel), kind + ", " + code(in.Unit), code(in.Label), in.Help})
	}
	for _, d := range []struct {
		meter.Decision
		Outcomes string
	}{
		{meter.DecisionNewExecution, "`executed`, `declined`"},
		{meter.DecisionConflictRetry, "`executed` or `declined` after more than one run; `conflict`"},
		{meter.DecisionDBHit, "`replayed`, `result_unavailable`"},
		{meter.DecisionCacheHit, "`replayed` by `Config.Cache` or `Config.Shared`"},
		{meter.DecisionInFlight, "`in_flight`"},
		{meter.DecisionMismatch, "`mismatch`"},
		{meter.DecisionStale, "`stale`"},
		{meter.DecisionUnknown, "`unknown`"},
		{meter.DecisionFailed, "`failed`, `not_stored`, `aborted`"},
		{meter.DecisionUnavailable, "`unavailable`"},
		{meter.DecisionRefused, "`invalid`, `misuse`"},
	} {
		decisions = append(decisions, []string{code(string(d.Decision)), d.Outcomes})
	}
	return map[string]string{
		"instruments": table("| Prometheus | OpenTelemetry | kind, unit | labels | meaning of the value | name in playbooks about idempotency |", instruments),
		"gauges":      table("| Prometheus | OpenTelemetry | kind, unit | label | meaning of the value |", gauges),
		"decisions":   table("| decision | outcomes of a call |", decisions),
	}
}

// TestPageHasTheInstruments: the tables of the page are those of the code.
func TestPageHasTheInstruments(t *testing.T) {
	stored, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	text := string(stored)
	for name, want := range tables() {
		begin, end := fmt.Sprintf("<!-- table: %s -->\n", name), "<!-- end -->\n"
		before, rest, ok := strings.Cut(text, begin)
		got, after, closed := strings.Cut(rest, end)
		if !ok || !closed {
			t.Errorf("%s has no table %s", page, name)
			continue
		}
		if got != want {
			if !*update {
				t.Errorf("table %s of %s is not what the code says. Try: go test ./internal/meter -run TestPageHasTheInstruments -update", name, page)
			}
			text = before + begin + want + end + after
		}
	}
	if *update {
		if err := os.WriteFile(page, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}
