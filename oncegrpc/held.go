package oncegrpc

import (
	"context"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"github.com/oncelib/once/internal/base/wire"
	"github.com/oncelib/once/internal/rpc"
)

// held is the metadata that one run of a handler has set. It is sent after the commit. The metadata of a run that was rolled back is dropped.
type held struct {
	grpc.ServerTransportStream

	header, trailer metadata.MD
}

// hold returns a context in which the metadata that a handler sets is held back.
func hold(ctx context.Context) (context.Context, *held) {
	h := &held{ServerTransportStream: grpc.ServerTransportStreamFromContext(ctx)}
	if h.ServerTransportStream == nil { // not called by a server
		return ctx, h
	}
	return grpc.NewContextWithServerTransportStream(ctx, h), h
}

// SetHeader implements [grpc.ServerTransportStream].
func (h *held) SetHeader(md metadata.MD) error {
	h.header = metadata.Join(h.header, md)
	return nil
}

// SendHeader sets the header but does not send it, because nothing is sent before the commit.
func (h *held) SendHeader(md metadata.MD) error { return h.SetHeader(md) }

// SetTrailer implements [grpc.ServerTransportStream].
func (h *held) SetTrailer(md metadata.MD) error {
	h.trailer = metadata.Join(h.trailer, md)
	return nil
}

// send passes the held metadata to the stream of ctx, together with the outcome of the call.
func (h *held) send(ctx context.Context, outcome, says, retention string) {
	header := h.header.Copy()
	if header == nil {
		header = metadata.MD{}
	}
	// The handler must not be able to claim an outcome.
	for _, name := range [...]string{rpc.StatusHeader, rpc.ReplayedHeader, rpc.RetentionHeader} {
		header.Delete(name)
	}
	if says != "" {
		header.Set(rpc.StatusHeader, says)
	}
	if outcome == wire.StatusReplayed {
		header.Set(rpc.ReplayedHeader, "true")
	}
	if outcome == wire.StatusStored || outcome == wire.StatusReplayed {
		header.Set(rpc.RetentionHeader, retention)
	}
	_ = grpc.SetHeader(ctx, header) // fails without a server, or if the caller no longer waits
	_ = grpc.SetTrailer(ctx, h.trailer)
}
