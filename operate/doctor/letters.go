package doctor

import (
	"context"

	"github.com/oncelib/once/internal/base/words"
)

// letterChecks are the checks of dead letters, for all dialects. They do not apply if the tables of dead letters are missing.
var letterChecks = []check{{name: "dead_letters", ask: askLetters, runbook: "OnceDeadLetters", table: "once_deadletter"}}

// askLetters finds dead letters that wait for a person.
func askLetters(ctx context.Context, p *examination) (Finding, error) {
	var n, redriven int
	err := p.DB.QueryRowContext(ctx, "select count(*), count(redrive_at) from once_deadletter where state = 'dead'").Scan(&n, &redriven)
	switch {
	case err != nil:
		return Finding{}, err
	case n == 0:
		return fine("the database has no dead letter"), nil
	// These letters need no person any more.
	case n == redriven:
		return fine("%s until an inbox or a relay redrives them", lettersWait(n)), nil
	}
	return warn(lettersWait(n-redriven)+" for the decision of an operator: redrive or discard", "once deadletter list --db "+p.URL), nil
}

func lettersWait(n int) string {
	return words.Counted(n, "dead letter waits", "dead letters wait")
}
