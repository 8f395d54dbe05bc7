package saga_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/oncelib/once"
	"github.com/oncelib/once/lease"
	"github.com/oncelib/once/saga"
	"github.com/oncelib/once/store"
	"github.com/oncelib/once/store/memstore"
)

// Contracts of the calls of a scenario.
const (
	deduped   = "deduped"
	checked   = "checked"
	barrier   = "barrier" // it can be cancelled by its key
	undoless  = "undoless"
	unsaid    = "unsaid"
	repeated  = "repeated" // for ever, with undo
	contracts = 6
)

// scenario is a saga and what its steps say.
type scenario struct {
	kinds    string // a letter for each step: t, c or b
	contract string
	no       int  // the step that says no, from 1 on; 0: none
	only     bool // once
	fallback bool // the flow takes another step when that says no
	pivot    int  // the step that is the pivot, from 1 on; 0: none
	last     bool // the last step ends the saga
	caller   bool // started in a transaction of the caller
	waits    int  // the step that says "not yet" the first time
}

func (sc scenario) String() string {
	s := fmt.Sprintf("%s %s", sc.kinds, sc.contract)
	if sc.no > 0 {
		s += fmt.Sprintf(", %d says no", sc.no)
		if sc.only {
			s += " once"
		}
	}
	if sc.fallback {
		s += ", fallback"
	}
	if sc.last {
		s += ", last"
	}
	if sc.caller {
		s += ", caller"
	}
	if sc.pivot > 0 {
		s += fmt.Sprintf(", pivot %d", sc.pivot)
	}
	if sc.waits > 0 {
		s += fmt.Sprintf(", %d waits", sc.waits)
	}
	return s
}

func stepName(i int) string { return fmt.Sprintf("s%d", i+1) }

// says reports whether a step says no. again: it was asked before.
func (sc scenario) says(step string, again bool) bool {
	return sc.no > 0 && step == stepName(sc.no-1) && (!sc.only || !again)
}

var sagaID = saga.ID{Tenant: "acme", Key: "order-42"}

var recordID = store.ID{Scope: "saga/acme", Key: "order-42"}

type taken interface {
	Do(ctx saga.Context, in string) (string, error)
}

// definition is the saga as one process has it.
func (sc scenario) definition(w *world, p *process) *saga.Definition[string, string] {
	var steps []saga.Step
	var flow []taken
	add := func(s interface {
		saga.Step
		taken
	}) {
		steps, flow = append(steps, s), append(flow, s)
	}
	for i, kind := range sc.kinds {
		name := stepName(i)
		last := sc.last && i == len(sc.kinds)-1
		switch kind {
		case 't':
			s := saga.Tx(name, func(_ context.Context, tx *memstore.Tx, in string) (string, error) {
				if sc.waits == i+1 {
					w.mu.Lock()
					first := !w.refuses["waited"]
					w.refuses["waited"] = true
					w.mu.Unlock()
					if first {
						return "", saga.Again(time.Minute) // another node stops meanwhile
					}
				}
				if w.txSaysNo(name) {
					return "", errors.Join(w.note(tx, "do "+name), &once.Failure{Code: "no"})
				}
				return name + " was done", w.note(tx, "do "+name)
			}).Undo(func(_ context.Context, tx *memstore.Tx, in, result string) error {
				if result != name+" was done" {
					w.t.Errorf("step %s is undone with %q", name, result)
				}
				return w.note(tx, "undo "+name)
			})
			if last {
				s = s.Last()
			}
			if sc.pivot == i+1 {
				s = s.Pivot()
			}
			add(s)
		case 'b':
			add(saga.Batch(name, func(b *once.Batch, in string) (string, error) {
				b.Exec("insert", "batch do "+name, "x") // a second time it fails
				return name + " was written", nil
			}).Undo(func(b *once.Batch, in, result string) error {
				b.Exec("insert", "batch undo "+name, "x")
				return nil
			}))
		default:
			add(sc.call(w, p, name, sc.pivot == i+1))
		}
	}
	other := saga.Tx("other", func(_ context.Context, tx *memstore.Tx, in string) (string, error) {
		return "other", w.note(tx, "do other")
	}).Undo(func(_ context.Context, tx *memstore.Tx, in, result string) error { return w.note(tx, "undo other") })
	steps = append(steps, other)
	return saga.New("test", func(ctx saga.Context, in string) (string, error) {
		w.mu.Lock()
		w.flows++
		changing := fmt.Sprint(in, " ", w.flows) // another input each time that the flow runs
		w.mu.Unlock()
		for i, s := range flow {
			_, err := s.Do(ctx, changing)
			if err != nil && sc.fallback && sc.no == i+1 && errors.As(err, new(*once.Failure)) {
				_, err = other.Do(ctx, changing)
			}
			if err != nil {
				return "", err
			}
		}
		if sc.last {
			return "ignored", nil
		}
		return "done", nil
	}, steps...)
}

// txSaysNo tells whether a step in a transaction says no now.
func (w *world) txSaysNo(name string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	no := w.sc.says(name, w.refuses["asked "+name])
	w.refuses["asked "+name] = true
	return no
}

func (sc scenario) call(w *world, p *process, name string, pivot bool) *saga.CallStep[string, string] {
	s := saga.Call(name, func(_ context.Context, key, in string) (string, error) {
		return p.request("request "+name, func() (string, error) { return w.arrives(name, key, in) })
	})
	undo := func(_ context.Context, key, in, result string) error {
		_, err := p.request("undo "+name, func() (string, error) { return "", w.revokes(name, key, result) })
		return err
	}
	switch sc.contract {
	case deduped:
		s = s.DedupedFor(24 * time.Hour).Undo(undo)
	case repeated:
		s = s.SafeToRepeat().Undo(undo)
	case undoless:
		s = s.SafeToRepeat()
	case checked:
		s = s.Undo(undo).Check(func(_ context.Context, key string) (value string, found lease.Finding, err error) {
			_, err = p.request("check "+name, func() (string, error) {
				value, found, err = w.finds(key)
				return "", err
			})
			return value, found, err
		})
	case barrier:
		s = s.Cancel(func(_ context.Context, key, in string) error {
			_, err := p.request("cancel "+name, func() (string, error) { w.cancelsKey(name, key); return "", nil })
			return err
		})
	default:
		s = s.Undo(undo)
	}
	if pivot {
		s = s.Pivot()
	}
	return s
}

// counted are effects and undos of each step.
func (w *world) counted() (did, undid map[string]int, order []string) {
	did, undid = map[string]int{}, map[string]int{}
	for _, e := range w.entries() {
		what, step, _ := strings.Cut(e.what, " ")
		if what == "do" {
			did[step]++
		} else {
			undid[step]++
		}
		order = append(order, e.what)
	}
	for i, kind := range w.sc.kinds {
		if kind != 'b' {
			continue
		}
		if _, done := w.db.Get("batch do " + stepName(i)); done {
			did[stepName(i)]++
		}
		if _, undone := w.db.Get("batch undo " + stepName(i)); undone {
			undid[stepName(i)]++
		}
	}
	return did, undid, order
}
