package dynamostore_test

import (
	"fmt"
	"os"
	"os/exec"
	"sync/atomic"
	"testing"
	"time"

	"github.com/oncelib/once"
	"github.com/oncelib/once/internal/testenv"
	"github.com/oncelib/once/lease"
	"github.com/oncelib/once/store/dynamostore"
	"github.com/oncelib/once/store/dynamostore/internal/dynamofake"
)

const (
	childURL  = "ONCE_DYNAMO_CHILD"
	childFlow = "ONCE_DYNAMO_FLOW"
	childKey  = "ONCE_DYNAMO_KEY"
)

// works are what a process does that is killed: an operation, a batch, and leased work.
var works = map[string]func(t *testing.T, url, key string) error{
	"do": func(t *testing.T, url, key string) error {
		_, err := once.Do(t.Context(), once.New(dynamostore.New(clientOf(url, 1), "once"), once.Config{}), operation(key), order(key))
		return err
	},
	"batch": func(t *testing.T, url, key string) error {
		_, err := once.DoBatch(t.Context(), once.New(dynamostore.New(clientOf(url, 1), "once"), once.Config{}), operation(key), func(b *once.Batch) (string, error) {
			b.Exec("item", effect(key))
			return once.NewKey(), nil
		})
		return err
	},
	"lease": func(t *testing.T, url, key string) error {
		s := dynamostore.New(clientOf(url, 1), "once")
		_, err := once.Do(t.Context(), once.New(lease.New(s, lease.Config{}), once.Config{}), operation(key), charge(s, key, func(string) error { return nil }))
		return err
	},
}

// TestChildProcess is the process that TestKillAtEveryRequest kills.
func TestChildProcess(t *testing.T) {
	url := os.Getenv(childURL)
	if url == "" {
		t.Skip("only as a child of TestKillAtEveryRequest")
	}
	if err := works[os.Getenv(childFlow)](t, url, os.Getenv(childKey)); err != nil {
		t.Error(err)
	}
}

// TestKillAtEveryRequest kills a process when its Nth request has come to the service, N = 1, 2, ...: before the request has its effect and after it.
// Another process then gets the same key.
func TestKillAtEveryRequest(t *testing.T) {
	testenv.Core(t)
	kills := 0
	for name, work := range works {
		for _, fault := range []dynamofake.Fault{dynamofake.CutBefore, dynamofake.CutAfter} {
			for n := int64(1); ; n++ {
				server, client := newFake(t)
				key := fmt.Sprint(name, fault, n)
				child := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestChildProcess$")
				child.Env = append(os.Environ(), childURL+"="+server.URL, childFlow+"="+name, childKey+"="+key)
				var seen atomic.Int64
				started := make(chan struct{})
				server.SetFault(func(string) dynamofake.Fault {
					if seen.Add(1) != n {
						return dynamofake.None
					}
					<-started
					_ = child.Process.Kill()
					return fault
				})
				if err := child.Start(); err != nil {
					t.Fatal(err)
				}
				close(started)
				err := child.Wait()
				killed := seen.Load() >= n
				if !killed && err != nil {
					t.Fatalf("%s: the child: %v", key, err)
				}
				server.SetFault(nil)
				server.Advance(time.Hour)
				if err := work(t, server.URL, key); err != nil {
					t.Errorf("%s: afterwards: %v", key, err)
				}
				if got := count(t, client, key); got != 1 {
					t.Errorf("%s: %d effects", key, got)
				}
				if !killed {
					break
				}
				kills++
			}
		}
	}
	if testenv.Reportf(t, "%d processes were killed at a request", kills); kills < 12 {
		t.Errorf("vacuous: %d kills", kills)
	}
}
