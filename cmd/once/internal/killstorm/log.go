package killstorm

import (
	"bufio"
	"crypto/sha256"
	"encoding/csv"
	"encoding/hex"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"
)

// Log writes the attempts and outcomes of the clients to files in a folder. A nil Log writes nothing.
type Log struct {
	mu       sync.Mutex
	retries  *table // one line per attempt
	outcomes *table // one line per final answer
	Server   *os.File
}

// OpenLog makes the folder and its files: client_retries.csv, outcomes.csv and server.log. Their old content is deleted.
func OpenLog(dir string) (*Log, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil { //nolint:gosec // all users may read it
		return nil, err
	}
	retries, err1 := newTable(filepath.Join(dir, "client_retries.csv"), "attempt", "delay_ms", "status", "code", "notes")
	outcomes, err2 := newTable(filepath.Join(dir, "outcomes.csv"), "key", "payload_hash", "status", "http_code", "result_id", "notes")
	server, err3 := createFile(filepath.Join(dir, "server.log"))
	l := &Log{retries: retries, outcomes: outcomes, Server: server}
	if err := errors.Join(err1, err2, err3); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return l, nil
}

// attempt writes the line of one request, with the HTTP status and the problem code of its answer.
func (l *Log) attempt(n int, delay time.Duration, key string, v verdict) {
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	status := ""
	if v.status != 0 {
		status = strconv.Itoa(v.status)
	}
	l.retries.line(strconv.Itoa(n), strconv.FormatInt(delay.Milliseconds(), 10), status, v.code, v.word+" "+key)
}

// outcome writes the line of the final answer that a client got.
func (l *Log) outcome(key, body string, a answer, err error, notes string) {
	if l == nil {
		return
	}
	word, code := "unfinished", ""
	if err == nil {
		word, code = judge(a, nil).word, strconv.Itoa(a.status)
	}
	sum := sha256.Sum256([]byte(body))
	l.mu.Lock()
	defer l.mu.Unlock()
	l.outcomes.line(key, hex.EncodeToString(sum[:]), word, code, resultID(a), notes)
}

// resultID returns the ID of the created object.
func resultID(a answer) string {
	var result struct {
		ID string `json:"id"`
	}
	if a.status >= 300 || json.Unmarshal(a.body, &result) != nil {
		return ""
	}
	return result.ID
}

// Close writes the remaining lines. Its error means that the files are not complete.
func (l *Log) Close() error {
	if l == nil {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	err := errors.Join(l.retries.close(), l.outcomes.close())
	if l.Server != nil {
		err = errors.Join(err, l.Server.Close())
	}
	return err
}

// table is a CSV file.
type table struct {
	file *os.File
	buf  *bufio.Writer
	csv  *csv.Writer
}

// createFile makes a file that other users cannot read, or empties it.
func createFile(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return nil, err
	}
	return f, f.Chmod(0o600) // an existing file keeps its old mode otherwise
}

func newTable(path string, header ...string) (*table, error) {
	f, err := createFile(path)
	if err != nil {
		return nil, err
	}
	b := bufio.NewWriter(f)
	t := &table{f, b, csv.NewWriter(b)}
	t.line(header...)
	return t, nil
}

// line writes one line. Its error is returned by close, because the writer keeps its first error.
func (t *table) line(fields ...string) { _ = t.csv.Write(fields) }

func (t *table) close() error {
	if t == nil {
		return nil
	}
	t.csv.Flush()
	return errors.Join(t.csv.Error(), t.buf.Flush(), t.file.Close())
}
