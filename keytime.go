package once

import (
	"time"

	"github.com/oncelib/once/internal/base/keyname"
)

// KeyTime returns when a key was made, to the millisecond and by the clock of its maker, if
// it is a UUID of version 7, as those of [NewKey] are, or ends in one after
// a colon, as in a [Namespace].
func KeyTime(key string) (t time.Time, ok bool) { return keyname.Time(key) }
