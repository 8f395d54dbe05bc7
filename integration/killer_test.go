package integration

import (
	"sync/atomic"

	"github.com/oncelib/once/integration/harness"
	"github.com/oncelib/once/internal/faultnet"
)

// Modes: what is counted on the way to death.
const (
	byName  = "named"   // places in the code
	byWrite = "send"    // before each write to a socket
	byRead  = "receive" // before each read from a socket
	byByte  = "byte"    // between outgoing bytes
	byStop  = "stopped" // as byName, and not to death: SIGSTOP
	// Any other mode is a system call: see strace_test.go.
)

// killer ends this process at one point.
type killer struct {
	mode  string
	at    int64
	wire  faultnet.Wire
	armed atomic.Bool
	names atomic.Int64
}

// arm starts to count.
func (k *killer) arm() {
	k.wire.Reset()
	switch {
	case k.at == 0:
	case k.mode == byWrite:
		k.wire.BeforeWrite(k.at, faultnet.KillProcess)
	case k.mode == byRead:
		k.wire.BeforeRead(k.at, faultnet.KillProcess)
	case k.mode == byByte:
		k.wire.BeforeByte(k.at, faultnet.KillProcess)
	}
	k.armed.Store(true)
}

// named passes a place in the code. Its name is for the reader.
func (k *killer) named(string) {
	if !k.armed.Load() || k.mode != byName && k.mode != byStop || k.names.Add(1) != k.at {
		return
	}
	if k.mode == byStop {
		if err := harness.Stop(); err != nil {
			panic(err)
		}
		return
	}
	faultnet.KillProcess(nil)
}

// passed returns how many points there were.
func (k *killer) passed() int64 {
	counts := k.wire.Counts()
	switch k.mode {
	case byName, byStop:
		return k.names.Load()
	case byWrite:
		return counts.Writes
	case byRead:
		return counts.Reads
	case byByte:
		return counts.Sent
	}
	return 0
}
