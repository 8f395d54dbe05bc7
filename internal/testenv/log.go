package testenv

import (
	"os"
	"strings"
)

// serverLog is what a server has written since its last start.
type serverLog struct {
	path   string
	offset int64
}

// openLog opens the log for a start. The server inherits the open file, so it needs no permission for the
// file itself.
func openLog(path string) (*serverLog, *os.File, error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644) //nolint:gosec // tests may read it
	if err != nil {
		return nil, nil, err
	}
	info, err := file.Stat()
	if err != nil {
		return nil, nil, err
	}
	return &serverLog{path: path, offset: info.Size()}, file, nil
}

func (l *serverLog) text() string {
	text, err := os.ReadFile(l.path)
	if err != nil {
		return err.Error()
	}
	return string(text[min(l.offset, int64(len(text))):])
}

func (l *serverLog) contains(words string) bool { return strings.Contains(l.text(), words) }

// tail returns the end of the log, for an error message.
func (l *serverLog) tail() string {
	const most = 4000
	text := l.text()
	return text[max(0, len(text)-most):]
}
