package main

import (
	"context"
	"fmt"

	"github.com/oncelib/once/cmd/once/internal/cli"
)

// deadletterChecks are the same for all dialects. Without the tables of dead letters there is nothing to ask.
var deadletterChecks = []check{{"dead_letters", askLetters}}

// askLetters asks for messages that wait for a person.
func askLetters(ctx context.Context, p *patient) (finding, error) {
	var n, redriven int
	err := p.QueryRowContext(ctx, "select count(*), count(redrive_at) from once_deadletter where state = 'dead'").Scan(&n, &redriven)
	switch {
	case err != nil:
		return finding{}, err
	case n == 0:
		return fine("no message is a dead letter"), nil
	case n == redriven:
		return fine("%s for their redrive", cli.Either(n == 1, "1 dead letter waits", fmt.Sprintf("%d dead letters wait", n))), nil
	}
	says := cli.Either(n-redriven == 1, "1 dead letter waits", fmt.Sprintf("%d dead letters wait", n-redriven)) + " for a person"
	return warn.because(says, "once deadletter list --db "+p.Paste), nil
}
