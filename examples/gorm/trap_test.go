package main

import (
	"context"
	"errors"
	"testing"

	_ "github.com/jackc/pgx/v5/stdlib"
	"gorm.io/driver/postgres"
	"gorm.io/gorm"
	"gorm.io/gorm/logger"

	"github.com/oncelib/once"
	"github.com/oncelib/once/internal/testenv"
	"github.com/oncelib/once/store/sqlstore"

	"database/sql"
)

// What GORM does with a transaction that is not its own.
func TestGORMInATransactionOfOnce(t *testing.T) {
	ctx := context.Background()
	db, err := sqlstore.Open("pgx", testenv.NewDatabase(t))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
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
	outside := 0
	engine := once.New(s, once.Config{Observer: observer(func(e once.Event) {
		if e.Type == once.EventEffectOutsideTx {
			outside++
		}
	})})
	do := func(key string, work func(g *gorm.DB) error) error {
		_, err := once.Do(ctx, engine, once.Operation{Scope: "test", Key: key}, func(ctx context.Context, tx *sql.Tx) (int, error) {
			return 0, work(in(ctx, orm, tx))
		})
		return err
	}
	count := func() (n int64) {
		if err := orm.Model(&Refund{}).Count(&n).Error; err != nil {
			t.Fatal(err)
		}
		return n
	}

	// Several statements, each beginning from the same handle, are one transaction.
	if err := do("two", func(g *gorm.DB) error {
		return errors.Join(g.Create(&Refund{Charge: "a"}).Error, g.Create(&Refund{Charge: "b"}).Error)
	}); err != nil || count() != 2 {
		t.Errorf("%v, %d", err, count())
	}
	// An error that is swallowed does not commit.
	if err := do("swallowed", func(g *gorm.DB) error {
		g.Create(&Refund{Charge: "c"})
		g.Create(&Refund{Charge: "a"}) // there is one
		return nil
	}); once.CodeOf(err) != once.CodeAborted || count() != 2 {
		t.Errorf("%v, %d", err, count())
	}
	// In GORM's own transaction, which is a savepoint here, it can be survived.
	if err := do("savepoint", func(g *gorm.DB) error {
		failed := g.Transaction(func(g *gorm.DB) error { return g.Create(&Refund{Charge: "a"}).Error })
		if failed == nil {
			t.Error("a duplicate was created")
		}
		return g.Create(&Refund{Charge: "c"}).Error
	}); err != nil || count() != 3 {
		t.Errorf("%v, %d", err, count())
	}
	// The transaction of the operation is not GORM's to end.
	if err := do("commit", func(g *gorm.DB) error {
		return errors.Join(g.Create(&Refund{Charge: "d"}).Error, g.Commit().Error)
	}); err == nil || count() != 3 {
		t.Errorf("%v, %d", err, count())
	}
	// Who writes through the global handle writes outside, and that is reported.
	if outside != 0 {
		t.Errorf("%d reports", outside)
	}
	if err := do("outside", func(*gorm.DB) error { return orm.Create(&Refund{Charge: "e"}).Error }); err != nil || outside != 1 {
		t.Errorf("%v, %d reports", err, outside)
	}
}

type observer func(once.Event)

func (o observer) Observe(_ context.Context, e once.Event) { o(e) }
