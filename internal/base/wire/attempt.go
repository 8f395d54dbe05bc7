package wire

import "strconv"

// Attempt returns the number of the attempt that the lines of an AttemptHeader say. 0: they
// say none. A number that cannot be read only serves logs and hints, so it is no error.
func Attempt(lines []string) int {
	const longest = 128 // as of everything that goes to logs
	if len(lines) != 1 || len(lines[0]) > longest {
		return 0
	}
	n, err := strconv.ParseUint(lines[0], 10, 31)
	if err != nil {
		return 0
	}
	return int(n)
}
