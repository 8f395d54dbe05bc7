package consumer

import (
	"log/slog"
	"strings"
	"sync"
	"testing"
)

// outageLog collects the lines of a consumer.
type outageLog struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *outageLog) Write(line []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(line)
}

func (l *outageLog) logger() *slog.Logger { return slog.New(slog.NewTextHandler(l, nil)) }

// check finds out whether the last line about an outage says that the outage is over. outage is in the line that says that the consumer gets nothing.
func (l *outageLog) check(t *testing.T, outage string) {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	text := l.text.String()
	if at := strings.LastIndex(text, outage); at >= 0 && !strings.Contains(text[at:], " again\"") {
		t.Errorf("after the outage no line says that it is over:\n%s", text)
	}
}
