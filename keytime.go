package once

import (
	"encoding/binary"
	"encoding/hex"
	"strings"
	"time"
)

// KeyTime returns when a key was made, to the millisecond and by the clock of who has
// made it, if it is a UUID of version 7, as those of [NewKey] are, or ends in one after
// a colon, as in a [Namespace].
func KeyTime(key string) (t time.Time, ok bool) {
	u := key[strings.LastIndexByte(key, ':')+1:]
	if len(u) != 36 || u[8] != '-' || u[13] != '-' || u[18] != '-' || u[23] != '-' || u[14] != '7' {
		return t, false
	}
	raw, err := hex.DecodeString(u[:8] + u[9:13] + u[14:18] + u[19:23] + u[24:])
	if err != nil || raw[8]>>6 != 2 {
		return t, false
	}
	var ms [8]byte
	copy(ms[2:], raw[:6])
	return time.UnixMilli(int64(binary.BigEndian.Uint64(ms[:]))), true
}
