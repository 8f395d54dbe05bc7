package otlp

import (
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// TestExportErrorsAreLoggedOnceAMinute: however many there are.
func TestExportErrorsAreLoggedOnceAMinute(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var log strings.Builder
		e := &exportErrors{log: slog.New(slog.NewTextHandler(&log, nil))}
		for range 180 { // seconds
			e.Handle(errors.New("down"))
			<-time.After(time.Second)
		}
		if n := strings.Count(log.String(), "traces and metrics are lost"); n != 3 {
			t.Errorf("%d warnings in 3 minutes", n)
		}
	})
}
