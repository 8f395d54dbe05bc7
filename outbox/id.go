package outbox

import (
	"crypto/sha256"
	"encoding/hex"
	"strconv"

	"github.com/oncelib/once"
)

// IDFor returns an ID for a message (message.Message.ID) that is derived from an operation. The ID is a UUID of
// version 8. Each execution of the operation, in any process and at any time, gives the same ID. The parameter n
// distinguishes the messages of one operation. If two regions that cannot reach each other both execute the same
// operation, both regions add a message with the same ID, and an inbox applies only one of the two messages. An
// inbox detects such a duplicate only if both messages have the same Source, and if their payload depends only
// on the request. The result of IDFor never changes between versions of this library.
func IDFor(op once.Operation, n int) string {
	sum := sha256.Sum256([]byte("message:" + once.DeriveKey(op.Scope, op.Key, strconv.Itoa(n))))
	u := sum[:16]
	u[6], u[8] = u[6]&0x0f|0x80, u[8]&0x3f|0x80 // version 8 of a UUID: the other bits are free for a hash
	s := hex.EncodeToString(u)
	return s[:8] + "-" + s[8:12] + "-" + s[12:16] + "-" + s[16:20] + "-" + s[20:]
}
