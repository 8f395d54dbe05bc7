package testenv

import (
	"context"
	"os"
	"testing"
	"time"
)

func TestRabbitMQIsKilledAndRestarted(t *testing.T) {
	t.Parallel()
	Need(t, "rabbitmq")
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	n, err := StartRabbitMQ(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = n.Close() }()
	addr := n.Addr()
	if err := n.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := n.greets(ctx); err == nil {
		t.Error("a killed server answers")
	}
	if err := n.Restart(ctx); err != nil {
		t.Fatal(err)
	}
	if n.Addr() != addr {
		t.Errorf("%s after the restart, %s before", n.Addr(), addr)
	}
	home := n.dir.path
	if err := n.Close(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(home); !os.IsNotExist(err) {
		t.Errorf("%s is still there: %v", home, err)
	}
}
