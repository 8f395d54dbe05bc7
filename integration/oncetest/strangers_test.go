package oncetest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"time"

	"github.com/oncelib/once"
	"github.com/oncelib/once/inbox"
	"github.com/oncelib/once/lease"
	"github.com/oncelib/once/message"
	"github.com/oncelib/once/oncehttp"
	"github.com/oncelib/once/oncetest"
)

// stranger is a program that somebody could have written. One of http, do and consume is set.
type stranger[TX any] struct {
	name    string
	only    oncetest.Fault // the one kind that finds the bug, if others do not
	dedupes bool           // the provider does
	leased  bool
	skip    []oncetest.Fault

	http    func(g *program[TX]) http.Handler
	do      func(g *program[TX], ctx context.Context, op once.Operation) (any, error)
	consume func(g *program[TX]) func(ctx context.Context, m message.Message) error
}

var withoutOnce = []oncetest.Fault{oncetest.FaultStore, oncetest.FaultStatement, oncetest.FaultMismatch}

// wrong are programs with one bug each.
func wrong[TX any]() []stranger[TX] {
	return append(wrongInTx[TX](), append(wrongAtProvider[TX](), wrongByHand[TX]()...)...)
}

// wrongInTx misuse the transaction.
func wrongInTx[TX any]() []stranger[TX] {
	return []stranger[TX]{
		{name: "inserts with the pool", http: func(g *program[TX]) http.Handler {
			return g.keyed(func(w http.ResponseWriter, r *http.Request, _ TX) {
				answer(w, r, g.pool(r.Context(), "insert into refund (account, amount) values (?, ?)", "acme", 5))
			})
		}},
		{name: "updates with the pool", http: func(g *program[TX]) http.Handler {
			return g.keyed(func(w http.ResponseWriter, r *http.Request, tx TX) {
				answer(w, r, errors.Join(g.pool(r.Context(), "update account set balance = balance - 5"), g.refund(r.Context(), tx)))
			})
		}},
		{name: "inserts before the operation", http: func(g *program[TX]) http.Handler {
			h := g.keyed(func(w http.ResponseWriter, r *http.Request, tx TX) { answer(w, r, g.refund(r.Context(), tx)) })
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if err := g.pool(r.Context(), "insert into audit (what) values ('asked')"); err != nil {
					http.Error(w, "later", http.StatusServiceUnavailable)
					return
				}
				h.ServeHTTP(w, r)
			})
		}},
		{name: "swallows the error of a statement", only: oncetest.FaultStatement, do: func(g *program[TX], ctx context.Context, op once.Operation) (any, error) {
			r, err := once.Do(ctx, g.engine, op, func(ctx context.Context, tx TX) (string, error) {
				if err := g.refund(ctx, tx); err != nil {
					return "", err
				}
				err := g.nested(ctx, tx, func(tx TX) error { return g.box.Add(ctx, tx, order()) })
				if err == nil {
					err = g.nested(ctx, tx, func(tx TX) error { return g.exec(ctx, tx, "insert into audit (what) values ('refund')") })
				}
				_ = err // "the audit is not that important"
				return "refunded", nil
			})
			return r.Value, err
		}},
		{name: "answers later when a savepoint fails", http: func(g *program[TX]) http.Handler {
			return g.keyed(func(w http.ResponseWriter, r *http.Request, tx TX) {
				if err := g.nested(r.Context(), tx, func(tx TX) error { return g.refund(r.Context(), tx) }); err != nil {
					createdf(w, "later")
					return
				}
				createdf(w, "refunded")
			})
		}},
		{name: "commits", http: func(g *program[TX]) http.Handler {
			return g.keyed(func(w http.ResponseWriter, r *http.Request, tx TX) {
				answer(w, r, errors.Join(g.refund(r.Context(), tx), g.commit(r.Context(), tx)))
			})
		}},
		{name: "sends COMMIT", http: func(g *program[TX]) http.Handler {
			return g.keyed(func(w http.ResponseWriter, r *http.Request, tx TX) {
				answer(w, r, errors.Join(g.refund(r.Context(), tx), g.exec(r.Context(), tx, "COMMIT")))
			})
		}},
		{name: "adds to the outbox in another transaction", do: func(g *program[TX], ctx context.Context, op once.Operation) (any, error) {
			if err := g.own(ctx, func(tx TX) error { return g.box.Add(ctx, tx, order()) }); err != nil {
				return nil, err
			}
			r, err := once.Do(ctx, g.engine, op, func(ctx context.Context, tx TX) (string, error) { return "refunded", g.refund(ctx, tx) })
			return r.Value, err
		}},
		{name: "adds up what earlier runs have left", do: func(g *program[TX], ctx context.Context, op once.Operation) (any, error) {
			total := 0
			r, err := once.Do(ctx, g.engine, op, func(ctx context.Context, tx TX) (string, error) {
				total += 5
				return "refunded", g.exec(ctx, tx, "insert into refund (account, amount) values (?, ?)", "acme", total)
			})
			return r.Value, err
		}},
		{name: "takes a conflict for a duplicate", only: oncetest.FaultStore, do: func(g *program[TX], ctx context.Context, op once.Operation) (any, error) {
			e := once.New(g.s, once.Config{Observer: once.Discard, Runs: 1})
			r, err := once.Do(ctx, e, op, func(ctx context.Context, tx TX) (string, error) { return "refunded", g.refund(ctx, tx) })
			if once.CodeOf(err) == once.CodeConflict {
				return "refunded", nil // "another call was faster"
			}
			return r.Value, err
		}},
		{name: "does not say what was asked", only: oncetest.FaultMismatch, do: func(g *program[TX], ctx context.Context, op once.Operation) (any, error) {
			op.Fingerprint = once.Fingerprint{}
			r, err := once.Do(ctx, g.engine, op, func(ctx context.Context, tx TX) (string, error) { return "refunded", g.refund(ctx, tx) })
			return r.Value, err
		}},
		{name: "makes a key for each attempt", do: func(g *program[TX], ctx context.Context, op once.Operation) (any, error) {
			op.Key = once.NewKey()
			r, err := once.Do(ctx, g.engine, op, func(ctx context.Context, tx TX) (string, error) { return "refunded", g.refund(ctx, tx) })
			return r.Value, err
		}},
		{name: "makes an error of the database final", http: func(g *program[TX]) http.Handler {
			return g.keyed(func(w http.ResponseWriter, r *http.Request, tx TX) {
				if err := g.nested(r.Context(), tx, func(tx TX) error { return g.refund(r.Context(), tx) }); err != nil {
					http.Error(w, "not possible", http.StatusUnprocessableEntity)
					return
				}
				createdf(w, "refunded")
			})
		}},
		{name: "mails after each call", do: func(g *program[TX], ctx context.Context, op once.Operation) (any, error) {
			r, err := once.Do(ctx, g.engine, op, func(ctx context.Context, tx TX) (string, error) { return "refunded", g.refund(ctx, tx) })
			if err == nil {
				g.mails.add()
			}
			return r.Value, err
		}},
		{name: "writes down a failure that was none", do: func(g *program[TX], ctx context.Context, op once.Operation) (any, error) {
			r, err := once.Do(ctx, g.engine, op, func(ctx context.Context, tx TX) (string, error) { return "refunded", g.refund(ctx, tx) })
			if err != nil {
				err = errors.Join(err, g.pool(ctx, "insert into audit (what) values ('failed')"))
			}
			return r.Value, err
		}},
		{name: "mails from an inbox", consume: func(g *program[TX]) func(context.Context, message.Message) error {
			return g.inbox(func(ctx context.Context, tx TX) error {
				g.mails.add()
				return g.refund(ctx, tx)
			})
		}},
		{name: "writes with the pool in an inbox", consume: func(g *program[TX]) func(context.Context, message.Message) error {
			return g.inbox(func(ctx context.Context, tx TX) error {
				return g.pool(ctx, "insert into refund (account, amount) values (?, ?)", "acme", 5)
			})
		}},
	}
}

// wrongAtProvider misuse a service of others.
func wrongAtProvider[TX any]() []stranger[TX] {
	charging := func(key func(op once.Operation) string) func(g *program[TX], ctx context.Context, op once.Operation) (any, error) {
		return func(g *program[TX], ctx context.Context, op once.Operation) (any, error) {
			r, err := once.Do(ctx, g.engine, op, func(ctx context.Context, tx TX) (string, error) {
				return "charged", errors.Join(g.charge(ctx, key(op), "5"), g.refund(ctx, tx))
			})
			return r.Value, err
		}
	}
	return []stranger[TX]{
		{name: "charges without a key", dedupes: true, do: charging(func(once.Operation) string { return "" })},
		{name: "charges with a random key", dedupes: true, do: charging(func(once.Operation) string { return once.NewKey() })},
		{name: "charges in a transaction where nothing dedupes", do: charging(func(op once.Operation) string { return op.Key })},
		{name: "takes an error of the provider for a charge", only: oncetest.FaultNotSent, dedupes: true, do: func(g *program[TX], ctx context.Context, op once.Operation) (any, error) {
			r, err := once.Do(ctx, g.engine, op, func(ctx context.Context, tx TX) (string, error) {
				_ = g.charge(ctx, once.DeriveKey(op.Key, "charge"), "5")
				return "charged", g.refund(ctx, tx)
			})
			return r.Value, err
		}},
		{name: "tries a charge again with another key", only: oncetest.FaultNotAnswered, dedupes: true, leased: true, do: func(g *program[TX], ctx context.Context, op once.Operation) (any, error) {
			return g.phases(ctx, op, "5", func(ctx context.Context, key, body string) error {
				if g.charge(ctx, key, body) == nil {
					return nil
				}
				return g.charge(ctx, key+"-again", body)
			})
		}},
		{name: "has the time in what it asks for", dedupes: true, leased: true, do: func(g *program[TX], ctx context.Context, op once.Operation) (any, error) {
			return g.phases(ctx, op, time.Now().Format(time.RFC3339Nano), g.charge)
		}},
		{name: "says that a charge was not sent", leased: true, do: func(g *program[TX], ctx context.Context, op once.Operation) (any, error) {
			return g.phases(ctx, op, "5", func(ctx context.Context, key, body string) error {
				if err := g.charge(ctx, key, body); err != nil {
					return lease.NotSent(err)
				}
				return nil
			})
		}},
	}
}

// wrongByHand know keys without once.
func wrongByHand[TX any]() []stranger[TX] {
	return []stranger[TX]{
		{name: "knows its keys in memory", skip: withoutOnce, http: func(g *program[TX]) http.Handler {
			known := &sync.Map{}
			return byHand(func(w http.ResponseWriter, r *http.Request, key string) {
				if _, before := known.LoadOrStore(key, true); before {
					createdf(w, "refunded")
					return
				}
				answer(w, r, g.own(r.Context(), func(tx TX) error { return g.refund(r.Context(), tx) }))
			})
		}},
		{name: "three commits and 409", skip: withoutOnce, http: func(g *program[TX]) http.Handler { return g.threeCommits(false) }},
		{name: "three commits and again", skip: withoutOnce, http: func(g *program[TX]) http.Handler { return g.threeCommits(true) }},
		{name: "looks and then acts", only: oncetest.FaultConcurrent, skip: withoutOnce, http: func(g *program[TX]) http.Handler {
			meet := make(chan struct{})
			return byHand(func(w http.ResponseWriter, r *http.Request, key string) {
				var state string
				found, err := g.look(r.Context(), &state, "select state from seen where name = ?", key)
				if found || err != nil {
					answer(w, r, err)
					return
				}
				select { // it is slow enough for another one to look as well
				case meet <- struct{}{}:
				case <-meet:
				case <-time.After(100 * time.Millisecond):
				}
				answer(w, r, g.own(r.Context(), func(tx TX) error {
					return errors.Join(g.exec(r.Context(), tx, "insert into seen (name, state) values (?, 'done')", key), g.refund(r.Context(), tx))
				}))
			})
		}},
		{name: "cleans up in a defer", only: oncetest.FaultDeath, skip: withoutOnce, http: func(g *program[TX]) http.Handler {
			return byHand(func(w http.ResponseWriter, r *http.Request, key string) {
				ctx := context.WithoutCancel(r.Context())
				var state string
				switch found, err := g.look(ctx, &state, "select state from seen where name = ?", key); {
				case err != nil:
					answer(w, r, err)
					return
				case found:
					http.Error(w, "in flight", http.StatusConflict)
					return
				}
				defer func() {
					for range 3 { // a connection may be broken
						if g.pool(ctx, "delete from seen where name = ?", key) == nil {
							return
						}
					}
				}()
				if err := g.pool(ctx, "insert into seen (name, state) values (?, 'running')", key); err != nil {
					answer(w, r, err)
					return
				}
				answer(w, r, g.onceByHand(ctx, key))
			})
		}},
		{name: "answers duplicates in another way", skip: withoutOnce, http: func(g *program[TX]) http.Handler {
			return byHand(func(w http.ResponseWriter, r *http.Request, key string) {
				var state string
				if found, err := g.look(r.Context(), &state, "select name from mark where name = ?", key); found || err != nil {
					if err == nil {
						fmt.Fprint(w, "a duplicate")
						return
					}
					answer(w, r, err)
					return
				}
				answer(w, r, g.onceByHand(r.Context(), key))
			})
		}},
	}
}

// phases is work under a lease: a row, a charge, another row.
func (g *program[TX]) phases(ctx context.Context, op once.Operation, body string, charge func(ctx context.Context, key, body string) error) (any, error) {
	jobs := once.New(lease.New(g.s, lease.Config{}), once.Config{Observer: once.Discard})
	r, err := once.Do(ctx, jobs, op, func(ctx context.Context, run *lease.Run) (string, error) {
		if _, err := lease.InTx(ctx, run, g.s, "reserve", func(ctx context.Context, tx TX) (int, error) { return 5, g.refund(ctx, tx) }); err != nil {
			return "", err
		}
		_, err := lease.Call(ctx, run, "charge", func(ctx context.Context, key string) (string, error) { return "charged", charge(ctx, key, body) },
			lease.CallPolicy{DedupedFor: 24 * time.Hour})
		if err != nil {
			return "", err
		}
		return lease.InTx(ctx, run, g.s, "book", func(ctx context.Context, tx TX) (string, error) {
			return "booked", g.exec(ctx, tx, "insert into audit (what) values ('booked')")
		})
	})
	return r.Value, err
}

// inbox applies messages.
func (g *program[TX]) inbox(fn func(ctx context.Context, tx TX) error) func(context.Context, message.Message) error {
	in := inbox.New(g.engine, inbox.Config{Consumer: "billing", Observer: inbox.Observers()})
	return func(ctx context.Context, m message.Message) error {
		_, err := in.Handle(ctx, m, func(ctx context.Context, tx TX, _ message.Message) error { return fn(ctx, tx) })
		return err
	}
}

// byHand is a handler that knows keys without once.
func byHand(h func(w http.ResponseWriter, r *http.Request, key string)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { h(w, r, r.Header.Get("Idempotency-Key")) })
}

// answer is 201 or, after an error, 500.
func answer(w http.ResponseWriter, r *http.Request, err error) {
	if err != nil {
		if _, keyed := oncehttp.Key(r.Context()); keyed {
			oncehttp.Fail(w, r, err)
			return
		}
		http.Error(w, "it has failed", http.StatusInternalServerError)
		return
	}
	createdf(w, "refunded")
}

// threeCommits notes a key, works, and notes that it has.
func (g *program[TX]) threeCommits(again bool) http.Handler {
	return byHand(func(w http.ResponseWriter, r *http.Request, key string) {
		ctx := r.Context()
		var state string
		found, err := g.look(ctx, &state, "select state from seen where name = ?", key)
		switch {
		case err != nil:
			answer(w, r, err)
			return
		case found && state == "done":
			createdf(w, "refunded")
			return
		case found && !again:
			http.Error(w, "in flight", http.StatusConflict)
			return
		case !found:
			if err := g.pool(ctx, "insert into seen (name, state) values (?, 'running')", key); err != nil {
				answer(w, r, err)
				return
			}
		}
		if err := g.pool(ctx, "insert into refund (account, amount) values (?, ?)", "acme", 5); err != nil {
			answer(w, r, err)
			return
		}
		answer(w, r, g.pool(ctx, "update seen set state = 'done' where name = ?", key))
	})
}

// onceByHand commits a refund and its key together.
func (g *program[TX]) onceByHand(ctx context.Context, key string) error {
	var state string
	found, err := g.look(ctx, &state, "select name from mark where name = ?", key)
	if found || err != nil {
		return err
	}
	return g.own(ctx, func(tx TX) error {
		if err := g.exec(ctx, tx, "insert into mark (name) values (?)", key); err != nil {
			return err
		}
		return g.refund(ctx, tx)
	})
}

// roll is chance.
func roll() int { return rand.IntN(1 << 30) }
