package wire

import (
	"strconv"
	"time"
)

// FormatRetention returns the value of a RetentionHeader: a number of seconds.
func FormatRetention(retain time.Duration) string {
	return strconv.FormatInt(int64(retain/time.Second), 10)
}
