package outbox

import (
	"context"
	"database/sql"
	"errors"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/oncelib/once"
	"github.com/oncelib/once/internal/testenv"
	"github.com/oncelib/once/message"
)

// TestAddCommits: messages stand and fall with the transaction in which they are added.
func TestAddCommits(t *testing.T) {
	testenv.Both(t)
	on(t, testAddCommits[pgx.Tx], testAddCommits[*sql.Tx])
}

func testAddCommits[TX any](t *testing.T, g *fixture[TX]) {
	failed := errors.New("failed")
	must(t, g.do(t.Context(), func(ctx context.Context, tx TX) error {
		return errors.Join(g.box.Add(ctx, tx), g.box.Add(ctx, tx, event("b", "k", "1"), event("a", "k", "2"), event("a", "", "3")), g.charge(ctx, tx, "x"), g.box.Add(ctx, tx, event("a", "k", "4")))
	}))
	err := g.do(t.Context(), func(ctx context.Context, tx TX) error {
		return errors.Join(g.box.Add(ctx, tx, event("a", "k", "rolled back")), failed)
	})
	if !errors.Is(err, failed) {
		t.Error(err)
	}
	for _, commit := range []bool{false, true} {
		tx, end := g.begin(t)
		must(t, g.box.Add(t.Context(), tx, event("a", "k", "own"), event("c", "k", "own")))
		must(t, end(commit))
	}
	want := []string{"a 3", "a k 1 2", "b k 1 1", "a k 2 4", "a k 3 own", "c k 1 own"}
	if g.name == "pgxstore" { // all messages of the transaction are in order
		want = []string{"a 3", "a k 1 2", "a k 2 4", "b k 1 1", "a k 3 own", "c k 1 own"}
	}
	g.wantRows(t, want...)
}

// TestAddInSavepoints: a savepoint that is rolled back takes its messages and their numbers with it.
func TestAddInSavepoints(t *testing.T) {
	testenv.Both(t)
	on(t, testAddInSavepoints[pgx.Tx], testAddInSavepoints[*sql.Tx])
}

func testAddInSavepoints[TX any](t *testing.T, g *fixture[TX]) {
	must(t, g.do(t.Context(), func(ctx context.Context, tx TX) error {
		must(t, g.box.Add(ctx, tx, event("a", "k", "1")))
		for _, keep := range []bool{true, false, true} {
			inner, end := g.savepoint(t, tx)
			kind := "kept"
			if !keep {
				kind = "lost"
			}
			must(t, g.box.Add(ctx, inner, event("a", "k", kind)))
			must(t, end(keep))
		}
		return g.box.Add(ctx, tx, event("a", "k", "5"))
	}))
	g.wantRows(t, "a k 1 1", "a k 2 kept", "a k 3 kept", "a k 4 5")
}

// TestAddInJoins: messages that are added in a Join stand and fall with it. On pgxstore they travel with the
// commit around it, in one order with all others.
func TestAddInJoins(t *testing.T) {
	testenv.Both(t)
	on(t, testAddInJoins[pgx.Tx], testAddInJoins[*sql.Tx])
}

func testAddInJoins[TX any](t *testing.T, g *fixture[TX]) {
	failed := errors.New("failed")
	join := func(ctx context.Context, tx TX, want error, m message.Message) {
		op := once.Operation{Scope: "join", Key: once.NewKey()}
		_, err := once.Join(ctx, g.engine, tx, op, func(ctx context.Context, tx TX) (string, error) {
			return "", errors.Join(g.box.Add(ctx, tx, m), want)
		})
		if !errors.Is(err, want) {
			t.Errorf("Join: %v, want %v", err, want)
		}
	}
	must(t, g.do(t.Context(), func(ctx context.Context, tx TX) error {
		join(ctx, tx, nil, event("b", "k", "1"))
		join(ctx, tx, failed, event("b", "k", "lost"))
		join(ctx, tx, nil, event("a", "k", "2"))
		return g.box.Add(ctx, tx, event("b", "k", "3"))
	}))
	want := []string{"b k 1 1", "a k 1 2", "b k 2 3"}
	if g.name == "pgxstore" {
		want = []string{"a k 1 2", "b k 1 1", "b k 2 3"}
	}
	tx, end := g.begin(t)
	join(t.Context(), tx, nil, event("b", "k", "4"))
	join(t.Context(), tx, failed, event("b", "k", "lost"))
	must(t, end(true))
	tx, end = g.begin(t)
	join(t.Context(), tx, nil, event("b", "k", "lost"))
	must(t, end(false))
	g.wantRows(t, append(want, "b k 3 4")...)
}

// TestDeclaredMessagesCommitWithTheirBatch: the messages of a batch commit with its writes, or not at all.
func TestDeclaredMessagesCommitWithTheirBatch(t *testing.T) {
	testenv.Both(t)
	on(t, testDeclare[pgx.Tx], testDeclare[*sql.Tx])
}

func testDeclare[TX any](t *testing.T, g *fixture[TX]) {
	batch := func(key string, rows int) error {
		_, err := once.DoBatch(t.Context(), g.engine, once.Operation{Scope: "batch", Key: key}, func(b *once.Batch) (string, error) {
			if err := g.box.Declare(t.Context(), b, event("b", "k", key), event("a", "k", key), event("b", "k", key)); err != nil {
				return "", err
			}
			b.ExecRows(rows, g.text("insert into charge (id) values (?)").SQL, key)
			return "", g.box.Declare(t.Context(), b, event("a", "", key))
		})
		return err
	}
	must(t, batch("1", 1))
	must(t, batch("1", 1)) // a replay
	if once.EffectOf(batch("2", 2)) != once.EffectNotApplied {
		t.Error("a batch is applied, although a write has affected another number of rows")
	}
	must(t, batch("3", 1))
	g.wantRows(t, "a 1", "a k 1 1", "b k 1 1", "b k 2 1", "a 3", "a k 2 3", "b k 3 3", "b k 4 3")
}

// TestAddIsReplayed: a replay adds no second message.
func TestAddIsReplayed(t *testing.T) {
	testenv.Both(t)
	on(t, testAddIsReplayed[pgx.Tx], testAddIsReplayed[*sql.Tx])
}

func testAddIsReplayed[TX any](t *testing.T, g *fixture[TX]) {
	for range 3 {
		engine := once.New[TX](g.store, once.Config{Observer: once.Discard})
		_, err := once.Do(t.Context(), engine, once.Operation{Scope: "s", Key: "k"}, func(ctx context.Context, tx TX) (string, error) {
			return "", g.box.Add(ctx, tx, event("a", "k", "1"))
		})
		must(t, err)
	}
	g.wantRows(t, "a k 1 1")
}
