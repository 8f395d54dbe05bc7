package telemetry_test

// The tests with databases are in integration/telemetry: "make test-of DIR=telemetry" runs them after these.

import (
	"log/slog"
	"testing"

	"github.com/oncelib/once/lease"
	"github.com/oncelib/once/telemetry"
)

// TestCompleterLogs: a Completer logs to the logger of its telemetry, and keeps one of its own.
func TestCompleterLogs(t *testing.T) {
	mine, other := slog.New(slog.DiscardHandler), slog.New(slog.DiscardHandler)
	tel := telemetry.Telemetry{Logger: mine}
	if c := tel.Completer(lease.Completer{}); c.Log != mine {
		t.Error("it logs elsewhere")
	}
	if c := tel.Completer(lease.Completer{Log: other}); c.Log != other {
		t.Error("its own logger was replaced")
	}
}
