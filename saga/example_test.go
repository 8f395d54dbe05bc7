package saga_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/oncelib/once"
	"github.com/oncelib/once/saga"
	"github.com/oncelib/once/store/memstore"
)

type order struct {
	ID    string
	Cents int
}

// The steps of an order. A real program has a pgx.Tx or an *sql.Tx in place of the transaction of a memstore.
var (
	reserve = saga.Tx("reserve", func(_ context.Context, tx *memstore.Tx, o order) (string, error) {
		return "shelf 7", tx.Put("reserved "+o.ID, "shelf 7")
	}).Undo(func(_ context.Context, tx *memstore.Tx, o order, shelf string) error {
		fmt.Println("released:", o.ID, "from", shelf)
		return tx.Delete("reserved " + o.ID)
	})

	charge = saga.Call("charge", func(_ context.Context, key string, o order) (string, error) {
		if o.Cents > 10_000 {
			return "", &once.Failure{Code: "card_declined"}
		}
		return "charge of " + o.ID, nil // an HTTP request with key as its Idempotency-Key
	}).DedupedFor(24 * time.Hour).Undo(func(_ context.Context, key string, o order, charge string) error {
		fmt.Println("refunded:", charge)
		return nil
	})

	ship = saga.Tx("ship", func(_ context.Context, tx *memstore.Tx, o order) (string, error) {
		return "parcel of " + o.ID, tx.Put("shipped "+o.ID, "yes")
	}).Last()

	orders = saga.New("order", handleOrder, reserve, charge, ship)
)

// handleOrder is the flow: ordinary Go that takes steps.
func handleOrder(ctx saga.Context, o order) (string, error) {
	if _, err := reserve.Do(ctx, o); err != nil {
		return "", err
	}
	if _, err := charge.Do(ctx, o); err != nil {
		return "", err
	}
	return ship.Do(ctx, o)
}

func Example() {
	ctx := context.Background()
	runner := saga.NewRunner(memstore.New(), saga.Config{}, orders)

	parcel, err := saga.Do(ctx, runner, orders, saga.ID{Tenant: "acme", Key: "order-1"}, order{"1", 500})
	fmt.Println(parcel, err)

	_, err = saga.Do(ctx, runner, orders, saga.ID{Tenant: "acme", Key: "order-2"}, order{"2", 50_000})
	var failure *once.Failure
	fmt.Println(errors.As(err, &failure), failure)
	// Output:
	// parcel of 1 <nil>
	// released: 2 from shelf 7
	// true card_declined
}

func ExampleStart() {
	ctx := context.Background()
	db := memstore.New()
	runner := saga.NewRunner(db, saga.Config{}, orders)

	tx := db.BeginTx() // the saga stands and falls with what the caller writes in it
	defer tx.Rollback()
	_ = tx.Put("order 3", "received")
	h, err := saga.Start(ctx, runner, tx, orders, saga.ID{Tenant: "acme", Key: "order-3"}, order{"3", 500})
	if err != nil {
		panic(err)
	}
	if err := tx.Commit(); err != nil {
		panic(err)
	}

	parcel, err := h.Result(ctx) // runs it here; without this, a node in Run does
	fmt.Println(parcel, err)
	// Output: parcel of 3 <nil>
}

// A step that waits for a person's answer reads a table and returns Again. The transaction that writes the answer also wakes the saga.
func ExampleAgain() {
	ctx := context.Background()
	db := memstore.New()
	approved := saga.Tx("approved", func(_ context.Context, tx *memstore.Tx, id string) (bool, error) {
		answer, found, err := tx.Get("approval " + id)
		if err == nil && !found {
			err = saga.Again(10 * time.Minute)
		}
		return answer == "yes", err
	})
	purchase := saga.New("purchase", func(ctx saga.Context, id string) (string, error) {
		ok, err := approved.Do(ctx, id)
		if err != nil {
			return "", err
		}
		return fmt.Sprint("approved: ", ok), nil
	}, approved)
	runner := saga.NewRunner(db, saga.Config{Every: time.Millisecond}, purchase)
	id := saga.ID{Tenant: "acme", Key: "purchase-1"}

	tx := db.BeginTx()
	h, err := saga.Start(ctx, runner, tx, purchase, id, "1")
	if err != nil {
		panic(err)
	}
	if err := tx.Commit(); err != nil {
		panic(err)
	}
	result := make(chan string)
	go func() {
		v, err := h.Result(ctx)
		if err != nil {
			panic(err)
		}
		result <- v
	}()

	tx = db.BeginTx()
	_ = tx.Put("approval 1", "yes")
	if err := runner.Wake(ctx, tx, id); err != nil {
		panic(err)
	}
	if err := tx.Commit(); err != nil {
		panic(err)
	}
	for {
		select {
		case v := <-result:
			fmt.Println(v)
			return
		case <-time.After(time.Millisecond): // the saga may have begun to wait behind the wake
			tx := db.BeginTx()
			_ = errors.Join(runner.Wake(ctx, tx, id), tx.Commit())
		}
	}
	// Output: approved: true
}
