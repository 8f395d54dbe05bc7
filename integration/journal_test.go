package integration

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/oncelib/once/integration/harness"
	"github.com/oncelib/once/internal/testenv"
	"github.com/oncelib/once/retry/journal"
	"github.com/oncelib/once/retry/retryhttp"
)

// askWithJournal is a client with a journal: it resumes what an earlier process has left
// open, and then, unless it is a successor, asks for something itself.
func askWithJournal(ctx context.Context, p plan) error {
	k := &killer{mode: p.Mode, at: p.At}
	k.arm()
	k.named("before the journal is opened")
	intents, err := journal.Open(p.Witness+".journal", journal.Config{Compact: 300}) // it is written anew on the way
	if err != nil {
		return err
	}
	k.named("after the journal was opened")
	client := &http.Client{Transport: &retryhttp.Transport{
		Base:    &http.Transport{DialContext: k.wire.DialContext},
		Journal: intents,
	}}
	if err := resumeAll(ctx, k, intents, client, p); err != nil {
		return err
	}
	for n := 0; n < asked && p.Attempt == byVictim; n++ {
		k.named("before the call")
		if err := askFor(ctx, k, client, p, keyOf(p.Key, n)); err != nil {
			return err
		}
		k.named("closed")
	}
	return intents.Close()
}

func resumeAll(ctx context.Context, k *killer, j journal.Journal, client *http.Client, p plan) error {
	resumed, err := journal.Resume(ctx, j, client, journal.Options{Answer: func(_ journal.Intent, resp *http.Response) error {
		k.named("resumed")
		return take(p, resp)
	}})
	if err == nil && resumed.Open+resumed.Held > 0 {
		err = fmt.Errorf("resumed: %+v", resumed)
	}
	return err
}

// asked is for how many things a client asks.
const asked = 3

func keyOf(key string, n int) string { return fmt.Sprintf("%s-%d", key, n) }

func askFor(ctx context.Context, k *killer, client *http.Client, p plan, key string) error {
	ctx = retryhttp.WithKey(ctx, retryhttp.Key{Value: key})
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, p.DSN, strings.NewReader("body"))
	if err != nil {
		return err
	}
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	k.named("answered")
	if err := take(p, resp); err != nil {
		return err
	}
	k.named("after the acknowledgement")
	return resp.Body.Close()
}

// take acknowledges an answer.
func take(p plan, resp *http.Response) error {
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return err
	}
	var a answer
	if err := json.Unmarshal(text, &a); err != nil {
		return fmt.Errorf("%d %s: %w", resp.StatusCode, text, err)
	}
	return acknowledge(p.Witness+a.Key, a)
}

// TestJournalKill kills a real client at the N-th of each kind of thing that it does,
// N = 1, 2, ... until it survives, and has another process resume what it has left. The
// server dedupes by the key; the judge looks into its database.
func TestJournalKill(t *testing.T) {
	testenv.Core(t)
	testenv.Need(t, "strace")
	t.Parallel()
	kinds := []string{byName, byWrite, byRead, "pwrite64", "fsync", "renameat", "flock"}
	if long() {
		kinds = append(kinds, byByte, "openat", "unlinkat", "close")
	}
	s := &journalLoop{t: t, g: newTestDB(t, harness.SQLite), seen: map[string][]bool{}, flow: flowJournal, answered: 4, look: open}
	s.lay(kinds)
}

// lay kills at all points of some kinds.
func (s *journalLoop) lay(kinds []string) {
	handler := s.g.open(s.t, setup{}).HTTP(byVictim, nil)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.arrived(r.Header.Get(keyHeader))
		handler.ServeHTTP(w, r)
	}))
	defer server.Close()
	s.url = server.URL
	store := s.g.name
	if s.table != nil {
		store = s.table.g.name
	}
	for _, twice := range []bool{false, true} {
		s.twice = twice
		for _, kind := range kinds {
			before := s.kills
			harness.Loop(s.t, 1, func(at int) bool {
				return s.strike(&point{store: store, flow: s.flow, mode: kind, at: int64(at)})
			})
			s.kinds = append(s.kinds, fmt.Sprintf("%s %d", kind, s.kills-before))
		}
	}
	testenv.Reportf(s.t, "%d kills: %v; of the intents %d were not written, %d not sent, %d not answered, %d not closed, %d closed", s.kills, s.kinds, s.none, s.unsent, s.unanswered, s.unclosed, s.closed)
	if s.none == 0 || s.unsent == 0 || s.unanswered == 0 || s.unclosed == 0 || s.closed == 0 {
		s.t.Error("vacuous: not all of these were met")
	}
}

type journalLoop struct {
	twice bool // the victim finds what an earlier one has left

	t   *testing.T
	g   *testDB // of the server
	url string

	flow     string
	answered int64                               // the name at which the first answer is in the victim's hands
	look     func(path string) ([]string, error) // returns the keys of the open intents
	table    *table                              // where they are; nil: in a file

	mu   sync.Mutex
	path string            // of the victim's journal
	seen map[string][]bool // for each arrival of its key, whether the intent was in the journal

	kinds []string // with how many kills

	kills, none, unsent, unanswered, unclosed, closed int
}

func (s *journalLoop) arrived(key string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.path == "" { // of a successor, or of a victim whose request was late
		return
	}
	keys, err := s.look(s.path)
	s.seen[key] = append(s.seen[key], err == nil && slices.Contains(keys, key))
}

func (s *journalLoop) arrivals(key string) []bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.seen[keyOf(key, 0)]
}

// open returns the keys of the intents in a journal.
func open(path string) (keys []string, err error) {
	list, damage, err := journal.Read(path)
	if damage.Bytes > 0 {
		err = errors.Join(err, fmt.Errorf("torn: %+v", damage)) // one write is one system call
	}
	for _, in := range list {
		keys = append(keys, in.Key)
	}
	return keys, err
}

// strike kills a client at a point, lets another one resume, and judges. It reports
// whether it came to that.
func (s *journalLoop) strike(p *point) (killed bool) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), patience)
	defer cancel()
	key := newKey(p)
	victim := plan{DSN: s.url, Flow: s.flow, Mode: p.mode, At: p.at, Key: key, Attempt: byVictim, Witness: filepath.Join(s.t.TempDir(), "witness")}
	if s.table != nil {
		victim.Store, victim.Table = s.table.g.Kind, s.table.g.DSN
	}
	s.mu.Lock()
	s.path = victim.Witness + ".journal"
	s.mu.Unlock()
	if s.twice {
		earlier := victim
		earlier.Mode, earlier.At = byName, s.answered
		if _, killed, err := earlier.carryOut(s.t); err != nil || !killed || len(s.arrivals(key)) != 1 {
			s.t.Fatalf("vacuous: the earlier victim: killed %v, %v, arrivals %v", killed, err, s.arrivals(key))
		}
		victim.Attempt = bySuccessor
	}
	_, killed, err := victim.carryOut(s.t, p.tracer()...)
	if err != nil {
		s.t.Fatalf("%s: %v", p, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.table != nil {
		s.table.settle(ctx, s.t)
	}
	keys, err := s.look(s.path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		s.t.Errorf("%s: %v", p, err)
	}
	var want [asked]state
	for n := range asked {
		key := keyOf(key, n)
		_, acked, err := acknowledged(victim.Witness + key)
		if err != nil {
			s.t.Error(err)
		}
		isOpen, sent := slices.Contains(keys, key), len(s.seen[key]) > 0
		if sent && !isOpen && !acked {
			s.t.Errorf("%s: a request has left, no answer was taken, and no intent is open", p)
		}
		if slices.Contains(s.seen[key], false) {
			s.t.Errorf("%s: a request has left without an intent", p)
		}
		if isOpen || sent {
			want[n] = executed(byVictim)
		}
		if s.table != nil && n == 0 {
			s.table.judge(ctx, s.t, p, key, isOpen || sent)
		}
		s.count(killed, isOpen, sent, acked)
	}
	if killed {
		s.inherit(p, victim)
	}
	for n := range asked {
		if got, err := s.g.state(ctx, keyOf(key, n)); err != nil || got != want[n] {
			s.t.Errorf("%s: of %d the database has %+v, want %+v, %v", p, n, got, want[n], err)
		}
	}
	if keys, err := s.look(victim.Witness + ".journal"); err != nil || len(keys) > 0 {
		s.t.Errorf("%s: still open: %v, %v", p, keys, err)
	}
	return killed
}

// inherit has another process resume what the dead one has left. s.mu is held, but for
// the time in which requests arrive.
func (s *journalLoop) inherit(p *point, successor plan) {
	s.t.Helper()
	s.kills++
	s.path = ""
	s.mu.Unlock()
	defer s.mu.Lock()
	successor.At, successor.Attempt = 0, bySuccessor
	if _, killed, err := successor.carryOut(s.t); err != nil || killed {
		s.t.Fatalf("the successor of %s: killed %v, %v", p, killed, err)
	}
}

func (s *journalLoop) count(killed, isOpen, sent, acked bool) {
	switch {
	case !killed:
	case !isOpen && !sent:
		s.none++
	case !sent:
		s.unsent++
	case !acked:
		s.unanswered++
	case isOpen:
		s.unclosed++
	default:
		s.closed++
	}
}
