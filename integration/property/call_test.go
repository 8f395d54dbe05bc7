package property

import (
	"context"
	"encoding/json"
	"errors"
	"runtime"
	"slices"
	"strconv"

	"github.com/oncelib/once"
	"github.com/oncelib/once/store"
)

// ending is what a handler does after it has made its effect.
type ending string

const (
	succeeding  ending = "value"
	declining   ending = "failure"
	keeping     ending = "failure that keeps its writes"
	failing     ending = "error"
	swallowing  ending = "swallowed statement error"
	colliding   ending = "unique constraint"
	retrying    ending = "serialization failure"
	obeying     ending = "context"
	panicking   ending = "panic"
	exiting     ending = "Goexit"
	committing  ending = "its own COMMIT"
	rollingBack ending = "its own ROLLBACK"
)

// endings of a handler of Do. Those of a joined one are the first of them: its
// transaction is its caller's, who may end it.
var endings = []ending{
	succeeding, succeeding, succeeding, declining, declining, declining, keeping, failing, swallowing, colliding,
	retrying, obeying, panicking, exiting, committing, rollingBack,
}

var joinedEndings = endings[:len(endings)-2]

// group is callers of one node who ask for the same at the same time. Nothing tells
// them apart, so that it does not matter who of them goes first.
type group struct {
	seq    int
	node   *node
	ops    []once.Operation // one; of a Join: in this order
	raw    bool             // by Exec
	joins  bool
	ctx    context.Context //nolint:containedctx // of all callers
	cancel context.CancelFunc

	callers int
	left    int // who have not ended
}

// call is one caller.
type call struct {
	*group
	began   int // the step
	answers []*answer
	lost    bool      // the answer to a COMMIT or Swap
	unsure  bool      // a ROLLBACK had no answer
	asked   bool      // the store; a follower need not
	alone   bool      // no other call on its node asked for the same when it began
	durable bool      // it has read a record durably
	over    bool      // it has been told
	txn     *gatedTxn // the last one
	events  []once.Event
	claims  []*operation // by Join
	commits bool         // the caller's transaction has committed
	broken  any          // it has panicked, and no handler of ours has
}

// answer is what a caller was told about one operation.
type answer struct {
	op       *operation
	fp       []byte
	runs     []*run
	name     string // of the run whose answer it is
	replayed bool
	err      error
	unwound  bool // by a panic or Goexit
}

// runs are those of its handler.
func (c *call) runs() (all []*run) {
	for _, a := range c.answers {
		all = append(all, a.runs...)
	}
	return all
}

type callKey struct{}

func callOf(ctx context.Context) *call { return ctx.Value(callKey{}).(*call) }

func (c *call) holds(o *operation) bool {
	return slices.Contains(c.claims, o)
}

var (
	errTransient = errors.New("property: transient")
	errBoom      = errors.New("property: boom")
)

// live is the life of a caller.
func (c *call) live() {
	ctx := context.WithValue(c.ctx, callKey{}, c)
	var user tx
	defer func() { // also after Goexit
		if p := recover(); p != nil && p != any(errBoom) {
			c.broken = p
		}
		if c.joins {
			c.finish(user)
		}
		defer c.node.w.lock()()
		c.left--
		c.node.w.ended = append(c.node.w.ended, c)
	}()
	if !c.joins {
		c.ask(ctx, c.ops[0], nil)
		return
	}
	user = c.node.w.db.BeginTx()
	for _, op := range c.ops {
		c.ask(ctx, op, user)
	}
}

// ask asks for one operation.
func (c *call) ask(ctx context.Context, op once.Operation, user tx) {
	w := c.node.w
	a := &answer{op: w.operation(store.ID{Scope: op.Scope, Key: op.Key}), fp: stored(op.Fingerprint), unwound: true}
	c.answers = append(c.answers, a)
	h := func(ctx context.Context, tx tx) (string, error) { return c.handle(ctx, tx, a, op) }
	var r once.Result[string]
	switch {
	case user != nil:
		r, a.err = once.Join(ctx, c.node.engine, user, op, h)
		a.replayed = r.Replayed
	case c.raw:
		var rec store.Record
		rec, a.replayed, a.err = c.node.engine.Exec(ctx, op, func(ctx context.Context, tx tx) (once.Answer, error) { return raw(h(ctx, tx)) })
		r.Value = nameIn(rec.Result)
	default:
		r, a.err = once.Do(ctx, c.node.engine, op, h)
		a.replayed = r.Replayed
	}
	a.unwound, a.name = false, r.Value
	if f := (*once.Failure)(nil); errors.As(a.err, &f) {
		a.err, a.name = nil, f.Code
	}
}

// raw is what Do makes of what a handler returns.
func raw(value string, err error) (once.Answer, error) {
	if f := (*once.Failure)(nil); errors.As(err, &f) {
		b, err := json.Marshal(f)
		return once.Answer{Result: store.Result{Kind: store.ResultFailure, Status: 402, Body: b}, Rollback: !f.CommitWrites}, err
	}
	return once.Answer{Result: store.Result{Status: 201, Body: strconv.AppendQuote(nil, value)}}, err
}

// handle makes an effect that no other run makes, and ends as it is told.
func (c *call) handle(ctx context.Context, tx tx, a *answer, op once.Operation) (string, error) {
	w := c.node.w
	r := w.newRun(c, a, op)
	balance, _, err := tx.Get("balance")
	if err != nil {
		return "", err
	}
	if err := tx.Put(r.name, "effect"); err != nil {
		return "", err
	}
	switch r.ending = w.pass(c, atHandler).ending; r.ending {
	case declining, keeping:
		return "", &once.Failure{Code: r.name, CommitWrites: r.ending == keeping}
	case failing:
		return "", errTransient
	case swallowing:
		_ = tx.Insert("taken", "")
	case colliding:
		err = tx.Insert(w.unique(a.op), "")
	case retrying:
		return "", &store.Error{Kind: store.KindRetry, Err: errTransient}
	case obeying:
		err = ctx.Err()
	case panicking:
		panic(errBoom)
	case exiting:
		runtime.Goexit()
	case committing, rollingBack:
		c.end(tx, r)
	default:
		err = errors.Join(tx.Put("balance", balance+"+"), tx.Put(w.unique(a.op), ""))
	}
	return r.name, err
}

// end is a handler's own COMMIT or ROLLBACK, which frees its operation.
func (c *call) end(tx tx, r *run) {
	defer c.node.w.lock()()
	if r.ending == rollingBack {
		tx.Rollback()
	} else if tx.Commit() != nil { // a serialization failure ends it all the same
		r.ending = rollingBack
	}
	c.txn.gone = true
	c.txn.ended()
}

// finish ends the transaction of a caller of Join, once it was told how.
func (c *call) finish(user tx) {
	w := c.node.w
	commit := w.pass(c, atEnd).commit
	defer w.lock()()
	switch {
	case c.node.dead:
		w.ghosts = append(w.ghosts, &ghost{caller: user, frees: c.claims})
		return
	case commit:
		c.commits = user.Commit() == nil
	default:
		user.Rollback()
	}
	for _, o := range c.claims {
		w.free(o)
	}
}

func stored(f once.Fingerprint) []byte {
	if f == (once.Fingerprint{}) {
		return nil
	}
	return f[:]
}
