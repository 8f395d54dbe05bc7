package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"time"
)

// supervise runs the broker, and each service as a process of its own, which is started again when it was killed: in production that is the work of
// Kubernetes or systemd.
func (cfg *config) supervise(ctx context.Context, args []string) error {
	if err := os.MkdirAll(cfg.dir, 0o700); err != nil {
		return fmt.Errorf("%w. Try: -dir with a writable folder", err)
	}
	server, err := startBroker(filepath.Join(cfg.dir, "nats"), cfg.broker())
	if err != nil {
		return err
	}
	defer server.WaitForShutdown()
	defer server.Shutdown()
	var parts []func(context.Context) error
	for i, s := range services {
		fmt.Printf("%-9s http://%s, metrics at http://%s/metrics\n", s.name, cfg.serving(i), cfg.metrics(i))
		parts = append(parts, func(ctx context.Context) error { return keepAlive(ctx, s.name, args) })
	}
	fmt.Printf("%-9s nats://%s\n", "broker", cfg.broker())
	return together(ctx, parts...)
}

// keepAlive runs a service until ctx ends, and starts it again when it was killed. It returns an error if the service ends by itself: the next one
// would do the same.
func keepAlive(ctx context.Context, name string, args []string) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	for {
		cmd := exec.CommandContext(ctx, self, append([]string{name}, args...)...) //nolint:gosec // this program once more
		cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
		cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) } // it finishes what it has begun
		cmd.WaitDelay = drain
		_, err := cmd.StdinPipe() // its other end is closed when this process dies, and then the service ends, too
		if err == nil {
			err = cmd.Run()
		}
		var exit *exec.ExitError
		switch {
		case ctx.Err() != nil:
			return nil //nolint:nilerr // it was asked to end
		case err == nil, !errors.As(err, &exit), exit.ExitCode() == failed:
			return fmt.Errorf("%s has ended by itself: %w", name, err)
		}
		fmt.Printf("%-9s was killed, and starts again\n", name)
	}
}

// drain is how long a service may go on when it is asked to end.
const drain = 10 * time.Second

// together runs all parts until ctx ends, or one of them does.
func together(ctx context.Context, parts ...func(context.Context) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var running sync.WaitGroup
	for _, part := range parts {
		running.Go(func() { cancel(part(ctx)) })
	}
	running.Wait()
	if err := context.Cause(ctx); !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}
