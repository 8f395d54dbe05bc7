package redisstore_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/oncelib/once"
	"github.com/oncelib/once/internal/testenv"
	"github.com/oncelib/once/lease"
	"github.com/oncelib/once/store/redisstore"
)

const (
	childAddr = "ONCE_REDIS_CHILD"
	childKey  = "ONCE_REDIS_KEY"
	childSent = "ONCE_REDIS_SENT" // a file with a line for each mail
	childStop = "ONCE_REDIS_STOP" // a file that comes when a call is under way that waits
)

// mailbox is a file with a line for each mail that was sent under a key that was not known before.
type mailbox string

func (m mailbox) keys() (keys []string) {
	text, err := os.ReadFile(string(m))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		panic(err)
	}
	return strings.Fields(string(text))
}

func (m mailbox) send(key string) (string, error) {
	if slices.Contains(m.keys(), key) {
		return "sent " + key, nil
	}
	file, err := os.OpenFile(string(m), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return "", err
	}
	_, err = fmt.Fprintln(file, key)
	return "sent " + key, errors.Join(err, file.Close())
}

func (m mailbox) mail(ctx context.Context, s *redisstore.Store, key string, inCall func()) (once.Result[string], error) {
	e := once.New(lease.New(s, lease.Config{TTL: time.Minute}), once.Config{Observer: once.Discard})
	return once.Do(ctx, e, operation(key), func(ctx context.Context, run *lease.Run) (string, error) {
		return lease.Call(ctx, run, "send", func(_ context.Context, key string) (string, error) {
			inCall()
			return m.send(key)
		}, lease.CallPolicy{DedupedFor: time.Hour})
	})
}

// TestChildProcess is the process that other tests kill or stop.
func TestChildProcess(t *testing.T) {
	addr := os.Getenv(childAddr)
	if addr == "" {
		t.Skip("only as a child of other tests")
	}
	inCall := func() {
		stop := os.Getenv(childStop)
		if stop == "" {
			return
		}
		if err := os.WriteFile(stop, nil, 0o600); err != nil {
			t.Error(err)
		}
		_, _ = os.Stdin.Read(make([]byte, 1)) // until the test says so
	}
	r, err := mailbox(os.Getenv(childSent)).mail(t.Context(), open(t, addr), os.Getenv(childKey), inCall)
	fmt.Printf("answer: %q %v\n", r.Value, once.CodeOf(err))
}

func child(t *testing.T, addr, key string, box mailbox, stop string) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestChildProcess$")
	cmd.Env = append(os.Environ(), childAddr+"="+addr, childKey+"="+key, childSent+"="+string(box), childStop+"="+stop)
	return cmd
}

// TestKillAtEveryCommand kills a process when its Nth command has come to the server, N = 1, 2, ...: before the command has its effect and after it. Another process
// then gets the same key.
func TestKillAtEveryCommand(t *testing.T) {
	testenv.Core(t)
	server := start(t, durable)
	rdb := clientOf(t, server.Addr())
	box := mailbox(t.TempDir() + "/sent")
	kills := 0
	for _, how := range []fault{cutBefore, cutAfter, later} {
		for n := int64(1); ; n++ {
			p := newProxy(t, server.Addr())
			key := fmt.Sprint("killed ", how, " ", n)
			before := len(box.keys())
			cmd := child(t, p.addr(), key, box, "")
			var seen atomic.Int64
			started := make(chan struct{})
			p.setFault(func(string) fault {
				if seen.Add(1) != n {
					return none
				}
				<-started
				_ = cmd.Process.Kill()
				return how
			})
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			close(started)
			err := cmd.Wait()
			killed := seen.Load() >= n
			if !killed && err != nil {
				t.Fatalf("%s: the child: %v", key, err)
			}
			p.setFault(nil)
			until(t, func() bool { return p.busy.Load() == 0 }) // the last command of the child is not on its way any more
			advance(t, rdb, time.Hour)
			if _, err := box.mail(t.Context(), open(t, server.Addr()), key, func() {}); err != nil {
				t.Errorf("%s: afterwards: %v", key, err)
			}
			p.release()
			if r, err := box.mail(t.Context(), open(t, server.Addr()), key, func() {}); err != nil || !r.Replayed {
				t.Errorf("%s: in the end: %+v, %v", key, r, err)
			}
			if sent := len(box.keys()) - before; sent != 1 {
				t.Errorf("%s: %d were sent", key, sent)
			}
			if !killed {
				break
			}
			kills++
		}
	}
	if testenv.Reportf(t, "%d processes were killed at a command", kills); kills < 9 {
		t.Errorf("vacuous: %d kills", kills)
	}
}
