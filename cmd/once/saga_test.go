package main

import (
	"context"
	"database/sql"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/oncelib/once"
	"github.com/oncelib/once/cmd/once/internal/cli"
	"github.com/oncelib/once/internal/testenv"
	"github.com/oncelib/once/saga"
)

// orders is a program with sagas. Its input says what goes wrong.
type orders struct {
	db     opened
	runner *saga.Runner[*sql.Tx]
	order  *saga.Definition[string, string]
}

func ordersOf(db opened) orders {
	reserve := saga.Tx("reserve", func(_ context.Context, _ *sql.Tx, in string) (string, error) { return "shelf 7", nil }).
		Undo(func(_ context.Context, _ *sql.Tx, in, _ string) error {
			if in == "undo fails" {
				return &once.Failure{Code: "gone"}
			}
			return nil
		})
	approve := saga.Tx("approve", func(_ context.Context, _ *sql.Tx, in string) (string, error) {
		if in == "waits" {
			return "", saga.Again(time.Hour)
		}
		return "yes", nil
	})
	charge := saga.Call("charge", func(_ context.Context, _, in string) (string, error) {
		switch in {
		case "unknown":
			return "", errors.New("timeout")
		case "undo fails", "no":
			return "", &once.Failure{Code: "card.declined"}
		}
		return "ch_1", nil
	})
	o := orders{db: db}
	o.order = saga.New("order", func(ctx saga.Context, in string) (string, error) {
		if _, err := reserve.Do(ctx, in); err != nil {
			return "", err
		}
		if _, err := approve.Do(ctx, in); err != nil {
			return "", err
		}
		return charge.Do(ctx, in)
	}, reserve, approve, charge)
	o.runner = saga.NewRunner(db.Store, saga.Config{}, o.order)
	return o
}

// do runs a saga until it ends, is stuck or waits.
func (o orders) do(t *testing.T, id saga.ID, in string) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_, _ = saga.Do(ctx, o.runner, o.order, id, in)
	}()
	for in == "waits" {
		if s, err := o.runner.Status(t.Context(), id); err == nil && s.State == saga.StateWaiting {
			cancel()
			break
		}
	}
	<-ended
}

// TestSagaCommands: what an operator and scripts read of sagas, and what they do to them, needs no program, is audited and is the same on
// every database and by every driver, to the byte. A preview changes nothing.
func TestSagaCommands(t *testing.T) {
	testenv.Both(t)
	t.Parallel()
	want, err := os.ReadFile(filepath.Join("testdata", "saga.txt"))
	if err != nil {
		t.Fatal(err)
	}
	onAll(t, func(t *testing.T, url string) {
		db := open(t, url)
		o := ordersOf(db)
		for key, in := range map[string]string{"order-1": "fine", "order-2": "no", "order-3": "unknown", "order-4": "undo fails", "order-5": "waits"} {
			o.do(t, saga.ID{Tenant: "acme", Key: key}, in)
		}
		o.do(t, saga.ID{Tenant: "globex", Key: "order-3"}, "unknown")
		o.do(t, saga.ID{Tenant: "globex", Key: "order-6"}, "unknown")
		o.do(t, saga.ID{Key: "order-7"}, "unknown")
		var got strings.Builder
		say := func(line string) {
			db.set(t, "once_operation", "since", begun, "1 = 1")
			db.set(t, "once_operation", "expires_at", ends, "state = 2")
			out := run(t, append(strings.Split(line, " "), "--db", url)...) // an empty word is between two blanks
			src, err := cli.ParseSource(url)
			if err != nil {
				t.Fatal(err)
			}
			text := strings.NewReplacer(src.Paste, "URL", src.Name, "URL").Replace(out.stdout + out.stderr)
			got.WriteString("$ once " + line + "\n" + stable(text))
		}
		for _, line := range []string{
			"saga list", "saga list --state stuck --tenant acme -o json", "saga list --state waiting -o jsonl", "saga list --state compensated", "saga list --state completed", "saga list --saga refund",
			"saga list --limit 1", "saga list --before 2020-01-01T00:00:00Z", "saga list --tenant  --state stuck",
			"saga show order-1", "saga show order-2 -o json", "saga show order-3", "saga show order-3 --tenant globex", "saga show order-4 --payload", "saga show order-5", "saga show order-9",
			"saga force order-3 --tenant acme --step reserve --value 7 --reason x", "saga force order-3 --tenant acme --step charge --value {\"id\":7} --reason asked",
			"saga force order-3 --tenant acme --step charge --value \"ch_3\" --reason asked --by ada --yes", "saga show order-3 --tenant acme --payload",
			"saga force order-3 --tenant globex --step charge --not-made --reason asked --by ada --yes",
			"saga cancel order-6 --reason storno --by ada", "saga cancel order-6 --reason storno --by ada --yes", "saga cancel order-6 --reason storno --by ada --yes", "saga cancel order-1 --reason storno --by ada --yes",
			"saga skip order-4 --step charge --reason done --by ada --yes", "saga skip order-4 --step reserve --reason done --by ada --yes", "saga retry order-4 --reason mended --by ada --yes",
			"saga retry order-7 --tenant  --reason mended --by ada --yes", "saga wake order-5 --reason approved --by ada", "saga wake order-5 --reason approved --by ada --yes", "saga wake order-1 --reason approved --yes", "saga list --state waiting",
			"saga forget order-5 --reason asked --by ada --yes", "saga forget order-1 --reason asked --by ada --yes", "saga show order-1", "saga show order-1 -o json", "saga list --state completed",
			"audit list", "saga forget order-2 --reason asked --by ada",
		} {
			say(line)
		}
		if name := os.Getenv("ONCE_WRITE_OUTPUTS"); name != "" { // to see what a change does to them
			if err := os.WriteFile(name, []byte(got.String()), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		golden(t, got.String(), string(want))

		o.finish(t, map[saga.ID]string{{Tenant: "acme", Key: "order-3"}: "completed ch_3", {Tenant: "acme", Key: "order-4"}: "compensated card.declined", {Tenant: "globex", Key: "order-6"}: "compensated SAGA.cancelled"})
	})
}

// finish goes on with sagas that a person has decided about.
func (o orders) finish(t *testing.T, want map[saga.ID]string) {
	t.Helper()
	in := map[string]string{"order-3": "unknown", "order-4": "undo fails", "order-6": "unknown"}
	for id, ends := range want {
		v, err := saga.Do(t.Context(), o.runner, o.order, id, in[id.Key])
		var f *once.Failure
		if errors.As(err, &f) {
			v = f.Code
		} else if err != nil {
			t.Error(err)
		}
		if s, err := o.runner.Status(t.Context(), id); err != nil || s.State+" "+v != ends {
			t.Errorf("%v has ended as %s with %q, %v, want %s", id, s.State, v, err, ends)
		}
	}
}

// TestSagaUsage: a command line that is wrong is answered with 2, and with what to try; without the tables or the saga, the command says so.
func TestSagaUsage(t *testing.T) {
	t.Parallel()
	for args, try := range map[string]string{
		"list --state lost": "--state stuck", "show": "saga list", "retry": "once saga retry KEY --reason WHY", "retry k": "--reason WHY",
		"skip k --reason x": "--step STEP", "force k --reason x --step s": "--not-made", "force k --reason x --step s --value x": "--value 7", "force k --reason x --step s --value 1 --not-made": "--value JSON",
	} {
		o := run(t, append([]string{"saga"}, strings.Fields(args+" --db sqlite:x")...)...).want(t, 2)
		if _, says, _ := strings.Cut(o.stderr, "\nTry: "); !strings.Contains(says, try) {
			t.Errorf("once saga %s: %s", args, o.stderr)
		}
	}
	url := sqliteURL(t)
	run(t, "migrate", "up", "--only", "operation,operate", "--db", url).want(t, 0)
	if o := run(t, "saga", "list", "--db", url).want(t, 0); !strings.Contains(o.stderr, "no sagas that match") {
		t.Errorf("%s", o.stderr)
	}
	run(t, "saga", "retry", "k", "--reason", "x", "--yes", "--db", url).want(t, 3)
}

// TestDoctorOfSagas: the doctor tells which sagas wait for a person, for a runner, or for a table.
func TestDoctorOfSagas(t *testing.T) {
	t.Parallel()
	url := sqliteURL(t)
	db := open(t, url)
	o := ordersOf(db)
	found := examined(t, url)
	if _, asked := found["saga_table"]; asked {
		t.Error("asked without a saga")
	}
	found["saga_stuck"].want(t, "no saga", okay, "no saga is stuck")
	o.do(t, saga.ID{Tenant: "acme", Key: "k"}, "unknown")
	o.do(t, saga.ID{Tenant: "acme", Key: "w"}, "waits")
	found = examined(t, url)
	found["saga_stuck"].want(t, "stuck", warn, "1 saga is stuck")
	found["unknown"].want(t, "stuck", okay, "no operation")
	found["saga_due"].want(t, "waits", okay, "no saga waits for a runner")
	found["saga_table"].want(t, "as it comes", okay, "2 sagas")
	db.set(t, "once_saga_due", "due_at", time.Now().Add(-2*time.Hour), "1 = 1")
	examined(t, url)["saga_due"].want(t, "due", warn, "1 saga is due, and the oldest due saga has waited for 2 h")
	if _, err := db.ExecContext(t.Context(), "drop table once_saga_due"); err != nil {
		t.Fatal(err)
	}
	examined(t, url)["saga_table"].want(t, "no table", fail, "the database has 2 sagas, but the table of waiting sagas (once_saga_due) is missing")
}
