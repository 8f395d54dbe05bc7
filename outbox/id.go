package outbox

import (
	"crypto/sha256"
	"encoding/hex"
	"strconv"

	"github.com/oncelib/once"
)

// IDFor returns a message.Message.ID that is made of an operation: a UUID of version 8, the same one wherever and whenever the operation is
// executed. n tells the messages of one operation apart. Two regions that cannot see each other, and that execute one operation each for
// itself, so add the same message, and an inbox applies it once. For that its Source must be the same as well, and its
// payload must be made of the request alone. It never changes.
func IDFor(op once.Operation, n int) string {
	sum := sha256.Sum256([]byte("message:" + once.DeriveKey(op.Scope, op.Key, strconv.Itoa(n))))
	u := sum[:16]
	u[6], u[8] = u[6]&0x0f|0x80, u[8]&0x3f|0x80 // version 8: made of what it names
	s := hex.EncodeToString(u)
	return s[:8] + "-" + s[8:12] + "-" + s[12:16] + "-" + s[16:20] + "-" + s[20:]
}
