package payments

import (
	"crypto/rand"
	"strings"
	"time"
)

// newID returns prefix and 130 random bits.
func newID(prefix string) string { return prefix + strings.ToLower(rand.Text()) }

// now is in microseconds and of fixed width, so that it sorts as text.
func now() string { return time.Now().UTC().Format("2006-01-02T15:04:05.000000Z") }
