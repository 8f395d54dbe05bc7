package doctor

import (
	"context"

	"github.com/oncelib/once/internal/base/words"
)

// letterChecks are the same for all dialects. Without the tables of dead letters there is nothing to ask.
var letterChecks = []check{{"dead_letters", askLetters, "OnceDeadLetters"}}

// askLetters asks for messages that wait for a person.
func askLetters(ctx context.Context, p *examination) (Finding, error) {
	var n, redriven int
	err := p.DB.QueryRowContext(ctx, "select count(*), count(redrive_at) from once_deadletter where state = 'dead'").Scan(&n, &redriven)
	switch {
	case err != nil:
		return Finding{}, err
	case n == 0:
		return fine("the database has no dead letter"), nil
	case n == redriven:
		return fine("%s until an inbox or a relay redrives them", lettersWait(n)), nil
	}
	return warn(lettersWait(n-redriven)+" for the decision of a person: redrive or discard", "once deadletter list --db "+p.URL), nil
}

func lettersWait(n int) string {
	return words.Counted(n, "dead letter waits", "dead letters wait")
}
