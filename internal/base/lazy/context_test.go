package lazy

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

type keyOfTest struct{}

var errOwn = errors.New("a cause of its own")

// It was not looked at in time, so it ends when it is cancelled, also for a later look.
func TestNobodyLooked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		parent, cancel := context.WithCancelCause(t.Context())
		b := &Context{Parent: parent, Until: Now().Add(time.Second)}
		<-time.After(2 * time.Second)
		b.Cancel(nil)
		cancel(errors.New("later"))
		if a := context.Cause(b); a != context.Canceled { //nolint:errorlint // no more than that
			t.Errorf("its cause is %v", a)
		}
		child, stop := context.WithCancel(b)
		defer stop()
		if a := context.Cause(child); a != context.Canceled { //nolint:errorlint // as above
			t.Errorf("the cause of its child is %v", a)
		}
	})
}

// What is derived from it needs no goroutine to be told.
func TestStartsNothing(t *testing.T) {
	parent, cancel := context.WithCancel(t.Context())
	defer cancel()
	for _, until := range []Moment{Never, Now().Add(time.Hour)} {
		c := &Context{Parent: parent, Until: until}
		before := runtime.NumGoroutine()
		for range 100 {
			_, stop := context.WithCancel(c)
			defer stop()
			defer context.AfterFunc(c, func() {})()
		}
		if n := runtime.NumGoroutine() - before; n > 0 {
			t.Errorf("%d goroutines", n)
		}
		c.Cancel(nil)
	}
}

// All of it may be asked and ended at any time, and every waiter is told.
func TestIsSafe(t *testing.T) {
	for n := range 1000 {
		parent, cancel := context.WithCancelCause(t.Context())
		c := &Context{Parent: parent, Until: Never}
		if n%2 == 0 {
			c.Until = Now().Add(time.Hour)
		}
		var wg sync.WaitGroup
		for _, ask := range []func(){
			func() { <-c.Done() },
			func() {
				for c.Err() == nil {
					runtime.Gosched()
				}
			},
			func() { _, _ = c.Deadline() },
			func() { _ = c.Value(keyOfTest{}) },
			func() { _ = context.Cause(c) },
			func() { _ = c.String() },
			func() {
				child, stop := context.WithCancel(c)
				defer stop()
				<-child.Done()
			},
			func() {
				ran := make(chan struct{})
				context.AfterFunc(c, func() { close(ran) })
				<-ran
			},
			func() { c.Cancel(nil) },
			func() { c.Cancel(errOwn) },
			func() { cancel(errOwn) },
		} {
			wg.Go(ask)
		}
		wg.Wait()
		if c.Err() != context.Canceled { //nolint:errorlint // the very value of package context
			t.Fatal(c.Err())
		}
	}
}

// A context that no goroutine waits for is one allocation.
func TestAllocatesOnce(t *testing.T) {
	parent, cancel := context.WithCancel(t.Context())
	defer cancel()
	var c *Context
	if n := testing.AllocsPerRun(100, func() {
		c = &Context{Parent: parent, Until: Now().Add(time.Hour)}
		_, _ = c.Err(), c.Value(keyOfTest{})
		_, _ = c.Deadline()
		c.Cancel(nil)
		<-c.Done()
	}); n != 1 {
		t.Errorf("%v allocations", n)
	}
}

// counted is a parent that knows how many wait for its end.
type counted struct {
	context.Context //nolint:containedctx // it is one

	done          chan struct{}
	meanwhile     func() // happens when it is waited for for the first time
	waiting, ever int
}

func (c *counted) Done() <-chan struct{} {
	if f := c.meanwhile; f != nil {
		c.meanwhile = nil
		f()
	}
	return c.done
}

func (c *counted) AfterFunc(func()) func() bool {
	c.waiting++
	c.ever++
	return func() bool { c.waiting--; return true }
}

// Of what two have made at the same time one is left, and of that nothing after Cancel.
func TestCancelFreesAll(t *testing.T) {
	for _, until := range []Moment{Never, Now().Add(time.Hour)} {
		parent := &counted{Context: t.Context(), done: make(chan struct{})}
		c := &Context{Parent: parent, Until: until}
		parent.meanwhile = func() { c.Done() }
		c.Done()
		if parent.ever != 2 || parent.waiting != 1 {
			t.Errorf("%d of %d wait for the end of the parent", parent.waiting, parent.ever)
		}
		c.Cancel(nil)
		if parent.waiting != 0 {
			t.Errorf("%d still wait", parent.waiting)
		}
	}
}
