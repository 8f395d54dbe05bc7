package saga

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/oncelib/once"
	"github.com/oncelib/once/internal/base/keyname"
	"github.com/oncelib/once/internal/base/printable"
	"github.com/oncelib/once/internal/owner"
	"github.com/oncelib/once/store"
)

// ID identifies a saga: a tenant has at most one saga under a key, even if sagas have different
// definitions.
type ID struct{ Tenant, Key string }

// store returns the ID of the saga's operation.
func (id ID) store() store.ID { return store.ID{Scope: string(owner.Saga) + id.Tenant, Key: id.Key} }

// idOf returns the ID of the saga that the operation id belongs to.
func idOf(id store.ID) ID { return ID{strings.TrimPrefix(id.Scope, string(owner.Saga)), id.Key} }

func (id ID) check() error {
	switch scope := id.store().Scope; {
	case keyname.Check(id.Key) != nil:
		return fmt.Errorf("saga: %w", keyname.Check(id.Key))
	case len(scope) > keyname.MaxScope || !printable.Is(scope):
		return fmt.Errorf("saga: the tenant %.40q has control characters, is not UTF-8 or has more than %d bytes", id.Tenant, keyname.MaxScope-len(owner.Saga))
	}
	return nil
}

// Context is the first argument of a flow. The flow passes its Context to the method Do of each step. The
// function of a step gets a plain [context.Context], so that the function cannot run other steps.
type Context struct {
	context.Context //nolint:containedctx // Context is a context

	run *run
}

// AnyDefinition is a [Definition] with any types of input and result.
type AnyDefinition interface{ core() *definition }

// Definition is the program of a saga, made by [New].
type Definition[In, Out any] struct{ *definition }

type definition struct {
	name     string
	steps    map[string]*step
	print    string
	deadline time.Duration
	flow     func(ctx Context, in json.RawMessage) (json.RawMessage, error)
}

func (d *definition) core() *definition { return d }

// New returns the definition of a saga: a flow, and the steps that the flow may run. The flow is ordinary Go code
// that must depend only on its input and the results of its steps. The flow runs again from its beginning
// whenever the saga continues, and a step that an earlier run has finished returns its stored result. New panics
// if names are invalid or not unique.
func New[In, Out any](name string, flow func(ctx Context, in In) (Out, error), steps ...Step) *Definition[In, Out] {
	if err := checkName(name); err != nil {
		panic("saga: New: " + err.Error())
	}
	d := &definition{name: name, steps: map[string]*step{}}
	d.flow = func(ctx Context, in json.RawMessage) (json.RawMessage, error) {
		return encoded(in, func(i In) (Out, error) { return flow(ctx, i) })
	}
	for _, s := range steps {
		st := s.core()
		if d.steps[st.name] != nil {
			panic(fmt.Sprintf("saga: New %q: two steps have the name %q", name, st.name))
		}
		if st.last && st.result != reflect.TypeFor[Out]() {
			panic(fmt.Sprintf("saga: New %q: the last step %q returns the type %v, but the flow returns the type %v. Try: one type for both", name, st.name, st.result, reflect.TypeFor[Out]()))
		}
		d.steps[st.name] = st
	}
	d.print = d.fingerprint()
	return &Definition[In, Out]{d}
}

// Deadline sets the deadline of a saga: the parameter after is the time from the start of the saga to its
// deadline. If the saga has neither ended nor passed its pivot at its deadline, the saga begins to undo its
// steps. Default: no deadline.
func (d *Definition[In, Out]) Deadline(after time.Duration) *Definition[In, Out] {
	d.deadline = after
	return d
}

// fingerprint returns a hash that differs between versions of a definition.
func (d *definition) fingerprint() string {
	h := sha256.New()
	names := make([]string, 0, len(d.steps))
	for name := range d.steps {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		s := d.steps[name]
		fmt.Fprintf(h, "%q %s %t %t %t %t\n", name, s.kind, s.last, s.pivot, s.isUndone(), s.repeats)
	}
	return hex.EncodeToString(h.Sum(nil)[:8])
}

// asked returns the fingerprint of a start. It shows whether the same ID is used with another input or for another
// definition.
func (d *definition) asked(in json.RawMessage) []byte {
	f := once.FingerprintOf([]byte(d.name), in)
	return f[:]
}

// take runs a step for a flow, and converts its input and its result.
func take[In, Out any](ctx Context, s *step, key string, in In) (out Out, err error) {
	if ctx.run == nil {
		return out, errors.New("saga: a step was called outside of a flow. Try: pass the saga.Context of the flow to the step")
	}
	raw, err := json.Marshal(in)
	if err != nil {
		return out, ctx.run.stop(stuckf("the input of step %q cannot be encoded as JSON: %v", fullName(s.name, key), err))
	}
	result, err := ctx.run.take(ctx, s, key, raw)
	if err != nil {
		return out, err
	}
	if err := json.Unmarshal(result, &out); err != nil && !errors.Is(err, io.EOF) {
		return out, ctx.run.stop(stuckf("the stored result of step %q cannot be decoded: %v", fullName(s.name, key), err))
	}
	return out, nil
}
