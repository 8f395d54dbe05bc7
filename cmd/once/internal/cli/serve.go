package cli

import (
	"context"
	"errors"
	"net"
	"net/http"
	"time"
)

// Serve serves until ctx ends, and then until the requests in flight are answered.
func Serve(ctx context.Context, server *http.Server, l net.Listener) error {
	down := make(chan error, 1)
	stop := context.AfterFunc(ctx, func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 15*time.Second)
		defer cancel()
		down <- server.Shutdown(ctx)
	})
	defer stop()
	if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return <-down
}
