package killstorm

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// providerOf starts a provider that is not killed.
func providerOf(t *testing.T, path string, dedupes bool) (address string) {
	t.Helper()
	p, err := OpenProvider(path, dedupes)
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewServer(p)
	t.Cleanup(s.Close)
	return strings.TrimPrefix(s.URL, "http://")
}

func deeds(t *testing.T, path string) (all []string) {
	t.Helper()
	list, err := readDeeds(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range list {
		all = append(all, d.What)
	}
	return all
}

// TestProviderRemembersKeysAfterAKill: what a provider does with a key it does also after it was killed; a call that comes late meets the tombstone.
func TestProviderRemembersKeysAfterAKill(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "charges")
	ctx := t.Context()
	ask := func(what, key string, number int) (string, error) {
		t.Helper()
		return askProvider(ctx, providerOf(t, path, true), what, key, chargeRequest{Order: "o" + key, Number: number})
	}
	if _, err := ask("/charges", "a", dropsBefore); err == nil {
		t.Error("an answer that is to be dropped has come")
	}
	if _, err := ask("/charges", "b", dropsAfter); err == nil {
		t.Error("an answer that is to be dropped has come")
	}
	if id, err := ask("/void", "b", 5); err != nil || id != "ch_1" {
		t.Errorf("%q, %v", id, err)
	}
	if id, err := ask("/charges", "b", 5); err != nil || id != "ch_1" {
		t.Errorf("%q, %v", id, err)
	}
	if id, err := ask("/void", "a", 5); err != nil || id != "" {
		t.Errorf("%q, %v", id, err)
	}
	if _, err := ask("/charges", "a", 5); err == nil {
		t.Error("a charge under a void key")
	}
	if got, want := strings.Join(deeds(t, path), " "), "request request charge request deduped void request refused"; got != want {
		t.Errorf("%s, want %s", got, want)
	}

	late := filepath.Join(t.TempDir(), "late")
	synctest.Test(t, func(t *testing.T) { // its clock waits while the test pauses
		p, err := OpenProvider(late, true)
		if err != nil {
			t.Fatal(err)
		}
		asked := func(ctx context.Context, what string) string {
			w, r := httptest.NewRecorder(), httptest.NewRequestWithContext(ctx, http.MethodPost, what, strings.NewReader(fmt.Sprintf(`{"order":"o","number":%d}`, comesLate)))
			r.Header.Set(keyHeader, "k")
			p.ServeHTTP(w, r)
			return w.Body.String()
		}
		hurried, cancel := context.WithTimeout(t.Context(), callPatience)
		defer cancel()
		go asked(hurried, "/charges")
		<-hurried.Done() // the client has stopped waiting
		if got := asked(t.Context(), "/void"); got != "{\"charge\":\"\"}\n" {
			t.Errorf("%s", got)
		}
		<-time.After(lateness)
		if got := strings.Join(deeds(t, late), " "); got != "request void refused" {
			t.Errorf("%s", got)
		}
	})
}

// TestProvidersReport: the demo sees what it looks for.
func TestProvidersReport(t *testing.T) {
	t.Parallel()
	db, err := sql.Open("sqlite", "file:"+filepath.Join(t.TempDir(), "witness.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	for _, statement := range append(ChargingTables(), "insert into demo_booking values ('s-0', 'c0'), ('s-1', 'c1'), ('t-2', 'c2')") {
		if _, err := db.ExecContext(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	for name, tt := range map[string]struct {
		spoil func(s *Providers, write func(file string, d deed))
		says  string
	}{
		"all is well": {func(*Providers, func(string, deed)) {}, ""},
		"a double charge": {func(s *Providers, write func(string, deed)) {
			write(s.ForgetsFile, deed{What: "charge", Charge: "x", Order: "s-2"})
		}, "s-2 is charged 2 times"},
		"a false answer":        {func(s *Providers, _ func(string, deed)) { s.outcomes[0].charge = "other" }, "s-0 was answered with the charge other"},
		"a failure and charged": {func(s *Providers, _ func(string, deed)) { s.outcomes[2].charge = "" }, "s-2 was answered as failed, but is charged"},
		"not booked":            {func(s *Providers, _ func(string, deed)) { s.outcomes[2].decided = false }, `"" is booked`},
		"not resolved":          {func(s *Providers, _ func(string, deed)) { s.outcomes[2].done = false }, "1 of 2 unknown outcomes were not resolved"},
		"no check":              {func(s *Providers, _ func(string, deed)) { s.outcomes[0].unknown = false }, "the provider has resolved 0 unknown outcomes"},
	} {
		dir := t.TempDir()
		s := &Providers{ProvidersConfig: ProvidersConfig{Session: "s", Orders: 3, Witness: Witness{DB: db}, DedupesFile: filepath.Join(dir, "a"), ForgetsFile: filepath.Join(dir, "b")}, outcomes: []orderOutcome{
			{charge: "c0", unknown: true, done: true}, {charge: "c1", done: true}, {charge: "c2", unknown: true, decided: true, done: true},
		}}
		write := func(file string, d deed) {
			p, err := OpenProvider(file, false)
			if err != nil {
				t.Fatal(err)
			}
			p.note(d)
			if err := p.file.Close(); err != nil {
				t.Fatal(err)
			}
		}
		write(s.DedupesFile, deed{What: "charge", Charge: "c0", Order: "s-0", Key: "0"})
		write(s.DedupesFile, deed{What: "charge", Charge: "c1", Order: "s-1", Key: "1"})
		write(s.ForgetsFile, deed{What: "charge", Charge: "c2", Order: "s-2"})
		tt.spoil(s, write)
		var r ProvidersReport
		if err := s.count(t.Context(), &r); err != nil {
			t.Fatal(err)
		}
		if all := strings.Join(r.Reasons, "; "); r.OK != (tt.says == "") || !strings.Contains(all, tt.says) {
			t.Errorf("%s: %v, %s", name, r.OK, all)
		}
		if name == "all is well" {
			b, err := json.Marshal(r)
			if want := `{"calls":0,"unknown":2,"resolved":2,"resolved_by_check":1,"resolved_by_operator":1,"double_charges":0,"deduped":0,"refused":0,"provider_kills":0,"service_kills":0,"ok":true}`; err != nil || string(b) != want {
				t.Errorf("%s, %v", b, err)
			}
		}
	}
}
