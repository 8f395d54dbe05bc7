package once

import (
	"strings"
	"time"
)

// KeyTime returns when a key was made, to the millisecond and by the clock of its maker, if
// it is a UUID of version 7, as those of [NewKey] are, or ends in one after
// a colon, as in a [Namespace].
func KeyTime(key string) (t time.Time, ok bool) {
	u := key[strings.LastIndexByte(key, ':')+1:]
	if len(u) != 36 || u[8] != '-' || u[13] != '-' || u[18] != '-' || u[23] != '-' || u[14] != '7' {
		return t, false
	}
	var ms int64
	for i, digits := 0, 0; i < len(u); i++ {
		switch i {
		case 8, 13, 18, 23:
			continue
		}
		d := strings.IndexByte("0123456789abcdef0123456789ABCDEF", u[i])
		if d < 0 || i == 19 && d&0b1100 != 0b1000 {
			return t, false
		}
		if digits++; digits <= 12 {
			ms = ms<<4 | int64(d&15)
		}
	}
	return time.UnixMilli(ms), true
}
