package redisstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"slices"

	"github.com/redis/go-redis/v9"

	"github.com/oncelib/once/store"
)

// call is one run of a script.
type call struct {
	keys []string
	args []any
}

var errBehind = errors.New("redisstore: too few replicas have confirmed the write in time. Try: check whether the replicas are connected to the primary")

// run runs a script that returns a list. confirmed has the meaning that it has in send.
func (s *Store) run(ctx context.Context, script script, writes bool, c call) (answer []any, confirmed bool, err error) {
	answers, confirmed, err := s.send(ctx, script, writes, []call{c})
	if err != nil {
		return nil, false, err
	}
	answer, err = answers[0].Slice()
	return answer, confirmed, failed(err, writes)
}

// send runs a script for each of calls, in one pipeline. confirmed is true if the required replicas have everything that the calls
// have written or seen. WAIT covers only the writes of its own connection, so it is in the same pipeline. err is the first error of a call.
func (s *Store) send(ctx context.Context, script script, writes bool, calls []call) (answers []*redis.Cmd, confirmed bool, err error) {
	// Checked before anything is sent: an error afterwards would leave a write uncertain.
	if err := ctx.Err(); err != nil {
		return nil, false, failed(err, false)
	}
	for load := false; ; load = true {
		pipe := s.rdb.Pipeline()
		if load {
			pipe.ScriptLoad(ctx, script.text)
		}
		answers, err = nil, nil
		for _, c := range calls {
			answers = append(answers, pipe.EvalSha(ctx, script.sum, c.keys, c.args...))
		}
		wait := redis.NewCmdResult(int64(0), nil)
		if s.cfg.Replicas > 0 {
			wait = pipe.Do(ctx, "wait", s.cfg.Replicas, replicaWait.Milliseconds())
		}
		_, _ = pipe.Exec(ctx) // each command has its own error
		for _, a := range answers {
			err = cmp.Or(err, a.Err())
		}
		// A server forgets its scripts when it restarts, so the script is sent once more.
		if load || !redis.HasErrorPrefix(err, "NOSCRIPT") { // NOSCRIPT: the script has not run
			have, unheard := wait.Int()
			return answers, unheard == nil && have >= s.cfg.Replicas, failed(err, writes)
		}
	}
}

// unavailable are the answers that the server gives before it executes a command, and that may change with time.
var unavailable = []string{
	"LOADING", "READONLY", "MASTERDOWN", "CLUSTERDOWN", "NOREPLICAS", "MISCONF", "OOM", "BUSY", "TRYAGAIN", "NOAUTH", "WRONGPASS", "NOPERM", "max number of clients",
}

// failed classifies the error of a command. It returns nil for nil. A write without an answer may have been executed, or may still be.
func failed(err error, writes bool) error {
	kind := store.KindUnavailable
	var answer redis.Error
	switch {
	case err == nil:
		return nil
	case errors.As(err, &answer):
		if !slices.ContainsFunc(unavailable, func(prefix string) bool { return redis.HasErrorPrefix(err, prefix) }) {
			kind = store.KindOther
		}
		// The server's own text does not say what to do.
		if redis.HasErrorPrefix(err, "OOM") {
			err = fmt.Errorf("redisstore: the memory of the Redis server is full: %w. Try: a larger maxmemory, or a shorter retention", err)
		}
	case writes && !neverSent(err):
		kind = store.KindLost
	}
	return &store.Error{Kind: kind, Err: err}
}

// neverSent reports whether err says that no byte of the command was sent.
func neverSent(err error) bool {
	var network *net.OpError
	// Only errors from before the first byte: after it, the server may have received the whole command.
	return errors.As(err, &network) && network.Op == "dial" ||
		errors.Is(err, redis.ErrPoolTimeout) || errors.Is(err, redis.ErrPoolExhausted) || errors.Is(err, redis.ErrClosed)
}
