package testenv

import (
	"fmt"
	"os"
)

// CountFile names the environment variable with the file that [Count] appends to.
const CountFile = "ONCE_COUNTS"

// Count tells make card how often a test has done something, such as killing a process or visiting a point of a loop. Without make card, Count does nothing.
func Count(what string, n int) {
	name := os.Getenv(CountFile)
	if name == "" || n == 0 {
		return
	}
	if err := appendLine(name, fmt.Sprintf("%d %s", n, what)); err != nil {
		panic(err) // a card without this line would be wrong
	}
}
