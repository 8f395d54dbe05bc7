package redisstore_test

import (
	"bytes"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/oncelib/once/internal/testenv"
)

// TestStoppedHolderChangesNothing: a holder is stopped (SIGSTOP) in its call for longer than its lease, and another process takes the operation over. When it goes on, it changes
// nothing, and its caller gets the answer of the other one or an error.
func TestStoppedHolderChangesNothing(t *testing.T) {
	testenv.Core(t)
	server := start(t, durable)
	rdb := clientOf(t, server.Addr())
	dir := t.TempDir()
	box, stop := mailbox(dir+"/sent"), dir+"/in call"
	cmd := child(t, server.Addr(), "stopped", box, stop)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, os.Stderr
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	until(t, func() bool { _, err := os.Stat(stop); return err == nil })
	if err := cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	if _, err := box.mail(t.Context(), open(t, server.Addr()), "stopped", func() {}); err == nil {
		t.Error("taken over while the lease lasts")
	}
	advance(t, rdb, time.Hour)
	taken, err := box.mail(t.Context(), open(t, server.Addr()), "stopped", func() {})
	if err != nil || taken.Replayed {
		t.Errorf("taken over: %+v, %v", taken, err)
	}
	before, err := rdb.HGetAll(t.Context(), "{once}:op:mail\x00stopped").Result()
	if err != nil || len(before) == 0 {
		t.Fatal(before, err)
	}
	if err := cmd.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	if err := stdin.Close(); err != nil {
		t.Error(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
	if _, answer, _ := strings.Cut(out.String(), "answer: "); !strings.HasPrefix(answer, `"`+taken.Value+`"`) && !strings.HasPrefix(answer, `"" `) || strings.HasPrefix(answer, `"" ok`) {
		t.Errorf("the one that was stopped says %q", out.String())
	} else {
		t.Log(answer)
	}
	after, err := rdb.HGetAll(t.Context(), "{once}:op:mail\x00stopped").Result()
	if err != nil || len(after) != len(before) || after["nonce"] != before["nonce"] || after["fence"] != before["fence"] {
		t.Errorf("the record was %q and is %q, %v", before, after, err)
	}
	if n := len(box.keys()); n != 1 {
		t.Errorf("%d were sent", n)
	}
}
