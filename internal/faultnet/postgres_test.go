//go:build linux

package faultnet

import (
	"context"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/oncelib/once/internal/testenv"
)

// session runs SQL through the proxy with psql, one message per statement, and
// returns whether psql believes that all of it worked.
func session(t *testing.T, proxy *Proxy, pg *testenv.Postgres, database, sql string) bool {
	t.Helper()
	path, err := testenv.Binary("psql")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, path, "-XAtq", "-v", "ON_ERROR_STOP=1", "-f", "-", pg.URLVia(proxy.Addr(), database))
	cmd.Stdin = strings.NewReader(sql)
	err = cmd.Run()
	if ctx.Err() != nil {
		t.Fatal("psql hangs")
	}
	return err == nil
}

const insert = "BEGIN;\nINSERT INTO rows VALUES (1);\nCOMMIT;\n"

// database makes a database with an empty table and returns a way to count and
// remove its rows.
func database(t *testing.T) (*testenv.Postgres, string, func() string) {
	t.Helper()
	pg := testenv.SharedPostgres(t)
	url := testenv.NewDatabase(t)
	name, _, _ := strings.Cut(url[strings.LastIndexByte(url, '/')+1:], "?")
	query := func(sql string) string {
		out, err := pg.Query(t.Context(), name, sql)
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	query("CREATE TABLE rows (n int)")
	return pg, name, func() string {
		return query("WITH gone AS (DELETE FROM rows RETURNING n) SELECT count(*) FROM gone")
	}
}

// TestCommitInDoubt produces both truths behind a lost answer on a real server,
// and finds the row where it must be at once when the client sees the end.
func TestCommitInDoubt(t *testing.T) {
	t.Parallel()
	testenv.Need(t, "postgresql")
	pg, name, take := database(t)
	for _, opts := range [][]Option{nil, {Reset()}, {Delay(time.Millisecond, time.Millisecond)}} {
		proxy := listen(t, pg.Addr(), opts...)
		for _, c := range []struct {
			what  string
			fault Fault
			rows  string
		}{
			{"answer lost", SwallowAnswer("COMMIT", PostgresIdle), "1"},
			{"answer lost, end guessed", SwallowAnswer("COMMIT", ""), "1"},
			{"request lost", CutBefore("COMMIT"), "0"},
		} {
			trigger := proxy.Arm(c.fault)
			if session(t, proxy, pg, name, insert) {
				t.Errorf("%s: psql believes that all went well", c.what)
			}
			if got := take(); got != c.rows || trigger.Count() != 1 {
				t.Errorf("%s: %s rows, want %s; the fault struck %d times", c.what, got, c.rows, trigger.Count())
			}
		}
		proxy.Disarm()
		if !session(t, proxy, pg, name, insert) || take() != "1" {
			t.Error("without a fault it does not work")
		}
	}
}

// TestCutAlongAWholeSession cuts after N bytes of the server, in steps, until a
// run survives. A row may be there or not, but never when psql was told that
// all is well and it is not; and the doubtful case must have been met.
func TestCutAlongAWholeSession(t *testing.T) {
	t.Parallel()
	testenv.Need(t, "postgresql")
	pg, name, take := database(t)
	proxy := listen(t, pg.Addr())
	if !session(t, proxy, pg, name, insert) || take() != "1" {
		t.Fatal("without a fault it does not work")
	}
	total := proxy.Stats().ServerBytes
	const commitAnswer = int64(len("C....COMMIT\x00" + PostgresIdle))
	notApplied, inDoubt := 0, 0
	for n := total - 3*commitAnswer; ; n += 3 {
		trigger := proxy.Arm(CutAfterServerBytes(n))
		told := session(t, proxy, pg, name, insert)
		switch applied := take() == "1"; {
		case told && !applied:
			t.Fatalf("cut after %d of %d bytes: acknowledged and lost", n, total)
		case applied && !told:
			inDoubt++
		case !applied:
			notApplied++
		}
		if trigger.Count() == 0 {
			break
		}
	}
	if notApplied == 0 || inDoubt == 0 {
		t.Errorf("not applied %d times, in doubt %d times: the interesting cases were not reached", notApplied, inDoubt)
	}
	t.Logf("not applied %d times, in doubt and applied %d times", notApplied, inDoubt)
}
