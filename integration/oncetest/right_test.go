package oncetest

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/oncelib/once"
	"github.com/oncelib/once/lease"
	"github.com/oncelib/once/message"
	"github.com/oncelib/once/oncehttp"
)

// right are programs without a bug.
func right[TX any]() []stranger[TX] {
	return []stranger[TX]{
		{name: "inserts", http: func(g *program[TX]) http.Handler {
			return g.keyed(func(w http.ResponseWriter, r *http.Request, tx TX) { answer(w, r, g.refund(r.Context(), tx)) })
		}},
		{name: "updates", do: func(g *program[TX], ctx context.Context, op once.Operation) (any, error) {
			r, err := once.Do(ctx, g.engine, op, func(ctx context.Context, tx TX) (string, error) {
				return "debited", g.exec(ctx, tx, "update account set balance = balance - 5")
			})
			return r.Value, err
		}},
		{name: "adds to the outbox", http: func(g *program[TX]) http.Handler {
			return g.keyed(func(w http.ResponseWriter, r *http.Request, tx TX) {
				answer(w, r, errors.Join(g.refund(r.Context(), tx), g.box.Add(r.Context(), tx, order())))
			})
		}},
		{name: "answers with the time and chance", http: func(g *program[TX]) http.Handler {
			return g.keyed(func(w http.ResponseWriter, r *http.Request, tx TX) {
				if err := g.refund(r.Context(), tx); err != nil {
					oncehttp.Fail(w, r, err)
					return
				}
				createdf(w, "%v %d", time.Now(), roll())
			})
		}},
		{name: "answers in the order of a map", http: func(g *program[TX]) http.Handler {
			return g.keyed(func(w http.ResponseWriter, r *http.Request, tx TX) {
				if err := g.refund(r.Context(), tx); err != nil {
					oncehttp.Fail(w, r, err)
					return
				}
				w.WriteHeader(http.StatusCreated)
				for name := range map[string]int{"a": 1, "b": 2, "c": 3, "d": 4, "e": 5, "f": 6, "g": 7} {
					fmt.Fprint(w, name)
				}
			})
		}},
		{name: "charges with a derived key", dedupes: true, http: func(g *program[TX]) http.Handler {
			return g.keyed(func(w http.ResponseWriter, r *http.Request, tx TX) {
				key, _ := oncehttp.Key(r.Context())
				answer(w, r, errors.Join(g.charge(r.Context(), once.DeriveKey(key, "charge"), "5"), g.refund(r.Context(), tx)))
			})
		}},
		{name: "charges in a phase", dedupes: true, leased: true, do: func(g *program[TX], ctx context.Context, op once.Operation) (any, error) {
			return g.phases(ctx, op, "5", g.charge)
		}},
		{name: "leaves a charge unknown where nothing dedupes", leased: true, do: func(g *program[TX], ctx context.Context, op once.Operation) (any, error) {
			jobs := once.New(lease.New(g.s, lease.Config{}), once.Config{Observer: once.Discard})
			r, err := once.Do(ctx, jobs, op, func(ctx context.Context, run *lease.Run) (string, error) {
				if _, err := lease.InTx(ctx, run, g.s, "reserve", func(ctx context.Context, tx TX) (int, error) { return 5, g.refund(ctx, tx) }); err != nil {
					return "", err
				}
				return lease.Call(ctx, run, "charge", func(ctx context.Context, key string) (string, error) { return "charged", g.charge(ctx, key, "5") }, lease.CallPolicy{})
			})
			return r.Value, err
		}},
		{name: "applies messages", consume: func(g *program[TX]) func(context.Context, message.Message) error {
			return g.inbox(g.refund)
		}},
		{name: "applies messages and adds some", consume: func(g *program[TX]) func(context.Context, message.Message) error {
			return g.inbox(func(ctx context.Context, tx TX) error {
				return errors.Join(g.refund(ctx, tx), g.box.Add(ctx, tx, order()))
			})
		}},
		{name: "fails with its savepoint", do: func(g *program[TX], ctx context.Context, op once.Operation) (any, error) {
			r, err := once.Do(ctx, g.engine, op, func(ctx context.Context, tx TX) (string, error) {
				return "refunded", errors.Join(g.refund(ctx, tx), g.nested(ctx, tx, func(tx TX) error {
					return g.exec(ctx, tx, "insert into audit (what) values ('refund')")
				}))
			})
			return r.Value, err
		}},
		{name: "joins", do: func(g *program[TX], ctx context.Context, op once.Operation) (any, error) {
			r, err := once.Do(ctx, g.engine, op, func(ctx context.Context, tx TX) (string, error) {
				inner, err := once.Join(ctx, g.engine, tx, once.Operation{Scope: "inner", Key: op.Key}, func(ctx context.Context, tx TX) (string, error) {
					return "refunded", g.refund(ctx, tx)
				})
				return inner.Value, err
			})
			return r.Value, err
		}},
		{name: "one commit by hand", skip: withoutOnce, http: func(g *program[TX]) http.Handler {
			return byHand(func(w http.ResponseWriter, r *http.Request, key string) { answer(w, r, g.onceByHand(r.Context(), key)) })
		}},
	}
}
