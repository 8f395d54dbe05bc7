package main

import (
	"context"
	"database/sql"
	"errors"
	"testing"

	"gorm.io/driver/postgres"
	"gorm.io/gorm"
	"gorm.io/gorm/logger"

	"github.com/oncelib/once"
	"github.com/oncelib/once/internal/testenv"
	"github.com/oncelib/once/lease"
	"github.com/oncelib/once/store/sqlstore"
)

// bank dedupes by the key of a request. Its first answer gets lost.
type bank struct{ transfers map[string]int64 }

func (b *bank) pay(_ context.Context, key string, f Refund) (string, error) {
	_, before := b.transfers[key]
	if b.transfers[key] = f.Amount; !before {
		return "", errors.New("no answer")
	}
	return "tr_" + key[:8], nil
}

func openLeased(t *testing.T) (*gorm.DB, *sqlstore.Store, *once.Engine[*lease.Run]) {
	t.Helper()
	ctx := t.Context()
	db, err := sqlstore.Open("pgx", testenv.NewDatabase(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	orm, err := gorm.Open(postgres.New(postgres.Config{Conn: db}), &gorm.Config{Logger: logger.Discard})
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(sqlstore.Migrate(ctx, db), orm.AutoMigrate(&Refund{})); err != nil {
		t.Fatal(err)
	}
	s, err := sqlstore.New(ctx, db, sqlstore.Config{})
	if err != nil {
		t.Fatal(err)
	}
	return orm, s, once.New(lease.New(s, lease.Config{}), once.Config{})
}

// A payout whose call got no answer goes on behind its first phase: the row is created once,
// and the bank makes one transfer.
func TestOnePayout(t *testing.T) {
	orm, s, jobs := openLeased(t)
	b := &bank{map[string]int64{}}
	p := &payout{orm, s, b.pay}
	for i := range 3 {
		r, err := once.Do(t.Context(), jobs, once.Operation{Scope: "payouts", Key: "k"}, func(ctx context.Context, run *lease.Run) (Refund, error) {
			return p.work(ctx, run, Refund{Charge: "ch_1", Amount: 1000})
		})
		if (err == nil) != (i > 0) || i > 0 && (r.Value.Transfer == "" || r.Replayed != (i == 2)) {
			t.Errorf("try %d: %+v, %v", i, r, err)
		}
		var rows []Refund
		if err := orm.Find(&rows).Error; err != nil {
			t.Fatal(err)
		}
		if len(rows) != 1 || len(b.transfers) != 1 || i > 0 && rows[0] != r.Value {
			t.Errorf("try %d: rows %+v, transfers %v, answer %+v", i, rows, b.transfers, r.Value)
		}
	}
}

// What GORM does in a phase is what it does in the transaction of an operation.
func TestTrapsOfAPhase(t *testing.T) {
	orm, s, jobs := openLeased(t)
	phase := func(key string, work func(g *gorm.DB) error) error {
		_, err := once.Do(t.Context(), jobs, once.Operation{Scope: "test", Key: key}, func(ctx context.Context, run *lease.Run) (int, error) {
			return lease.InTx(ctx, run, s, "phase", func(ctx context.Context, tx *sql.Tx) (int, error) { return 0, work(in(ctx, orm, tx)) })
		})
		return err
	}
	count := func() (n int64) {
		if err := orm.Model(&Refund{}).Count(&n).Error; err != nil {
			t.Fatal(err)
		}
		return n
	}
	if err := phase("one", func(g *gorm.DB) error { return g.Create(&Refund{Charge: "a"}).Error }); err != nil || count() != 1 {
		t.Errorf("%v, %d rows", err, count())
	}
	// An error that is swallowed does not commit the phase.
	if err := phase("swallowed", func(g *gorm.DB) error {
		g.Create(&Refund{Charge: "b"})
		g.Create(&Refund{Charge: "a"}) // there is one
		return nil
	}); once.EffectOf(err) != once.EffectNotApplied || count() != 1 {
		t.Errorf("%v, %d rows", err, count())
	}
	// In GORM's own transaction, which is a savepoint here, it can be survived.
	if err := phase("savepoint", func(g *gorm.DB) error {
		if g.Transaction(func(g *gorm.DB) error { return g.Create(&Refund{Charge: "a"}).Error }) == nil {
			t.Error("a duplicate was created")
		}
		return g.Create(&Refund{Charge: "b"}).Error
	}); err != nil || count() != 2 {
		t.Errorf("%v, %d rows", err, count())
	}
	// The transaction of the phase is not GORM's to end.
	if err := phase("commit", func(g *gorm.DB) error {
		return errors.Join(g.Create(&Refund{Charge: "c"}).Error, g.Commit().Error)
	}); err == nil || count() != 2 {
		t.Errorf("%v, %d rows", err, count())
	}
	// The global handle writes outside: what it writes stands, although the phase is rolled back.
	failed := errors.New("failed")
	if err := phase("outside", func(*gorm.DB) error { return errors.Join(orm.Create(&Refund{Charge: "d"}).Error, failed) }); !errors.Is(err, failed) || count() != 3 {
		t.Errorf("%v, %d rows", err, count())
	}
}
